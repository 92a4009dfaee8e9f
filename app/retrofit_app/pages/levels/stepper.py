"""Going through the levels and steps: buttons, keys, lists, and the way into a lecture."""

from collections.abc import Sequence

import streamlit as st

from retrofit_app.address import session
from retrofit_app.figures import escaped, percent
from retrofit_app.widgets.readings import Overview

from .parameters import LEVELS, STEPS

MOVES = ("first", "previous", "next", "last")
KEYS = {"first": "Home", "previous": "K", "next": "J", "last": "End"}
ICONS = {
    "first": ":material/first_page:",
    "previous": ":material/chevron_left:",
    "next": ":material/chevron_right:",
    "last": ":material/last_page:",
}


def shortcuts() -> None:
    """The switch for keys, and the way into a lecture, in the sidebar: a fragment cannot write there."""
    keys = session.first_time("shortcuts", True)
    with st.sidebar:
        # In a lecture the sidebar is hidden, and this button's key still works: it leads out again.
        st.button(
            "Lecture mode",
            key="go-lecture",
            icon=":material/present_to_all:",
            width="stretch",
            on_click=toggle_lecture,
            shortcut="L" if keys else None,
            help="For a projector: larger type, only the strip, the stepper and the pictures of one step. Key L leads in and "
            "out. The address says so, too: such a link opens exactly there.",
        )
        st.toggle(
            "Keyboard shortcuts",
            key="shortcuts",
            persist_state="session",
            help="J and K: next and previous level. Home and End: first and last. Switch off if in your way.",
        )


def toggle_lecture() -> None:
    """Into the lecture mode, or out of it."""
    LEVELS.change(lecture=not LEVELS.current("lecture"))


def stepper(overview: Overview, names: Sequence[str], index: int, lecture: bool = False) -> None:
    """Buttons, a list of levels, and what this level is."""

    keys = session.first_time("shortcuts", True)

    def target(to: str, start: int) -> int:
        last = len(names) - 1
        return {"first": 0, "previous": max(start - 1, 0), "next": min(start + 1, last), "last": last}[to]

    def move(to: str) -> None:
        # From the address, not from the list: the second of two quick presses starts where the first one went.
        LEVELS.change(level=names[target(to, names.index(LEVELS.current("level")))])

    with st.container(
        horizontal=True, vertical_alignment="center" if lecture else "bottom", gap="xsmall", key="stepper"
    ):
        for to in MOVES:  # a lecture hides the outer two, whose keys go on working
            st.button(
                to.capitalize(),
                icon=ICONS[to],
                key=f"go-{to}",
                on_click=move,
                args=(to,),
                disabled=target(to, index) == index,
                shortcut=KEYS[to] if keys else None,
                help=f"Go to the {to} level" + (f" (key {KEYS[to]})." if keys else "."),
            )
        st.selectbox(
            "Level",
            names,
            **LEVELS.control("level"),
            width=170 if not lecture else 210,
            label_visibility="collapsed" if lecture else "visible",
            format_func=lambda name: f"{names.index(name) + 1} of {len(names)} · {name}",
            help="From the input up. Each level is one layer with the functions without weights before it.",
        )
        st.segmented_control(
            "Step",
            STEPS,
            **LEVELS.control("step"),
            required=True,
            format_func=lambda name: f"{STEPS.index(name) + 1} {name}",
            label_visibility="collapsed" if lecture else "visible",
            help="What happens inside a level, in order: neurons respond, get an importance, are grouped, each group gets a "
            "target, and the fused neuron is fitted to it.",
        )
        if lecture:
            st.button(
                "Leave · L" if keys else "Leave",
                key="go-page",
                icon=":material/close:",
                on_click=toggle_lecture,
                help="Back to the whole page.",
            )
    row = overview.table.iloc[index]
    facts = [
        f"{escaped(row['kind'])}, {row['widths'].replace(' ', chr(160))} → **{row['fused']}** neurons",
        f"grouping error {percent(100 * row['grouping share'])}",
    ]
    if row["form"] != "aligned":
        facts.append(f"approximation error {percent(100 * row['approximation share'])}")
    if overview.measured:
        facts.append(f"accuracy {percent(overview.accuracy[index])} → {percent(overview.accuracy[index + 1])}")
    st.markdown(f"Level {index + 1}, {escaped(row['level'])}: " + " · ".join(facts))
