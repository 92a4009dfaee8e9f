"""The analysis of a finished fusion: every number against a slower way, and known ends."""

import copy
import dataclasses
import json

import numpy as np
import pytest
import torch
from torch import nn

from retrofit_core.data.images import Images, in_memory
from retrofit_core.fusion.results import FusionResult
from retrofit_core.inspection.analysis import Analysis, analyse
from retrofit_core.inspection.analysis.accuracy import answers_by_level
from retrofit_core.inspection.analysis.networks import fused_networks
from retrofit_core.networks.architectures import build
from retrofit_core.system.runtime import Runtime
from tests import reference
from tests.flat import fuse
from tests.marks import each_case
from tests.networks import CNN_SHAPE, VIT, batchnorm_cnn, cnn, labels, mlp, normal
from tests.properties import as_groups, as_sets, assert_close, untouched

EVERY = ("uniform", "conductance", "deeplift")


def flat_mlp(sizes=(6, 8, 7, 3), seed=0):
    return nn.Sequential(nn.Flatten(), *mlp(sizes, seed=seed)).eval()


#: parents, shape of an image, how they are fused
CASES = {
    "mlp": (
        lambda: [flat_mlp((6, width, 7, 3), k) for k, width in enumerate((8, 5, 9))],
        (1, 2, 3),
        {"toward": "parents"},
    ),
    "mlp, one parent compressed": (
        lambda: [flat_mlp((6, 12, 9, 3))],
        (1, 2, 3),
        {"target": flat_mlp((6, 7, 5, 3), 1), "toward": "zero"},
    ),
    "mlp, a deeper parent": (
        lambda: [flat_mlp((6, 8, 8, 7, 3)), flat_mlp(seed=1)],
        (1, 2, 3),
        {"target": flat_mlp(seed=2), "grouping": "hungarian"},
    ),
    "cnn": (
        lambda: [cnn((4, width), seed=k) for k, width in enumerate((5, 7))],
        CNN_SHAPE,
        {"fit": "gradient", "epochs": 3},
    ),
    "BatchNorm": (lambda: [batchnorm_cnn(seed=k) for k in range(2)], CNN_SHAPE, {}),
    "vit": (lambda: [build(VIT, seed=k) for k in range(2)], CNN_SHAPE, {"fit": "gradient", "epochs": 2}),
}


class Case:
    """Parents, what was fused of them, and its analysis."""

    def __init__(self, name, importance="conductance", **more):
        make, shape, how = CASES[name]
        self.parents = [parent.float().eval() for parent in make()]
        self.how = {**how, "importance": importance, "device": "cpu", **more}
        if "target" in how:
            self.how["target"] = how["target"].float()
        self.x, self.y = normal(40, *shape).float(), labels(40, 3)
        self.importance_data = [
            (normal(12, *shape, seed=5 + k).float(), labels(12, 3, k)) for k in range(len(self.parents))
        ]
        self.test = images(shape)
        self.result = self.fused()

    def fused(self, **more) -> FusionResult:
        return fuse(self.parents, (self.x, self.y), importance_data=self.importance_data, **{**self.how, **more})

    def analysed(self, result=None, **more) -> Analysis:
        runtime = Runtime(device="cpu", **{name: more.pop(name) for name in ("monitor", "memory") if name in more})
        options = {"importance_data": self.importance_data, "test": self.test, "runtime": runtime, **more}
        return analyse(self.parents, result or self.result, (self.x, self.y), **options)


def images(shape, count=50) -> Images:
    """Random pixels and labels."""
    generator = torch.Generator().manual_seed(3)
    pixels = torch.randint(256, (count, *shape), generator=generator, dtype=torch.uint8)
    return Images(*in_memory(pixels, labels(count, 3, 4)), ("a", "b", "c"), "random", (0.5,), (0.3,), "test")


@pytest.fixture(scope="module")
def cases():
    """Each case is fused and analysed once."""
    by_name: dict[str, tuple[Case, Analysis]] = {}

    def get(name):
        if name not in by_name:
            case = Case(name)
            by_name[name] = case, case.analysed()
        return by_name[name]

    return get


# --- the accuracy by level -------------------------------------------------------------------------------------------


@pytest.mark.slow
@each_case("name", [name for name in CASES if "deeper" not in name])  # it has no reports of its own layers
@torch.no_grad()
def test_stopping_before_and_after_all_levels_is_the_ensemble_and_the_fused_network(name, cases):
    """The formula itself at both ends: a parent that reads its own neurons, or all of them the fused network's classes."""
    case, _ = cases(name)
    x, reports, fused = case.test.inputs(), case.result.levels, case.result.model
    for number, parent in enumerate(case.parents):
        widths = [report.widths[number] for report in reports]
        standing = [
            dataclasses.replace(report, widths=(n,), width=n, labels=torch.arange(n), scores=torch.ones(n))
            for report, n in zip(reports, widths, strict=True)
        ]
        for answer in answers_by_level(fused_networks([parent, parent], standing, x), standing, x):
            assert_close(answer, parent(x).log_softmax(1), 1e-5)
    answers = answers_by_level(fused_networks([*case.parents, fused], reports, x), reports, x)
    ensemble = torch.stack([parent(x).softmax(1) for parent in case.parents]).mean(0)
    assert_close(answers[0], ensemble.log(), 1e-5)
    assert_close(answers[-1], fused(x).log_softmax(1), 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "mlp, one parent compressed", "cnn"])
@torch.no_grad()
def test_stopping_between_levels_runs_the_parents_own_layers_on_their_representatives(name, cases):
    """By slicing the Sequentials after each layer with weights, neuron by neuron."""
    case, analysis = cases(name)
    fused, x, truth = case.result.model, case.test.inputs(), case.test.labels
    ends = [position + 1 for position, module in enumerate(fused) if hasattr(module, "weight")]
    for end, report, accuracy in zip(ends[:-1], case.result.levels, analysis.accuracy[1:], strict=False):
        h, mean, start = fused[:end](x), 0, 0
        for parent, width in zip(case.parents, report.widths, strict=True):
            chosen = [int(report.labels[start + j]) for j in range(width)]
            mean = mean + parent[end:](torch.stack([h[:, k] for k in chosen], 1)).softmax(1) / len(case.parents)
            start += width
        assert accuracy == pytest.approx(100 * (mean.argmax(1) == truth).double().mean().item())


@torch.no_grad()
def test_a_deeper_parent_goes_on_behind_the_layer_that_corresponds():
    """Its second and third layers count as one."""
    case = Case("mlp, a deeper parent")
    analysis, fused, x = case.analysed(), case.result.model, case.test.inputs()
    ends = {len(fused): [2, 4], len(case.parents[0]): [2, 6]}  # behind the layers of a network of so many modules
    for number, report in enumerate(case.result.levels[:-1]):
        h, mean = fused[: ends[len(fused)][number]](x), 0
        for parent, of_parent in zip(case.parents, report.labels.split(report.widths), strict=True):
            end = ends[len(parent)][number]
            mean = mean + parent[end:](h[:, of_parent]).softmax(1) / 2
        right = (mean.argmax(1) == case.test.labels).double().mean()
        assert analysis.accuracy[number + 1] == pytest.approx(100 * right.item())


# --- scores and groupings --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "BatchNorm"])
def test_scores_are_those_that_a_run_with_this_importance_uses(name, cases):
    case, analysis = cases(name)
    for importance in EVERY:
        expected = case.fused(importance=importance).levels
        for level, report in zip(analysis.levels, expected, strict=True):
            assert torch.equal(level.scores[importance], report.scores)


@pytest.mark.slow
def test_a_method_that_refuses_is_missing_with_its_sentence(cases):
    case, analysis = cases("vit")
    assert set(analysis.missing) == {"deeplift"}
    assert analysis.missing["deeplift"].startswith("DeepLIFT has no rule for ")
    assert all(set(level.scores) == {"uniform", "conductance"} for level in analysis.levels)


def test_without_labels_attributions_are_missing():
    case = Case("mlp", importance="uniform")
    analysis = analyse(case.parents, case.result, case.x, runtime=Runtime(device="cpu"))
    assert set(analysis.missing) == {"conductance", "deeplift", "accuracy"}
    assert "needs labels" in analysis.missing["conductance"]
    assert [set(level.labels) for level in analysis.levels] == [{"uniform"}] * 3


def test_at_a_head_of_other_targets_all_scores_are_what_weighs_them():
    analysis = Case("mlp", head="mean").analysed()
    for scores in analysis.levels[-1].scores.values():
        assert_close(scores, torch.full((9,), 1 / 3), 1e-6)
    assert not torch.equal(analysis.levels[0].scores["uniform"], analysis.levels[0].scores["deeplift"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_groups_are_the_runs_own_and_those_that_runs_with_other_scores_make_of_the_first_level(name, cases):
    """Its Gram matrix does not depend on what was fused before."""
    case, analysis = cases(name)
    for level, report in zip(analysis.levels, case.result.levels, strict=True):
        assert torch.equal(level.labels["conductance"], report.labels)
    for importance in EVERY:
        labels = case.fused(importance=importance).levels[0].labels
        assert as_sets(analysis.levels[0].labels[importance]) == as_sets(labels)


# --- targets and outputs -----------------------------------------------------------------------------------------------


@torch.no_grad()
def direct_rows(case):
    """Per level: fused inputs' outputs f (N, d) and the parents' z (N, m), all at once."""
    nets = fused_networks([*case.parents, case.result.model], case.result.levels, case.x).nets
    for index in range(len(case.result.levels)):
        rows = []
        for net in nets:
            end = net.layers[index].end
            (value,) = net.graph.run(net.weights, net.graph.input_values([case.x]), [end]).values()
            rows.append(value.movedim(net.axes[index], -1).flatten(0, -2).double())
        yield rows[-1], torch.cat(rows[:-1], 1)


@pytest.mark.slow
@each_case("name", CASES)
def test_targets_and_outputs_are_rows_of_the_level(name, cases):
    case, analysis = cases(name)
    for level, report, (f, z) in zip(analysis.levels, case.result.levels, direct_rows(case), strict=True):
        groups = as_groups(report.labels, report.width)
        T = np.stack([reference.target(z.numpy(), report.scores.numpy(), group) for group in groups], 1)
        both = torch.cat([torch.from_numpy(T), f], 1)
        points = torch.cat([level.targets, level.outputs], 1).double()
        assert len(points) == min(128, len(f))
        gaps = torch.cdist(points, both).min(1)
        assert gaps.values.max() < 1e-4 * both.abs().max()
        if len(both.unique(dim=0)) == len(both):
            assert (gaps.indices.diff() > 0).all()  # in the order of the rows, none twice


# --- as a whole ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_is_deterministic_and_leaves_everything_as_it_was(cases):
    case, first = cases("cnn")
    case.parents[0].train()
    state = torch.random.get_rng_state()
    with untouched(*case.parents, case.result.model):
        second = case.analysed()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert case.parents[0].training and not case.parents[1].training
    case.parents[0].eval()
    for left, right in zip(first.levels, second.levels, strict=True):
        for name in ("targets", "outputs"):
            assert torch.equal(getattr(left, name), getattr(right, name))
    assert first.accuracy == second.accuracy


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["parents", "data"])
def test_what_was_not_fused_is_refused(wrong, cases):
    case, _ = cases("cnn")
    parents = [cnn((4, 6), seed=k).float() for k in range(2)] if wrong == "parents" else case.parents
    x = case.x[:20] if wrong == "data" else case.x
    with pytest.raises(ValueError, match=f"Pass the {wrong} that were fused"):
        analyse(parents, case.result, (x, case.y[: len(x)]), runtime=Runtime(device="cpu"))


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cnn", "vit"])
def test_a_saved_analysis_comes_back(name, cases, tmp_path):
    analysis = cases(name)[1]
    analysis.save(tmp_path)
    back = Analysis.load(tmp_path)
    for fact in ("accuracy", "samples", "missing", "seconds"):
        assert getattr(back, fact) == getattr(analysis, fact)
    for left, right in zip(back.levels, analysis.levels, strict=True):
        assert left.name == right.name
        for name in right.scores:
            assert torch.equal(left.scores[name], right.scores[name])
            assert torch.equal(left.labels[name], right.labels[name])
        for name in ("targets", "outputs"):
            assert_close(getattr(left, name), getattr(right, name), 1e-3)
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("size", [0.0, 1e-12, 1e9])
def test_rows_of_any_size_survive_half_precision(size, cases, tmp_path):
    analysis = copy.deepcopy(cases("cnn")[1])
    for level in analysis.levels:
        level.targets.mul_(size), level.outputs.mul_(size)
    analysis.save(tmp_path)
    for left, right in zip(Analysis.load(tmp_path).levels, analysis.levels, strict=True):
        gap = (left.targets - right.targets).abs().max()
        assert torch.isfinite(left.targets).all() and gap <= 1e-3 * max(
            right.targets.abs().max(), right.outputs.abs().max()
        )


BREAKS = {
    "more levels": lambda folder: (folder / "analysis.json").write_text(
        json.dumps((facts := json.loads((folder / "analysis.json").read_text())) | {"levels": facts["levels"] * 2})
    ),
    "no arrays": lambda folder: (folder / "analysis.npz").unlink(),
    "pickled arrays": lambda folder: np.savez(folder / "analysis.npz", **{"0/scale": np.array([{}], dtype=object)}),
}


@each_case("how", BREAKS)
def test_a_broken_analysis_is_refused_in_a_sentence(how, cases, tmp_path):
    cases("cnn")[1].save(tmp_path)
    BREAKS[how](tmp_path)
    with pytest.raises(ValueError, match=f"{tmp_path}.*missing or broken"):
        Analysis.load(tmp_path)
