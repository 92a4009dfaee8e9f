"""Which network comes out when trained ones are fused? The first page: a run's result, the form of a new one, all runs."""

from pathlib import PurePath

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.address.rule import option
from retrofit_app.address.session import Scope
from retrofit_app.figures import escaped
from retrofit_app.runs import methods
from retrofit_app.shell import lectures, picker
from retrofit_app.widgets import controls

from . import form, going, history, lecture, result, tuning

VIEW = Scope("fuse-view")
VIEWS = {"result": "Result", "new": ":material/add: New fusion", "runs": "Your runs"}


def page() -> None:
    """Draw the view that the address names; the default is a finished run, or the state of an unfinished one."""
    choice, view = picker.choice(), VIEW.one(option("view", list(VIEWS), "result", "view of this page", until_run=True))
    is_result = view == "result" and choice.entry.state == "done"
    look = lectures.read()
    if is_result:
        lectures.way_in("the run's networks, what brought them, and where something is lost", "slides")
        if look.lecture and spoken(choice.entry):
            return
    with st.container(key="fuse-bar"):
        controls.switch(
            VIEW,
            "view",
            "View",
            VIEWS,
            "Shows the open run, the form of a new one, or the list of all runs.",
        )
    # A place for each view: the last view's content vanishes at once, instead of turning grey between new parts.
    places = {name: st.container() if name == view else st.empty() for name in VIEWS}
    with places[view]:
        if view == "new":
            form.form()
        elif view == "runs":
            history.history()
        elif choice.entry.state == "done":
            with st.container(key="result"):
                finished(choice.entry)
        else:
            going.panel(choice.entry)


def spoken(entry: runs.Entry) -> bool:
    """Show a lecture on a run; return False if nothing was measured for it."""
    palette = widgets.palette()
    tuned = None if methods.keeps_parents(entry) else tuning.TUNINGS.shown(entry)[1]
    slides = lecture.slides(entry, palette, tuned)
    if not slides:
        st.info("Lecture mode needs a run with measured accuracies.", icon=":material/info:")
        return False
    data = PurePath(entry.config.get("data", "")).name
    lectures.show(f"{runs.networks_words(entry)} on {data}", slides)  # without accuracy, which is an answer
    return True


def finished(entry: runs.Entry) -> None:
    """Draw the finding, its ingredients, what was lost where, what the networks saw, fine-tuning and downloads."""
    palette = widgets.palette()
    tuned = None if methods.keeps_parents(entry) else tuning.TUNINGS.shown(entry)[1]
    st.session_state[tuning.TILE] = tuning.tile_of(tuned)
    result.summary(entry, palette, tuned)
    if sentence := runs.other_version(entry):
        st.info(
            f"{escaped(sentence)} To compare, delete it in *Your runs* and run it again.", icon=":material/history:"
        )
    result.taken_apart(entry, palette)
    result.lost(entry, palette)
    result.followed(entry, palette)
    result.seen(entry)
    tuning.tuning(entry)
    result.downloads(entry)
