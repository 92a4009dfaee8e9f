"""An unfinished run: its progress, or why it ended early and what to do."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd
import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.address import session
from retrofit_app.figures import Tile, escaped, letter, percent, tiles
from retrofit_app.figures.network import growing_network
from retrofit_app.figures.tuning import growing_lines
from retrofit_app.runs import progress
from retrofit_app.shell import picker
from retrofit_app.widgets import works

from . import going, starting

ACROSS = 4  # tiles in a row
MEASURED = "on the test images"


def panel(entry: runs.Entry) -> None:
    """Draw such a run; the shipped example is one click away."""
    active = entry.active
    st.title("Your fusion is in progress" if active else "Your fusion stopped before its end", anchor=False)
    st.markdown(escaped(runs.details(entry)))
    if active:
        works.watch(partial(going.is_going, entry.folder), partial(live, entry.folder))
    else:
        stopped(entry)


def stopped(entry: runs.Entry) -> None:
    """Draw why it stopped, and what to do."""
    show = st.warning if entry.state == "cancelled" else st.error
    show(escaped(runs.failure(entry)))
    with st.container(horizontal=True):
        if st.button(
            "Run again",
            icon=":material/replay:",
            type="primary",
            key="again",
            help="Fuses from the start. Trained networks stay, and a training continues after its last finished epoch.",
        ):
            starting.run_again(entry.folder)
        st.button(
            "Back to the shipped example",
            key="leave",
            on_click=session.open_run,
            args=(picker.choice().first,),
            help="The run stays in the list of your runs.",
        )
    levels(progress.follow(entry.folder, progress.Progress()))
    if entry.state != "cancelled":
        works.last_lines(
            entry.folder,
            "You can paste them into a report: they leave out the names of this machine's folders.",
        )


def live(folder: Path) -> None:
    """Draw a run's progress: the networks in training with the classes that they know, and the levels so far."""
    entry = runs.read_entry(folder)
    followed, share, words = going.standing(entry)
    stops = "Stops after the current step, within a minute at the latest. Networks trained so far stay."
    works.progress(entry.folder, share, words, stops, "cancel", "run")
    networks(entry, followed)
    levels(followed, going=True)
    lines(followed)


def networks(entry: runs.Entry, followed: progress.Progress) -> None:
    """Draw what the networks know so far, a tile for each with its classes; nothing if no network was trained or measured."""
    if not (followed.training or followed.results):
        return
    palette, counts = widgets.palette(), runs.class_counts(entry)
    shown = [_parent(entry, followed, parent, counts) for parent in range(len(entry.config["models"]))]
    if fused := followed.results.get("fused"):
        shown.append(Tile("Fused", percent(fused["accuracy"]), "", MEASURED, "fused", fused["per_class"]))
    classes = [str(index) for index in range(max(len(tile.per_class) for tile in shown))]
    st.html(tiles([shown[at : at + ACROSS] for at in range(0, len(shown), ACROSS)], classes, palette))


def _parent(
    entry: runs.Entry, followed: progress.Progress, parent: int, counts: Sequence[Sequence[int]] | None
) -> Tile:
    """A parent: measured on the test images, or on those that its training holds out, or not yet."""
    seen = [count > 0 for count in counts[parent]] if counts else []
    known, note = followed.known.get(parent) or [0.0] * len(seen), MEASURED
    accuracy = (followed.held_out.get(parent) or [None])[-1]
    if measured := followed.results.get(f"parent {parent}"):
        known, accuracy = measured["per_class"], measured["accuracy"]
    elif epochs := len(followed.training.get(parent, [])):
        note = f"{epochs} epoch{'' if epochs == 1 else 's'}; held-out images of its classes"
    else:
        note = "trained before" if (entry.base / entry.config["models"][parent]).exists() else "not trained yet"
    value = "…" if accuracy is None else percent(accuracy)
    return Tile(f"Network {letter(parent)}", value, "", note, "parent", known, seen, parent)


def lines(followed: progress.Progress) -> None:
    """Draw the losses of what is being trained: the networks, this level's weights, or the fused network as a whole."""
    palette = widgets.palette()
    if followed.stage == "training":
        losses = {letter(parent): curve for parent, curve in sorted(followed.training.items())}
        accuracies = {letter(parent): curve for parent, curve in followed.held_out.items()}
        colours = {letter(parent): palette.parent(parent) for parent in followed.training}
    elif curve := {"student": followed.student, "levels": followed.curves.get(followed.level)}.get(followed.stage):
        losses, accuracies, colours = {"": curve}, {}, {"": palette.accent}
    else:
        return
    heading = "**Training**" if followed.stage == "training" else "**This fit**"
    works.growing("lines", growing_lines(losses, accuracies, followed.epochs, colours, palette), heading, caption=False)


def levels(followed: progress.Progress, going: bool = False) -> None:
    """Draw the fused network, filled level by level; nothing before its first level, or if its method has none."""
    plan = followed.plan
    if followed.level < 0 or not plan:
        return
    table = pd.DataFrame(followed.rows) if followed.rows else None
    current = followed.level if going and followed.stage == "levels" else None
    drawing = growing_network(plan["names"], plan["widths"], plan["fused"], table, current, widgets.palette())
    works.growing("network", drawing, "**The fused network**")
