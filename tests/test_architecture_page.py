"""The score and the grouping of docs/architecture.md, pasted into their folders: they fuse, and everything knows them."""

import itertools
import re

import pytest
import torch

from retrofit_core import METHODS
from retrofit_core.fusion.grouping import GROUPINGS
from retrofit_core.fusion.importance import IMPORTANCE
from tests.grouping.points import gram, points, positive
from tests.marks import ROOT, skip_without
from tests.networks import CNN_SHAPE, cnn, labels, normal
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
