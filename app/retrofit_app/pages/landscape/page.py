"""What lies between the networks of a run, and around them: loss and accuracy on a plane, on lines, on circles."""

from collections.abc import Sequence

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import DARK, Palette, escaped
from retrofit_app.figures.landscape import who
from retrofit_app.runs import landscapes
from retrofit_app.runs.landscapes import Kept
from retrofit_app.shell import picker
from retrofit_app.shell.errors import guarded
from retrofit_app.widgets import deleting

from . import drawn, form, lecture, parameters, scales, taking, watching
from .parameters import LANDSCAPE, Among, Asked, Shown

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
    deleting.undo(WHAT, entry, WHAT)
    every = landscapes.kept(entry)
    likes = scales.others(entry)

    def is_going(key: str) -> bool:
        return Kept.at(entry, key).going

    shown = parameters.shown([kept.name for kept in every], is_going, list(likes))
    chosen = next((kept for kept in every if kept.name == shown.map), None)
    if chosen is None and shown.map:  # its worker has not written down yet what it does
        chosen = Kept.at(entry, shown.map)
    if shown.lecture and chosen is not None and chosen.is_drawn and not chosen.going:
        LANDSCAPE.declare([*Among.__dataclass_fields__, *Asked.__dataclass_fields__])
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
    chosen: Kept,
    every: Sequence[Kept],
    shown: Shown,
    likes: dict[str, Kept],
) -> None:
    """A landscape at which nobody works: its pictures, or why there are none."""
    ended(entry, chosen, every)
    if not chosen.is_drawn:
        chooser(every)
        return
    drawn.landscape(entry, palette, chosen, shown, likes, lambda: chooser(every))
    taking.everything(entry, chosen)
    if chosen.state == "done":
        delete(entry, chosen, every)


def ended(entry: runs.Entry, chosen: Kept, every: Sequence[Kept]) -> None:
    """Why a landscape is not whole, and the way to the rest of it."""
    if chosen.state == "done":
        return
    sentence = {
        "cancelled": "Cancelled: what was measured is kept and shown.",
        "interrupted": "The worker was ended before it was finished: what was measured is kept and shown.",
        "failed": f"Not finished: {chosen.error}",
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


def delete(entry: runs.Entry, chosen: Kept, every: Sequence[Kept]) -> None:
    """The button that deletes a landscape."""
    # The first is what is shown by default, so the address then names none: if it is the one that goes, the next is shown.
    deleting.delete(WHAT, chosen, entry, WHAT, lambda: LANDSCAPE.change(map=every[0].name, point=""))


def chooser(every: Sequence[Kept]) -> None:
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


def title(kept: Kept) -> str:
    """A landscape in the list."""
    settings = kept.settings
    facts = settings["landscape"]
    spanning = ", ".join(who(name).replace("network ", "") for name in settings["through"])
    state = "" if kept.state == "done" else f" · {kept.state}"
    tuned = ", fine-tuned" if settings.get("tuned") and "fine-tuned" not in spanning else ""
    return f"{spanning}{tuned} · {facts['resolution']}² points, {facts['images']} images, seed {facts['seed']}{state}"
