"""What lies between the networks of a run, and around them: loss and accuracy on a plane, on lines, on circles."""

from collections.abc import Sequence

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import DARK, Palette, escaped
from retrofit_app.figures.landscape import who
from retrofit_app.runs import followups
from retrofit_app.shell import picker
from retrofit_app.shell.errors import guarded
from retrofit_app.widgets import deleting
from retrofit_core.runs import store
from retrofit_core.runs.store import Work

from . import drawn, form, lecture, parameters, scales, taking, watching
from .parameters import LANDSCAPE, Among, Asked, Drawing

WHAT = "landscape"


def page() -> None:
    """The landscape that is shown, or that is being measured, and the form of another one."""
    entry, palette = picker.shown().entry, widgets.palette()
    with st.container(key="heading"):
        st.title("What lies between the networks?", anchor=False)
    if entry.state != "done":
        widgets.why(
            "This run is not finished, so there is no fused network between whose parents one could look. Choose another run "
            "on the left."
        )
        return
    lecture.way_in()
    body(entry, palette)


@st.fragment
@guarded
def body(entry: runs.Entry, palette: Palette) -> None:
    """All but the sidebar: another line or scale runs and sends only this."""
    deleting.undo(WHAT, entry, store.LANDSCAPE, WHAT)
    every = followups.works_of(entry, store.LANDSCAPE)
    likes = scales.others(entry)

    def is_going(key: str) -> bool:
        return followups.work_at(entry, store.LANDSCAPE, key).going

    shown = parameters.drawing([kept.name for kept in every], is_going, list(likes))
    chosen = next((kept for kept in every if kept.name == shown.map), None)
    if chosen is None and shown.map:  # its worker has not written down yet what it does
        chosen = followups.work_at(entry, store.LANDSCAPE, shown.map)
    if shown.lecture and chosen is not None and chosen.has_content and not chosen.going:
        LANDSCAPE.declare(Among, Asked)
        lecture.lecture(entry, palette, chosen, shown, likes)
        return
    if chosen is None:
        st.markdown(
            "On the plane through three networks of this run every point is a network, too: a mixture of the three. Its loss "
            "and accuracy show whether one can walk from one network to the other without leaving the valley, and where "
            "between the parents the fused network lies. **No landscape of this run is measured yet.**"
        )
    elif chosen.going:
        watching.watch(str(chosen.folder), palette is DARK)
    else:
        finished(entry, palette, chosen, every, shown, likes)
    st.divider()
    form.form(entry, is_open=chosen is None, busy=chosen is not None and chosen.going)


def finished(
    entry: runs.Entry,
    palette: Palette,
    chosen: Work,
    every: Sequence[Work],
    shown: Drawing,
    likes: dict[str, Work],
) -> None:
    """A landscape at which nobody works: its pictures, or why there are none."""
    ended(entry, chosen, every)
    if not chosen.has_content:
        chooser(every)
        return
    drawn.landscape(entry, palette, chosen, shown, likes, lambda: chooser(every))
    taking.everything(entry, chosen)
    if chosen.state == "done":
        delete(entry, chosen, every)


def ended(entry: runs.Entry, chosen: Work, every: Sequence[Work]) -> None:
    """Why a landscape is not whole, and the way to the rest of it."""
    if chosen.state == "done":
        return
    sentence = {
        "cancelled": "Cancelled: what was measured is kept and shown.",
        "interrupted": "The worker was ended before it was finished: what was measured is kept and shown.",
        "failed": f"Not finished: {runs.error_of(chosen.folder)}",
    }[chosen.state]
    (st.warning if chosen.state == "cancelled" else st.error)(escaped(sentence))
    with st.container(horizontal=True):
        if st.button(
            "Go on with it",
            key="landscape-resume",
            icon=":material/resume:",
            help="Measures what is missing; no point that is there is measured again.",
        ):
            form.start(entry, chosen.settings)
        delete(entry, chosen, every)


def delete(entry: runs.Entry, chosen: Work, every: Sequence[Work]) -> None:
    """The button that deletes a landscape."""
    # The first is what is shown by default, so the address then names none: if it is the one that goes, the next is shown.
    deleting.delete(WHAT, chosen, entry, WHAT, lambda: LANDSCAPE.change(map=every[0].name, point=""))


def chooser(every: Sequence[Work]) -> None:
    """The list of the run's landscapes, where there are several."""
    if len(every) < 2:
        return
    by_key = {kept.name: kept for kept in every}
    st.selectbox(
        "Landscape",
        list(by_key),
        **LANDSCAPE.control("map"),
        width=330,
        format_func=lambda key: title(by_key[key]),
        help="Those that were measured of this run, the newest first.",
    )


def title(kept: Work) -> str:
    """A landscape in the list."""
    settings = kept.settings
    facts = settings["landscape"]
    spanning = ", ".join(who(name).replace("network ", "") for name in settings["through"])
    state = "" if kept.state == "done" else f" · {kept.state}"
    tuned = ", fine-tuned" if settings.get("tuned") and "fine-tuned" not in spanning else ""
    return f"{spanning}{tuned} · {facts['resolution']}² points, {facts['images']} images, seed {facts['seed']}{state}"
