"""The data of a step, and how it draws pictures."""

from dataclasses import dataclass
from typing import Any

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import Palette, escaped, same_numbers, title
from retrofit_app.runs import methods
from retrofit_app.widgets import pictures, readings

#: Heights in px on a lecture's page of 1280 x 720, which grows with the window: all levels, and a picture.
NETWORK, HEIGHT = 206, 348


@dataclass(frozen=True)
class View:
    """The data that steps draw."""

    entry: runs.Entry
    palette: Palette
    index: int
    report: Any
    """`LevelReport`"""
    analysis: Any
    """`LevelAnalysis`, or None"""
    scores: list[str]
    without: dict[str, str]
    """Scores that could not be computed, with the reason"""
    look: Any
    """See `parameters.look`"""
    last: bool = False
    """Whether the level's neurons are the classes"""
    lecture: float = 0.0
    """A projector page's scale relative to 1280 x 720, with only the step's pictures; 0 for none"""

    @property
    def joins_classes(self) -> bool:
        """Whether the neurons are the classes, each grouped with the same class of other networks."""
        return self.last and same_numbers(readings.grouping(self.entry, self.index))

    @property
    def far(self) -> str:
        """At the classes, why a member far from its group may cost nothing; empty where that cannot be."""
        unseen = any(0 in counts for counts in runs.class_counts(self.entry) or ())
        if not self.joins_classes or not unseen or methods.score(self.entry) == "uniform":
            return ""
        return (
            "A class that its network never saw has almost no importance: its neuron may be far from its group and still cost "
            "almost no error."
        )

    def chart(
        self,
        name: str,
        heading: str = "",
        *,
        key: str = "",
        reading: str = "",
        **options: Any,
    ) -> None:
        """Draw one of CHARTS of the level, by default under its question.

        Args:
            key: where a name is drawn several times.
            options: the chart's own.
        """
        if self.lecture:
            options["large"] = (round(HEIGHT * self.lecture), self.lecture)
        widgets.chart(
            key or name,
            pictures.picture(self.entry, name, self.palette, self.index, **options),
            self.entry,
            heading=heading or f"**{pictures.CHARTS[name].question}**",
            reading=reading,
            bare=bool(self.lecture),
        )

    def of_run(self, score: str) -> bool:
        """Whether the run grouped with this score."""
        return score == methods.score(self.entry)

    def missing(self) -> None:
        """Draw which scores are missing, and why."""
        for score, reason in self.without.items():
            if score != "accuracy" and not self.lecture:
                st.caption(escaped(f"{title(score)} is missing: {reason}"))
