"""Navigation through levels and steps: two buttons around the level's name, the steps, keys, and the lecture mode."""

from collections.abc import Sequence

import streamlit as st

from retrofit_app import runs
from retrofit_app.figures import escaped, percent
from retrofit_app.runs.levels import Overview
from retrofit_app.shell import lectures
from retrofit_app.widgets import controls

from .parameters import LEVELS, STEPS

KEYS = {"first": "Home", "previous": "K", "next": "J", "last": "End"}
#: px, the list of levels: its width, of a letter, and of "10 of 20" with its sign.
NARROW, WIDE, LETTER, ROOM = 190, 320, 8, 105
ICONS = {"previous": ":material/chevron_left:", "next": ":material/chevron_right:"}


def shortcuts() -> None:
    """Draw the switch for keys and the button for lecture mode, in the sidebar."""
    lectures.way_in(
        "all levels and the picture of one step",
        "steps and levels",
        "J and K go to the next and the previous level, Home and End to the first and the last.",
    )


def stepper(names: Sequence[str], index: int, lecture: bool = False) -> None:
    """Draw ‹ the level's name ›, and the steps inside it."""
    keys = st.session_state.get("shortcuts", True)

    def target(to: str, start: int) -> int:
        last = len(names) - 1
        return {"first": 0, "previous": max(start - 1, 0), "next": min(start + 1, last), "last": last}[to]

    def move(to: str) -> None:
        # From the address, not the list: the second of two quick presses starts where the first ended.
        LEVELS.change(level=names[target(to, names.index(LEVELS.current("level")))])

    def turn(by: int) -> None:
        """Turn a page: to the next step, or from the last one to the next level."""
        start = names.index(LEVELS.current("level"))
        page = start * len(STEPS) + STEPS.index(LEVELS.current("step")) + by
        if 0 <= page < len(names) * len(STEPS):
            LEVELS.change(level=names[page // len(STEPS)], step=STEPS[page % len(STEPS)])

    def button(to: str) -> None:
        st.button(
            to.capitalize(),
            icon=ICONS.get(to),
            key=f"go-{to}",
            on_click=move,
            args=(to,),
            disabled=target(to, index) == index,
            shortcut=KEYS[to] if keys else None,
            help=f"Go to the {to} level" + (f" (key {KEYS[to]})." if keys else "."),
        )

    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="stepper"):
        button("previous")
        st.selectbox(
            "Level",
            names,
            **LEVELS.control("level"),
            width=min(max(NARROW, LETTER * max(map(len, names)) + ROOM), WIDE),
            label_visibility="collapsed",
            format_func=lambda name: f"{names.index(name) + 1} of {len(names)} · {name}",
            help="From the input up. A level is one layer and the functions without weights before it.",
        )
        button("next")
        controls.switch(
            LEVELS,
            "step",
            "Step",
            {name: f"{number} {name}" for number, name in enumerate(STEPS, 1)},
            "What happens inside a level, in order: the neurons respond, get an importance and are grouped. Then each group "
            "gets a target, and its fused neuron is fitted to it.",
        )
        if lecture:
            lectures.ends(turn)
        with st.container(key="keys"):  # invisible buttons for keys
            button("first")
            button("last")


def facts(entry: runs.Entry, overview: Overview, index: int, lecture: bool = False) -> str:
    """A level's facts and losses in a line of Markdown; in a lecture, which hides the picker, with the run."""
    row = overview.table.iloc[index]
    words = [
        f"{escaped(row['kind'])}, {row['widths'].replace(' ', chr(160))} → **{row['fused']}** neurons",
        f"error: grouping {percent(100 * row['grouping share'])}"
        + ("" if row["form"] == "aligned" else f", approximation {percent(100 * row['approximation share'])}"),
    ]
    if overview.course:
        of_all = entry.metrics.get("networks", {}).get("fused", {}).get("samples", 0)
        part = f" on {overview.samples:,} of the {of_all:,} test images" if overview.samples < of_all else ""
        words.append(f"accuracy {percent(overview.accuracy[index])} → {percent(overview.accuracy[index + 1])}{part}")
    return " · ".join([*([f"**{escaped(runs.label(entry))}**"] if lecture else []), *words])
