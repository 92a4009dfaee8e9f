"""The run that all pages show."""

import streamlit as st

from retrofit_app import runs
from retrofit_app.address import session

from . import navigation

#: Parameters that another run may not have: kept only where it fused the same networks.
OF_A_RUN = ("level", "seed", "neuron", "pick", "mark")


def change_run(by_name: dict[str, runs.Entry], before: runs.Entry) -> None:
    """The picker's callback: one change of the address.

    Also called when a run has ended and its line has changed: then the browser sends the old line.
    """
    chosen = by_name.get(st.session_state.run)
    if chosen is None:
        st.session_state.run = before.name
        return
    same = all(chosen.config.get(name) == before.config.get(name) for name in ("models", "target", "boundaries"))
    session.change(run=chosen.name, **({} if same else session.defaults(OF_A_RUN)))


def pick_run() -> None:
    """The run that all pages show, from the URL or the picker; kept in the session as `entry` and `entries`."""
    entries, problems = runs.entries()
    if not entries:
        raise ValueError("the shipped example is missing. Make it again: python -m retrofit_app.bundle")
    named = runs.bundle_facts().get("first")
    first = next((entry.name for entry in entries if entry.shipped and entry.name == named), entries[0].name)
    by_name = {entry.name: entry for entry in entries}
    chosen = session.choice("run", list(by_name), first, "run")
    with st.sidebar:
        navigation.menu()
        st.selectbox(
            "Run",
            list(by_name),
            key="run",
            format_func=lambda name: runs.label(by_name[name]),
            on_change=change_run,
            args=(by_name, by_name[chosen]),
            help="Finished and current runs: the shipped ones, then those of your runs folder (`retrofit app --runs "
            "FOLDER`, and what `retrofit fuse --record` writes there), newest first.",
        )
        st.caption(runs.details(by_name[chosen]))
        st.caption(
            f"{sum(entry.shipped for entry in entries)} shipped, {sum(not entry.shipped for entry in entries)} of your own."
        )
        for problem in problems:
            st.caption(f":material/warning: {problem}")
    st.session_state.update(entry=by_name[chosen], entries=entries, first=first)


def to_run(name: str) -> None:
    """Put a run into the address; the run that is shown first is left out."""
    if name == st.session_state.first:
        st.query_params.pop("run", None)
    else:
        st.query_params["run"] = name


def open_run(name: str) -> None:
    """Put a run into the address and draw the whole page again."""
    to_run(name)
    st.rerun()
