"""What the fused network's training does for other networks, and why a loss can rise with the accuracy."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import Palette, difference, listing, number, percent, share
from retrofit_app.figures.booktable import Column, Line, Table, ranked
from retrofit_app.figures.noise import half
from retrofit_app.figures.tuning import equal_training, loss_of_images, loss_of_training
from retrofit_app.figures.words import first_up, signed
from retrofit_app.models import predictions
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
    Column("network", "What the training began with.", is_number=False),
    Column("before %", "Accuracy on the test images."),
    Column("after %", "The same after the training. Bold: the best."),
    Column("±", "Half the 95 % interval that the number of test images allows, in points."),
    Column("gain", "In points."),
    Column("loss", "Mean cross entropy on the test images, before and after.", is_number=False),
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
    history: Sequence[dict[str, Any]]
    file: Path
    """The trained network"""

    @property
    def words(self) -> str:
        """Its name in a sentence."""
        return NAMES[self.name]


def panel(entry: runs.Entry, work: Work, palette: Palette) -> None:
    """Draw the finished controls beside the fused network, and explain strange losses.

    Raises:
        ValueError: a file is damaged.
    """
    rows = trained(entry, work)
    if len(rows) > 1:
        st.markdown(f"**{finding(rows)}**")
        st.html(table(rows).html(palette))
        epochs = followups.curve(work)["epochs"]
        widgets.chart(
            "equal-budget",
            lambda colours: equal_training({row.words: row.history for row in rows}, epochs, colours),
            palette,
            lambda: curves_table(rows),
            entry,
            heading="**The same training, other starts**: accuracy after each epoch, on held-out training images",
            below="",
        )
        st.caption(
            "All get the same images, epochs and settings. The new network has the fused architecture and random weights."
        )
    for sentence in filter(None, [*(rising_loss(entry, row) for row in rows), loss_of_training(history_of(work))]):
        st.markdown(f":material/help: {sentence}")


def history_of(work: Work) -> list[dict[str, Any]]:
    """The epochs of a fine-tuning."""
    return followups.curve(work)["history"]


def trained(entry: runs.Entry, work: Work) -> list[Trained]:
    """The fused network and its controls, as far as finished and measured."""
    each = [(FUSED, work), *followups.controls(work).items()]
    before = entry.metrics.get("networks", {})
    return [
        Trained(name, before.get(name), metrics, history_of(done), done.folder / followups.TUNED)
        for name, done in each
        if followups.has_network(done) and (metrics := followups.metrics(done))
    ]


def finding(rows: Sequence[Trained]) -> str:
    """What the same training achieves with the others, and whether the fused network is ahead."""
    fused, others = rows[0].after, rows[1:]
    gaps = [(row, difference(fused["accuracy"], row.after["accuracy"], fused["samples"])) for row in others]
    reached = listing([f"{row.words} to {percent(row.after['accuracy'])}" for row in others])
    parts = [
        f"{how} {listing([f'{row.words} ({gap.words})' for row, gap in which])}"
        for how, which in (
            ("clearly better than", [(row, gap) for row, gap in gaps if gap.clear and gap.points > 0]),
            ("clearly worse than", [(row, gap) for row, gap in gaps if gap.clear and gap.points < 0]),
            ("not clearly different from", [(row, gap) for row, gap in gaps if not gap.clear]),
        )
        if which
    ]
    return f"The same training brings {reached}. The fine-tuned fused network ({percent(fused['accuracy'])}) is {listing(parts)}."


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
                str(row.history[-1]["best"]),
            ),
            frozenset({2} if index in best else ()),
        )
        for index, row in enumerate(rows)
    ]
    return Table("Networks before and after the same training", COLUMNS, tuple(lines))


def curves_table(rows: Sequence[Trained]) -> pd.DataFrame:
    """A row for each epoch, a column for each network."""
    return pd.DataFrame(
        {"epoch": [entry["epoch"] for entry in rows[0].history]}
        | {row.words: pd.Series([entry["accuracy"] for entry in row.history]) for row in rows}
    )


def rising_loss(entry: runs.Entry, row: Trained) -> str:
    """Why a network's test loss rose with its accuracy, if it did; image by image if that is quick."""
    before, after = row.before, row.after
    if before is None or after["accuracy"] <= before["accuracy"] or after["loss"] <= before["loss"]:
        return ""
    sentence = (
        f"The test loss of {row.words} rose from {number(before['loss'], 2)} to {number(after['loss'], 2)}, though its accuracy "
        f"rose from {percent(before['accuracy'])} to {percent(after['accuracy'])}. Accuracy counts right answers; the loss also "
        "asks how sure the network is of the right class."
    )
    asked = [
        predictions.Network(entry, row.name, entry.folder / "fused.safetensors", before["accuracy"]),
        predictions.Network(entry, FUSED, row.file, after["accuracy"]),
    ]
    try:
        if not predictions.is_at_hand(entry) or not predictions.is_quick(asked):
            return sentence
        first, second = map(predictions.ask, asked)
    except ValueError:  # a file is missing or has changed; Compare says which
        return sentence
    return f"{sentence} {loss_of_images(first.right, first.losses, second.right, second.losses)}"
