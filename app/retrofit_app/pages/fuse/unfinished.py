"""An unfinished run: its progress, or why it ended early and what to do."""

from functools import partial
from pathlib import Path

import pandas as pd
import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.address import session
from retrofit_app.figures import escaped, letter
from retrofit_app.runs import progress
from retrofit_app.shell import picker
from retrofit_app.widgets import works

from . import going, starting


def panel(entry: runs.Entry) -> None:
    """Draw such a run; the shipped example is one click away."""
    active = entry.active
    st.title("Your fusion is in progress" if active else "Your fusion stopped before its end", anchor=False)
    st.markdown(escaped(runs.details(entry)))
    if active:
        works.watch(partial(going.is_going, entry.folder), partial(live, entry.folder))
    else:
        stopped(entry)
    who_gets_what(entry)


def stopped(entry: runs.Entry) -> None:
    """Draw why it stopped, and what to do."""
    show = st.warning if entry.state == "cancelled" else st.error
    show(escaped(runs.failure(entry)))
    with st.container(horizontal=True):
        if st.button(
            "Resume",
            icon=":material/resume:",
            type="primary",
            key="resume",
            help="Continues the run after its last finished level or training epoch.",
        ):
            starting.go_on(entry.folder)
        st.button(
            "Back to the shipped example",
            key="leave",
            on_click=session.open_run,
            args=(picker.choice().first,),
            help="The run stays in the list of your runs.",
        )
    level_table(entry.folder, progress.follow(entry.folder, progress.Progress()))
    if entry.state != "cancelled":
        works.last_lines(
            entry.folder,
            "You can paste them into a report: they leave out the names of this machine's folders.",
        )


def who_gets_what(entry: runs.Entry) -> None:
    """Draw the split's strip, once the splits file exists."""
    counts = runs.class_counts(entry)
    if not counts:
        return
    st.markdown("**Who was trained on what**")
    classes = entry.metrics.get("classes") or [str(index) for index in range(len(counts[0]))]
    st.caption(escaped(widgets.split(counts, classes)))


def live(folder: Path) -> None:
    """Draw a run's progress: losses of training, and its levels so far."""
    entry = runs.read_entry(folder)
    followed, share, words = going.standing(entry)
    stops = "Stops after the current step, within a minute at the latest. Finished levels are kept, and you can resume later."
    works.progress(entry.folder, share, words, stops, "cancel", "run")
    training_table(followed)
    level_table(entry.folder, followed)


def training_table(followed: progress.Progress) -> None:
    """Draw the losses of each network in training."""
    if not followed.training:
        return
    rows = [
        {"network": letter(parent), "epochs": len(curve), "loss": f"{curve[-1]:.4f}" if curve else "…", "course": curve}
        for parent, curve in sorted(followed.training.items())
    ]
    st.markdown("**Training**")
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        key="live-training",
        alt="Epochs and training loss of each network.",
        column_config={
            "network": st.column_config.TextColumn("network", width=80),
            "epochs": st.column_config.NumberColumn("epochs", width=80, help="Finished epochs."),
            "loss": st.column_config.TextColumn(
                "loss", width=90, alignment="right", help="Loss of the last epoch, on the training images."
            ),
            "course": st.column_config.LineChartColumn("loss over the epochs", y_min=0),
        },
    )


def level_table(folder: Path, followed: progress.Progress) -> None:
    """Draw the levels so far: errors of finished ones, losses of the current one."""
    rows = progress.finished_levels(folder)
    for index in sorted(followed.names):
        if index >= len(rows):
            rows.append({"level": followed.names[index]})
    if not rows:
        return
    for index, row in enumerate(rows):  # as text, because an empty number would show as None
        for name, digits in (("grouping", 2), ("approximation", 2), ("seconds", 1)):
            row[name] = f"{row[name]:.{digits}f}" if name in row else "…"
        row.setdefault("neurons", "…")
        row["level"] = f"{index + 1} · {row['level']}"
        row["course"] = followed.curves.get(index, [])
    table = pd.DataFrame(rows, columns=["level", "neurons", "grouping", "approximation", "course", "seconds"])
    if not any(row["course"] for row in rows):
        table = table.drop(columns="course")
    st.markdown("**Levels**")
    st.dataframe(
        table,
        hide_index=True,
        key="live-levels",
        alt="Levels with their errors as they are finished.",
        column_config={
            "level": st.column_config.TextColumn("level", pinned=True),
            "neurons": st.column_config.TextColumn("neurons", help="Width of each network → width of the fused level."),
            "grouping": st.column_config.TextColumn(
                "grouping %",
                alignment="right",
                help="Grouping error, in per cent of the neurons' importance-weighted energy.",
            ),
            "approximation": st.column_config.TextColumn(
                "approx. %", alignment="right", help="Approximation error, in the same unit."
            ),
            "course": st.column_config.LineChartColumn("loss over the epochs", y_min=0),
            "seconds": st.column_config.TextColumn("seconds", alignment="right"),
        },
    )
