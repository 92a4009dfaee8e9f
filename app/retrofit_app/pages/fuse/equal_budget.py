"""What the fused network's training does for other networks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_app.figures import Palette, difference, number, percent, share
from retrofit_app.figures.booktable import Column, Line, Table, ranked
from retrofit_app.figures.noise import half
from retrofit_app.figures.words import first_up, signed
from retrofit_app.runs import followups
from retrofit_core.runs.store import Work

FUSED = "fused"
NAMES = {
    FUSED: "the fused network",
    "parent 0": "network A",
    "average": "the plain average",
    "scratch": "a new network",
}
COLUMNS = (
    Column("network", "What the training began with; a new network has the fused architecture.", is_number=False),
    Column("before %", "Accuracy on the test images."),
    Column("after %", "The same after the training: the same images, epochs and settings for all. Bold: the best."),
    Column("±", "Half the 95 % interval that the number of test images allows, in points."),
    Column("gain", "In points."),
    Column(
        "loss",
        "Mean cross entropy on the test images, before and after. It also asks how sure the network is of the right class, so it "
        "can rise together with the accuracy.",
        is_number=False,
    ),
    Column("kept epoch", "The best on the held-out images; 0 means that none was better than the start."),
)


@dataclass(frozen=True)
class Trained:
    """A network after the training."""

    name: str
    """One of NAMES"""
    before: dict[str, Any] | None
    """Its result of `evaluate` on the test images; None for a new network"""
    after: dict[str, Any]
    kept: int
    """The kept epoch"""

    @property
    def words(self) -> str:
        """Its name in a sentence."""
        return NAMES[self.name]


def panel(entry: runs.Entry, work: Work, palette: Palette) -> None:
    """Draw the finished controls beside the fused network.

    Raises:
        ValueError: a file is damaged.
    """
    rows = trained(entry, work)
    if len(rows) > 1:
        st.markdown(finding(rows))
        st.html(table(rows).html(palette))


def trained(entry: runs.Entry, work: Work) -> list[Trained]:
    """The fused network and its controls, as far as finished and measured."""
    each = [(FUSED, work), *followups.controls(work).items()]
    before = entry.metrics.get("networks", {})
    return [
        Trained(name, before.get(name), metrics, followups.curve(done)["history"][-1]["best"])
        for name, done in each
        if followups.has_network(done) and (metrics := followups.metrics(done))
    ]


def finding(rows: Sequence[Trained]) -> str:
    """Whether the fused network is ahead of the others after the same training, in Markdown."""
    compared = [difference(rows[0].after, row.after).than(row.words) for row in rows[1:]]
    return (
        f"The same training for all: the fused network ({percent(rows[0].after['accuracy'])}) is {'; '.join(compared)}."
    )


def table(rows: Sequence[Trained]) -> Table:
    """The networks before and after, with their gains."""
    best = ranked([row.after["accuracy"] for row in rows])
    lines = [
        Line(
            (
                first_up(row.words),
                share(row.before["accuracy"]) if row.before else "",
                share(row.after["accuracy"]),
                half(row.after["accuracy"], row.after["samples"]),
                signed(row.after["accuracy"] - row.before["accuracy"]) if row.before else "",
                f"{number(row.before['loss'], 2)} → {number(row.after['loss'], 2)}"
                if row.before
                else number(row.after["loss"], 2),
                str(row.kept),
            ),
            frozenset({2} if index in best else ()),
        )
        for index, row in enumerate(rows)
    ]
    return Table("Networks before and after the same training", COLUMNS, tuple(lines))
