"""What lies between the networks of a run, and around them: loss and accuracy on a plane, on lines, on circles."""

from collections.abc import Sequence

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import DARK, Palette
from retrofit_app.figures.landscape import who
from retrofit_app.shell import picker
from retrofit_app.shell.errors import guarded
from retrofit_app.widgets import works
from retrofit_core.runs.store import Work

from . import drawn, form, lecture, parameters, scales, taking, watching
from .parameters import LANDSCAPE, LANDSCAPES, Among, Drawing, LandscapeForm


def page() -> None:
    """The landscape that is shown, or that is being measured, and the form of another one."""
    entry, palette = picker.choice().entry, widgets.palette()
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
    works.undo(LANDSCAPES, entry)
    every, likes = LANDSCAPES.of(entry), scales.others(entry)
    look = parameters.drawing(LANDSCAPES.named(entry, every), list(likes))
    chosen = LANDSCAPES.chosen(entry, every, look.map)
    if look.lecture and chosen is not None and chosen.has_content and not chosen.going:
        LANDSCAPE.declare(Among, LandscapeForm)
        lecture.lecture(entry, palette, chosen, look, likes)
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
        finished(entry, palette, chosen, every, look, likes)
    st.divider()
    form.form(entry, is_open=chosen is None, busy=chosen is not None and chosen.going)


def finished(
    entry: runs.Entry,
    palette: Palette,
    chosen: Work,
    every: Sequence[Work],
    look: Drawing,
    likes: dict[str, Work],
) -> None:
    """A landscape at which nobody works: its pictures, or why there are none."""
    if chosen.state != "done":
        part = "what was measured is kept and shown"
        resumes = "Measures what is missing; no point that is there is measured again."
        works.stopped(LANDSCAPES, entry, chosen, every, part=part, resumes=resumes)
    if not chosen.has_content:
        chooser(every)
        return
    drawn.landscape(entry, palette, chosen, look, likes, lambda: chooser(every))
    taking.everything(entry, chosen)
    if chosen.state == "done":
        works.delete(LANDSCAPES, entry, chosen, every)


def chooser(every: Sequence[Work]) -> None:
    """The list of the run's landscapes, where there are several."""
    works.chooser(LANDSCAPES, every, title, "Those that were measured of this run, the newest first.")


def title(work: Work) -> str:
    """A landscape in the list."""
    settings = work.settings
    facts = settings["landscape"]
    spanning = ", ".join(who(name).replace("network ", "") for name in settings["through"])
    tuned = ", fine-tuned" if settings.get("tuned") and "fine-tuned" not in spanning else ""
    return f"{spanning}{tuned} · {facts['resolution']}² points, {facts['images']} images, seed {facts['seed']}"
