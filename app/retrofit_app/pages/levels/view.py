"""What a step draws from, and how it asks for a picture."""

from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.address import neurons
from retrofit_app.figures import Neurons, Palette, Picture, escaped, letter, same_numbers, title
from retrofit_app.shell import lectures
from retrofit_app.widgets import pictures, readings

from .parameters import Look

#: px of a lecture's page of 1280 x 720, which grows with the window: the heights of the drawn network, of a picture, of one
#: with a key below, of what the presenter's notes cover, and of a line.
NETWORK, HEIGHT, WITH_KEY, NOTES, LINE = 206, 348, 306, 78, 30


@dataclass(frozen=True)
class View:
    """What the steps draw from."""

    entry: runs.Entry
    palette: Palette
    index: int
    report: Any
    """`LevelReport`"""
    analysis: Any
    """`LevelAnalysis`, or None"""
    scores: list[str]
    pairs: list[str]
    """What can stand side by side"""
    without: dict[str, str]
    """Scores that could not be computed, with the reason"""
    look: Look
    cluster: int = 0
    """The cluster that is followed"""
    last: bool = False
    """The level whose neurons are the classes"""
    lecture: float = 0.0
    """On a projector, whose page is so much larger than 1280 x 720: only the pictures of the step; 0 for none"""

    @property
    def joins_classes(self) -> bool:
        """Whether the neurons are the classes, each in a group with the same class of the other networks."""
        return self.last and same_numbers(readings.grouping(self.entry, self.index))

    @property
    def far(self) -> str:
        """At the classes: why a member far from its group may cost nothing; empty elsewhere."""
        if not self.joins_classes:
            return ""
        return (
            "The neurons are the classes. A class that its network never saw has almost no importance: its neuron "
            "may be far from its group and still cost almost no error."
        )

    def say(self, text: str) -> None:
        """What a step is about, in one sentence."""
        st.markdown(text)

    def note(self, text: str, **options: Any) -> None:
        """Small print; left out in a lecture."""
        if not self.lecture:
            st.caption(text, **options)

    def tall(self, height: int) -> int:
        """px of a lecture's picture that has a height on a page of 1280 x 720; less while the presenter's notes are below it."""
        return round((height - NOTES * lectures.LECTURE.current("notes")) * self.lecture)

    @property
    def parents(self) -> list[str]:
        """Names of the parents."""
        return [f"network {letter(parent)}" for parent in range(len(self.report.widths))]

    def chart(
        self,
        key: str,
        heading: str,
        table: Any,
        *,
        kind: str | None = None,
        below: str | None = None,
        across: int = 2,
        **options: Any,
    ) -> None:
        """One of the level's pictures."""
        selection = {name: options.pop(name) for name in ("on_select", "selection_mode") if name in options}
        if self.lecture:
            options["large"] = (self.tall(HEIGHT), self.lecture)

        def draw(colours: Palette) -> Picture:
            return pictures.picture(self.entry, kind or key, colours, self.index, **options)

        widgets.chart(
            key,
            draw,
            self.palette,
            table,
            self.entry,
            heading=heading,
            below=below,
            bare=bool(self.lecture),
            level=f"{self.index + 1}-{self.report.name}",
            **selection,
        )

    def grouping(self, score: str | None = None, seed: int | None = None) -> Neurons:
        """The neurons as a score groups them; by default the chosen one."""
        return readings.grouping(self.entry, self.index, *self.chosen(score, seed))

    def neurons(self, score: str | None = None, seed: int | None = None) -> pd.DataFrame:
        """One row per neuron, as a score groups them; by default the chosen one."""
        return readings.neuron_table(self.entry, self.index, *self.chosen(score, seed))

    def chosen(self, score: str | None = None, seed: int | None = None) -> tuple[str | None, int]:
        """A score and a seed; by default those of the controls. Without an analysis there is only the run's."""
        if self.analysis is None:
            return None, 0
        return score or self.look.score, int(self.look.seed) if seed is None else seed

    def rows(self, name: str) -> list[int]:
        """The neurons of "pick" or "mark" that this level has, as numbers among all of its neurons."""
        named = neurons.read(getattr(self.look, name), len(self.report.widths))
        return readings.rows_of(readings.grouping(self.entry, self.index), named)

    def missing(self) -> None:
        """Scores that could not be computed, with the reason."""
        for score, reason in self.without.items():
            if score != "accuracy":
                self.note(escaped(f"{title(score)} is missing: {reason}"))
