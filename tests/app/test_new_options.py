"""A score and a grouping that nobody has seen before: one class and one line in a table, and everything offers them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pytest
import torch

from retrofit_app import runs
from retrofit_app.pages.fuse import configs
from retrofit_core.fusion.grouping import GROUPINGS, Grouper, Grouping
from retrofit_core.fusion.importance import IMPORTANCE, Importance
from retrofit_core.runs import execute, read_config
from retrofit_core.system.settings import Range, setting

from .pages import form_of, page_at

pytestmark = pytest.mark.slow

ADDRESS = {"grouping": "in_turn", "importance": "loudness", "options": "offset=2|power=3.0"}


@dataclass(frozen=True, eq=False)
class Loudness(Importance):
    """How strongly a neuron answers."""

    needs_labels: ClassVar[bool] = False

    power: float = setting(1.0, "exponent of the answers", Range(0.5, 4))
    centred: bool = setting(False, "leave the mean answer out")

    def scores(self, neurons, x, y, *, monitor):
        values = []
        for place, answers in zip(neurons, neurons(x), strict=True):
            answers = answers.movedim(place.axis, -1).flatten(0, -2).detach()
            if self.centred:
                answers = answers - answers.mean(0)
            values.append(answers.abs().pow(self.power).mean(0))
        return values


@dataclass(frozen=True)
class InTurn(Grouper):
    """Neurons are dealt out like cards."""

    offset: int = setting(0, "group of the first neuron", Range(0, 9, whole=True))

    def __call__(self, gram, scores, widths, width, *, generator=None):
        return Grouping((torch.arange(len(gram)) + self.offset) % width, width, 0.0)


@pytest.fixture
def registered(monkeypatch, runs_folder) -> Iterator[None]:
    """The one line in each table."""
    monkeypatch.setitem(IMPORTANCE, "loudness", Loudness)
    monkeypatch.setitem(GROUPINGS, "in_turn", InTurn)
    return runs_folder


open_page = partial(page_at, view="new")


def test_a_record_holds_them_and_the_form_shows_it(registered, monkeypatch):
    config = configs.fusion(form_of(ADDRESS)[1], None, 64, 10)
    assert config.importance == "loudness" and config.options == {"grouping": "in_turn", "power": 3.0, "offset": 2}
    monkeypatch.chdir(runs.BUNDLED)
    result, _ = execute(config, registered / "mine")
    labels = result.levels[0].labels
    assert torch.equal(labels.sort().values, torch.arange(16).repeat_interleave(2))
    assert read_config(registered / "mine") == config
    decided = json.loads((registered / "mine" / "result.json").read_text())["config"]
    expected = {"grouping": "in_turn", "importance": "loudness", "power": 3.0, "centred": False, "offset": 2}
    assert {name: decided[name] for name in expected} == expected
    page = open_page(run="mine", **ADDRESS)
    assert not page.error and not page.warning and not page.exception
    page.button(key="all-options").click().run()
    assert page.number_input(key="fuse-option-KF-Linear-power").value == 3.0
