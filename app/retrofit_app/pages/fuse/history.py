"""Your runs: one table with a filter, pins and ticks, what can be done with the ticked ones, and how they differ."""

from collections.abc import Sequence
from pathlib import PurePath

import pandas as pd
import streamlit as st

from retrofit_app import figures, runs
from retrofit_app.address import session
from retrofit_app.figures import escaped, listing
from retrofit_app.runs import methods, pins
from retrofit_app.shell import navigation, picker

from . import ticked, trash, unfinished
from .views import MOST_TICKS, VIEW, Listing

TABLE, OPEN, MADE = "runs-table", "runs-open", "runs-made"  # keys
ROW, HEAD, MOST_HIGH = 35, 38, 500  # pixels of the table
STATES = {"created": "at work", "running": "at work", "done": "finished"}


def history() -> None:
    """The runs of the user, the pinned ones first and then the newest, and the shipped ones below them."""
    st.title("Your runs", anchor=False)
    trash.undo()
    every, pinned, chosen = picker.choice().entries, pins.pinned(), VIEW.read(Listing)
    if all(entry.shipped for entry in every):
        st.caption(
            "You have no runs of your own yet. *New fusion* starts one, and `retrofit fuse … --record FOLDER` records one. These "
            "runs came with the workbench:"
        )
    listed = [entry for entry in ordered(every, pinned) if fits(entry, chosen.filter, pinned)]
    ticks = [entry for name in chosen.ticks for entry in every if entry.name == name]
    if gone := [name for name in chosen.ticks if name not in [entry.name for entry in every]]:
        st.warning(escaped(f"Not among these runs: {listing(gone)}."))
    st.text_input(
        "Filter",
        **VIEW.control("filter"),
        icon=":material/search:",
        placeholder="words of a run: kf-linear digits pinned …",
        label_visibility="collapsed",
        help="Shows the runs whose row has all of these words.",
    )
    if listed:
        table(listed, [entry.name for entry in ticks], pinned)
    else:
        st.caption(f"No run has all the words of “{escaped(chosen.filter)}”.")
    actions(ticks, pinned)
    ticked.differences(ticks)


def ordered(entries: Sequence[runs.Entry], pinned: frozenset[str]) -> list[runs.Entry]:
    """Pinned runs first, shipped ones last, and otherwise as they were."""
    return sorted(entries, key=lambda entry: (entry.name not in pinned, entry.shipped))


def fits(entry: runs.Entry, words: str, pinned: frozenset[str]) -> bool:
    """Whether a run's line has all of these words."""
    line = f"{runs.details(entry)} {state(entry)} {entry.name}{' pinned' if entry.name in pinned else ''}".lower()
    return all(word in line for word in words.lower().split())


def state(entry: runs.Entry) -> str:
    """Where a run stands, in a word."""
    return STATES.get(entry.state, entry.state)


# --- the table ------------------------------------------------------------------------------------


def rows(entries: Sequence[runs.Entry], pinned: frozenset[str], opened: str) -> pd.DataFrame:
    """A row for each run."""
    images = [entry.metrics.get("networks", {}).get("fused", {}).get("samples", 0) for entry in entries]
    return pd.DataFrame(
        {
            "open": ["shown" if entry.name == opened else "Open" for entry in entries],
            "pin": ["★" if entry.name in pinned else "" for entry in entries],
            "method": [entry.config["method"] for entry in entries],
            "accuracy": [entry.accuracy for entry in entries],
            "±": [
                None if entry.accuracy is None else figures.margin(entry.accuracy, images=count)
                for entry, count in zip(entries, images, strict=True)
            ],
            "state": [state(entry) for entry in entries],
            "importance": [entry.config.get("importance") if methods.weighs(entry) else "" for entry in entries],
            "networks": [
                runs.networks_words(entry).replace(" networks", "").replace(" split", "") for entry in entries
            ],
            "data": [PurePath(entry.config.get("data", "")).name for entry in entries],
            "samples": [entry.config.get("samples") for entry in entries],
            "seed": [entry.config.get("seed") for entry in entries],
            "made": [pd.Timestamp(entry.status.get("started") or 0, unit="s") for entry in entries],
            "run": [f"{entry.name}{' (shipped)' if entry.shipped else ''}" for entry in entries],
        }
    )


def table(listed: list[runs.Entry], ticks: list[str], pinned: frozenset[str]) -> None:
    """The table; its ticks are in the address."""
    names = [entry.name for entry in listed]
    key = _key(names, ticks)

    def tick() -> None:
        here = [names[row] for row in sorted(session.selected(key, "rows"))]
        hidden = [name for name in ticks if name not in names]
        if len(hidden + here) > MOST_TICKS:
            st.toast(f"{MOST_TICKS} runs can be ticked at a time.", icon=":material/info:")
        first = (hidden + here)[:MOST_TICKS]
        session.remember(MADE, (names, first if first == hidden + here else None, session.recall(MADE)[2]))
        VIEW.change(ticks=tuple(first))

    def open_one() -> None:
        picker.to_run(names[session.recall(OPEN)["row"]])

    lines = rows(listed, pinned, picker.choice().entry.name)
    columns = {"pin": any(name in pinned for name in names), "state": any(entry.state != "done" for entry in listed)}
    column = st.column_config
    st.dataframe(
        lines.drop(columns=[name for name, wanted in columns.items() if not wanted]),
        key=key,
        hide_index=True,
        height=min(ROW * len(listed) + HEAD, MOST_HIGH),
        on_select=tick,
        selection_mode="multi-row",
        selection_default={"selection": {"rows": [names.index(name) for name in ticks if name in names]}},
        placeholder="–",
        alt="Runs with their accuracies and settings. Ticked rows are compared below.",
        column_config={
            "open": column.ButtonColumn("", width=72, on_click=open_one, key=OPEN),
            "pin": column.TextColumn("★", width=36, help="Pinned runs stand first."),
            "method": column.TextColumn("method", width=96),
            "accuracy": column.NumberColumn("accuracy", format="%.1f %%", width=72, help="Of the fused network."),
            "±": column.NumberColumn("±", format="%.1f", width=40, help="Half the 95 % interval, in points."),
            "state": column.TextColumn("state", width=84),
            "importance": column.TextColumn("importance", width=92),
            "networks": column.TextColumn("networks", width=88, help="How many, and on which split they were trained."),
            "data": column.TextColumn("data", width=58),
            "samples": column.NumberColumn("samples", width=66),
            "seed": column.NumberColumn("seed", width=46),
            "made": column.DatetimeColumn("made", format="D MMM YYYY", width=90),
            "run": column.TextColumn("run", width=142),
        },
    )


def _key(names: list[str], ticks: list[str]) -> str:
    """Of the table's widget. It is another one where rows or ticks are others than it knows, for it takes ticks only once."""
    known_names, known_ticks, count = session.recall(MADE, (None, None, 0))
    if (names, ticks) != (known_names, known_ticks):
        count += 1
        session.remember(MADE, (names, ticks, count))
    return f"{TABLE}-{count}"


# --- what can be done with ticked runs ------------------------------------------------------------


def actions(ticks: list[runs.Entry], pinned: frozenset[str]) -> None:
    """Buttons for the ticked runs."""
    if not ticks:
        st.caption("Tick runs to pin, delete or compare them.")
        return
    names = [entry.name for entry in ticks]
    deletable = [entry.name for entry in ticks if not entry.shipped]
    pin = not set(names) <= pinned
    with st.container(horizontal=True, vertical_alignment="center", key="runs-actions"):
        st.markdown(f"**{len(ticks)} ticked**", width="content")
        st.button(
            "Pin" if pin else "Unpin",
            key="pin",
            icon=":material/keep:",
            on_click=pins.pin,
            args=(names, pin),
            help="Pinned runs stand first in this list.",
        )
        if deletable:
            st.button(
                "Delete",
                key="delete",
                icon=":material/delete:",
                on_click=_delete,
                args=(deletable, names),
                help="You can undo it until you delete again. Shipped runs stay.",
            )
        if (
            len(ticks) == 1
            and ticks[0].resumable
            and st.button("Go on", key="go-on", icon=":material/resume:", help="Continues after what is finished.")
        ):
            unfinished.resume(ticks[0])
        st.button(
            "Clear",
            key="clear-ticks",
            type="tertiary",
            on_click=lambda: VIEW.change(ticks=()),
            help="Removes all ticks.",
        )
    finished = [entry.name for entry in ticks if entry.state == "done"]
    if len(finished) > 1:
        navigation.link(
            "compare",
            "Compare them side by side",
            "The page Compare: these runs with their parents, ensemble and average, class by class and level by level.",
            runs="|".join(finished),
        )


def _delete(names: list[str], ticks: list[str]) -> None:
    gone = trash.delete(names)
    if gone:
        VIEW.change(ticks=tuple(name for name in ticks if name not in gone))
