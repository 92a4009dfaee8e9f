"""The picker of the run that all pages show."""

from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from retrofit_app import runs
from retrofit_app.address import session
from retrofit_app.address.rule import option
from retrofit_app.address.session import ALL
from retrofit_app.figures import escaped
from retrofit_app.figures.words import first_up

from . import navigation


@dataclass(frozen=True)
class Choice:
    """The picker's result."""

    entry: runs.Entry
    """The shown run"""
    entries: list[runs.Entry]
    """All runs"""
    first: str
    """The run shown if the address names none"""
    unreadable: dict[Path, str]
    """A sentence on each run that cannot be read, by folder"""


def choice() -> Choice:
    """The shown run, among all."""
    return st.session_state["shown"]


def pick_run() -> Choice:
    """Draw the picker and choose the run that all pages show, from the address or the picker."""
    entries, unreadable = runs.entries()
    if not entries:
        raise ValueError("the shipped example is missing. Make it again: python -m retrofit_app.bundle")
    named = runs.bundle_facts().get("first")
    first = next((entry.name for entry in entries if entry.shipped and entry.name == named), entries[0].name)
    by_name, labels = {entry.name: entry for entry in entries}, runs.labels(entries)
    before = st.session_state.get("shown")
    if before and before.entry.name not in by_name and ALL.address().get("run") == before.entry.name:
        gone = f"run {before.entry.name} no longer exists: its folder was deleted. This is another one."
        st.warning(escaped(first_up(unreadable.get(before.entry.folder, gone))))
        ALL.change(run=first)
    chosen = ALL.one(option("run", list(by_name), first, "run"))
    with st.sidebar:
        navigation.menu()
        st.selectbox(
            "Run",
            list(by_name),
            key="run",
            format_func=labels.__getitem__,
            on_change=_changed,
            args=(by_name, by_name[chosen]),
            help="The shipped runs, then those of your runs folder (`retrofit app --runs FOLDER`), newest first. Runs that "
            "`retrofit fuse --record` writes there appear, too.",
        )
        st.caption(escaped(runs.details(by_name[chosen])))
        st.caption(
            f"{sum(entry.shipped for entry in entries)} shipped, {sum(not entry.shipped for entry in entries)} of your own."
        )
        if unreadable:
            st.caption(f":material/warning: {len(unreadable)} more cannot be read: see *Your runs*.")
    st.session_state["shown"] = Choice(by_name[chosen], entries, first, unreadable)
    return choice()


def _changed(by_name: dict[str, runs.Entry], before: runs.Entry) -> None:
    """The picker's callback. It also runs when a run has ended and its line has changed: then the browser sends the old
    line."""
    chosen = by_name.get(st.session_state.run)
    if chosen is None:
        st.session_state.run = before.name
        return
    levels = [(entry.networks, entry.config.get("target")) for entry in (chosen, before)]
    same = levels[0] == levels[1]
    session.open_run(chosen.name, same_networks=same)


def leave_run(name: str) -> None:
    """Show the first run in place of this one."""
    if choice().entry.name == name:
        ALL.change(run=choice().first)


def open_run(name: str) -> None:
    """Put a run into the address and draw the whole page again."""
    session.open_run(name)
    st.rerun()
