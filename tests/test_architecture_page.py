"""The score and the grouping of docs/architecture.md, pasted into their folders: they fuse, and everything knows them."""

import dataclasses
import itertools
import re

import pytest
import torch

from retrofit_core import METHODS, fuse
from retrofit_core.fusion.grouping import GROUPINGS
from retrofit_core.fusion.importance import IMPORTANCE
from retrofit_core.runs import RunConfig
from retrofit_core.system.monitor import Cancelled, Monitor
from tests.grouping.points import gram, points, positive
from tests.marks import ROOT, skip_without
from tests.networks import CNN_SHAPE, cnn, labels, mlp, normal
from tests.properties import as_sets

skip_without("docs")
PAGE = (ROOT / "docs" / "architecture.md").read_text()
X, Y = normal(70, *CNN_SHAPE), labels(70, 3)


def pasted(start: str, folder: str) -> type:
    """The class of the block of code after a heading, its imports read as in a folder of the core."""
    code = re.search(r"```python\n(.*?)```", PAGE[PAGE.index(start) :], re.S)
    assert code
    names = {"__name__": f"retrofit_core.{folder}.pasted", "__package__": f"retrofit_core.{folder}"}
    exec(code[1], names)
    return names[re.findall(r"^class (\w+)", code[1], re.M)[0]]


LOUDNESS, AGGLOMERATIVE = (
    pasted("**An importance score**", "fusion.importance"),
    pasted("**A grouping**", "fusion.grouping"),
)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(IMPORTANCE, "loudness", LOUDNESS)
    monkeypatch.setitem(GROUPINGS, "agglomerative", AGGLOMERATIVE)


def fused(**options):
    parents = [cnn(seed=seed) for seed in range(2)]
    given = {"grouping": "agglomerative", "importance": "loudness", "importance_data": "fusion", "device": "cpu"}
    return METHODS["KF-Linear"](parents, (X, Y), **given | options)


def test_the_page_is_short_and_names_files_that_exist():
    assert len(PAGE.splitlines()) <= 150
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", PAGE))
    assert len(named) >= 6 and all((ROOT / name).is_file() for name in named)


@pytest.mark.slow
def test_the_examples_fuse_and_every_option_of_theirs_decides_something(registered):
    results = [fused(), fused(linkage="complete"), fused(power=3)]
    expected = {"grouping": "agglomerative", "linkage": "average", "importance": "loudness", "power": 1.0}
    assert expected.items() <= results[0].config.items()
    scores = results[0].levels[0].scores
    drawn = [AGGLOMERATIVE(linkage)(gram(points(20)), positive(20), (10, 10), 5) for linkage in ("average", "complete")]
    assert as_sets(drawn[0].labels) != as_sets(drawn[1].labels) and results[1].config["linkage"] == "complete"
    for first, second in itertools.combinations([results[0], *results[2:]], 2):
        assert not torch.allclose(first.levels[0].scores, second.levels[0].scores)
    assert scores[:4].sum().item() == pytest.approx(1)
    assert fused(importance=LOUDNESS, grouping=AGGLOMERATIVE).config == results[0].config


def test_their_options_pass_through_a_config(registered):
    options = {"grouping": "agglomerative", "power": 3.0, "linkage": "complete"}
    assert RunConfig(("a",), method="KF-Linear", importance="loudness", options=options).options == options


def test_the_score_takes_batches_and_can_be_stopped(registered):
    events = []
    monitor = Monitor(events.append, lambda: bool(events) and events[-1].get("name") == "loudness")
    with pytest.raises(Cancelled):
        fused(monitor=monitor)
    assert [(event["index"], event["total"]) for event in events if event["kind"] == "step"] == [(0, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("fit", ["ridge", "gradient"])
def test_a_grouping_gets_what_the_page_says(fit):
    """Float64 from float32 networks, whichever form the sums have."""
    seen = []

    @dataclasses.dataclass(frozen=True)
    class Watching(AGGLOMERATIVE):
        def __call__(self, gram, scores, widths, width, *, generator=None):
            seen.append((gram.dtype, scores.dtype, generator.device.type, width))
            return super().__call__(gram, scores, widths, width)

    parents = [mlp((30, 12, 9, 4), seed=seed).float() for seed in range(2)]
    result = fuse(parents, normal(10, 30).float(), grouping=Watching(), fit=fit)
    # Two hidden levels; the head is not grouped.
    assert seen == [(torch.float64, torch.float64, "cpu", width) for width in (12, 9)]
    assert [level.form for level in result.levels] == (
        ["dual", "primal", "primal"] if fit == "ridge" else ["gradient"] * 3
    )
