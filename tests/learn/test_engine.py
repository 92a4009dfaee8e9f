"""The engine of the page computes what retrofit_core computes: the same networks and settings through both."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from retrofit_app.learn import FOLDER
from retrofit_app.learn.train import PARENTS, SAMPLES, TEST, accuracy, network, points
from retrofit_core import METHODS
from retrofit_core.fusion.grouping import Grouping, grouped_cost
from retrofit_core.training.evaluation import ensemble
from tests.properties import as_sets

pytestmark = pytest.mark.browser


GIVEN = json.loads(PARENTS.read_text())


CLOSE = {"rtol": 1e-6, "atol": 1e-6}


def case(regime: str = "classes", names: str = "AB", **options: Any) -> dict[str, Any]:
    """A setting: parents by name, with their hidden width behind it where that is not 8, and options of `Engine.fuse`; so many
    restarts of k-means that both sides find the least cost."""
    parents = names.split() if " " in names else list(names)
    return {"regime": regime, "parents": parents, "restarts": 120 if len(parents) == 2 else 600, **options}


#: Groups of 8 + 8 neurons that no method would find.
GROUPS = [[0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3], [5, 4, 3, 2, 1, 0, 5, 4, 3, 2, 1, 0, 0, 0, 1, 1]]


CASES = [
    case(score="deeplift"),
    case(),
    case(method="HF", score="conductance", samples=[0, 1]),
    case(score="conductance", width=5, restarts=400),
    case(score="uniform", width=12),
    case(score="conductance", widths=[6, 10]),
    case(names="ABCD", score="conductance", width=10),
    case(names="A B12", score="conductance"),
    case(names="A12 B12", method="HF"),
    case(regime="skewed", names="ACD", score="deeplift", width=5),
    case(regime="all", names="ABCD", score="conductance", width=5),
    case(score="conductance", ridge="0.3x"),
    case(names="ABC", ridge="3x", width=6),
    case(names="ABCD", fit=False, width=9),
    case(method="same-index", score="conductance"),
    case(score="conductance", head="ensemble"),
    case(names="ABC", width=6, head="ensemble"),
    case(width=6, groups=GROUPS),
    case(score="conductance", width=6, groups=GROUPS, fit=False),
]


@pytest.fixture(scope="module")
def engine(browser: Any) -> Iterator[Any]:
    """A browser's page that has `Engine`."""
    page = browser.new_page()
    page.add_script_tag(path=FOLDER / "engine.js")
    yield page
    page.close()


def facts_of(setting: dict[str, Any], name: str) -> dict[str, Any]:
    """What parents.json says of a parent."""
    return GIVEN["parents"][setting["regime"]][name[1:] or "8"]["ABCD".index(name[0])]


def model_of(facts: dict[str, Any]) -> nn.Sequential:
    return network(facts["weights"], facts["biases"])


def samples_of(setting: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The fusion samples: those of the classes that are named."""
    x, y = points(**SAMPLES)
    keep = torch.isin(y, torch.tensor(setting.get("samples", [0, 1, 2, 3])))
    return x[keep], y[keep]


def empty(widths: list[int]) -> nn.Sequential:
    """A network of the fused widths, for the core."""
    first, second = widths
    return network([np.zeros(shape).tolist() for shape in ((first, 2), (second, first), (4, second))],
                   [np.zeros(size).tolist() for size in (first, second, 4)])  # fmt: skip


def by_core(setting: dict[str, Any]) -> Any:
    """The fusion by retrofit_core."""
    facts = [facts_of(setting, name) for name in setting["parents"]]
    parents = [model_of(each) for each in facts]
    widths = setting.get("widths") or [setting.get("width", len(facts[0]["biases"][0]))] * 2
    left = [torch.tensor(labels) for labels in setting.get("groups", [])]

    def given(gram: Tensor, scores: Tensor, sizes: Any, width: int, *, generator: Any = None) -> Grouping:
        labels = left.pop(0)
        return Grouping(labels, width, grouped_cost(gram, scores, labels, width))

    method = "HF-Linear" if setting.get("method") == "HF" else "KF-Linear"
    score, keywords = setting.get("score", "uniform"), {}
    if score != "uniform":
        keywords["importance_data"] = [points(**each["saw"]) for each in facts]
    if setting.get("method") == "same-index":
        keywords["grouping"] = "same_index"
    elif method == "KF-Linear":
        keywords |= {"grouping": given} if left else {"restarts": setting["restarts"]}
    keywords |= {name: setting[name] for name in ["head", "ridge"] if name in setting} | {"toward": "zero"}
    return METHODS[method](
        parents,
        samples_of(setting)[0],
        importance=score,
        target=empty(widths),
        refit=setting.get("fit", True),
        **keywords,
    )


def by_engine(page: Any, setting: dict[str, Any]) -> dict[str, Any]:
    """The fusion by the page's engine."""
    names = ("method", "score", "head", "width", "widths", "ridge", "fit", "groups", "restarts")
    options = {name: setting[name] for name in names if name in setting}
    return page.evaluate(
        """({ parents, samples, options, tested }) => {
            const own = parents.map(({ saw }) => Engine.data(saw.seed, saw.count, saw.seen));
            const { network, levels } = Engine.fuse(parents, samples, { ...options, own });
            return { network, levels, accuracy: 100 * Engine.accuracy(network, tested.points, tested.labels),
                     ensemble: 100 * Engine.accuracy(Engine.ensemble(parents, tested.points), tested.points, tested.labels) };
        }""",
        {
            "parents": [facts_of(setting, name) for name in setting["parents"]],
            "samples": samples_of(setting)[0].tolist(),
            "options": options,
            "tested": dict(zip(("points", "labels"), (each.tolist() for each in points(**TEST)), strict=True)),
        },
    )


def names_of(level: dict[str, Any], report: Any) -> list[int]:
    """The core's group that is each group of ours; groups without a neuron of parent 0 have any number."""
    assert as_sets(report.labels) == as_sets(torch.tensor(level["labels"])), report.name
    return [int(report.labels[level["labels"].index(k)]) for k in range(level["width"])]


@pytest.mark.parametrize(
    "setting",
    [CASES[0], *(pytest.param(one, marks=pytest.mark.long) for one in CASES[1:])],
    ids=lambda setting: " ".join(f"{k}={v}" for k, v in setting.items())[:90],
)
def test_a_fusion_is_that_of_the_core(engine, setting):
    ours, theirs = by_engine(engine, setting), by_core(setting)
    test_inputs, test_labels = points(**TEST)
    layers, before = theirs.model[::2], [0, 1]
    for index, (level, report) in enumerate(zip(ours["levels"], theirs.levels, strict=True)):
        np.testing.assert_allclose(level["scores"], report.scores, rtol=1e-9, atol=1e-12)
        if "costs" in report.grouping:
            assert level["cost"] == pytest.approx(min(report.grouping["costs"]), rel=1e-6)
        names = names_of(level, report)
        if level["width"] <= level["widths"][0] and "groups" not in setting:
            assert names == list(range(level["width"])), "groups are numbered like parent 0's neurons"
        for ours_is, theirs_is in (
            ("grouping", report.grouping_error),
            ("approximation", report.approximation_error),
            ("J", report.cost),
            ("energy", report.energy),
            ("lambda", report.ridge),
        ):
            assert level[ours_is] == pytest.approx(theirs_is, rel=1e-6, abs=1e-6), ours_is
        assert level["J"] == pytest.approx(level["grouping"] + level["approximation"], rel=1e-9, abs=1e-9)
        targets = np.array(level["Z"]) @ report.target_weights.numpy()
        np.testing.assert_allclose(level["targets"], targets[:, names], **CLOSE)
        weights = layers[index].weight.detach()[names][:, before]
        np.testing.assert_allclose(ours["network"]["weights"][index], weights, **CLOSE)
        np.testing.assert_allclose(ours["network"]["biases"][index], layers[index].bias.detach()[names], **CLOSE)
        before = names
    assert ours["accuracy"] == pytest.approx(accuracy(theirs.model, test_inputs, test_labels), abs=1e-9)
    parents = [model_of(facts_of(setting, name)) for name in setting["parents"]]
    assert ours["ensemble"] == pytest.approx(accuracy(ensemble(parents), test_inputs, test_labels), abs=1e-9)
