"""Which network comes out when trained ones are fused? The first page: a run's result, the form of a new one, the list."""

from pathlib import PurePath

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.address import session
from retrofit_app.figures import Palette, escaped
from retrofit_app.runs import methods
from retrofit_app.shell import lectures, picker
from retrofit_app.shell.errors import guarded
from retrofit_app.widgets import example

from . import (
    downloads,
    form,
    going,
    headline,
    history,
    ingredients,
    lecture,
    lost,
    measured,
    permission,
    presets,
    seen,
    tuning,
    tuning_form,
    unfinished,
    views,
)
from .parameters import Picks


def page() -> None:
    """The view that the address names: as by default a finished run, or the progress of one that goes on or stopped."""
    choice, view = picker.choice(), views.view()
    example.EXAMPLE.declare("example")
    is_result = view == "result" and choice.entry.state == "done"
    look = lectures.read()
    if is_result:
        lectures.way_in("the run's networks, what brought them, and where something is lost", "slides")
        if look.lecture and spoken(choice.entry):
            return
    views.bar(view)
    if view != "new":
        presets.FORM.declare(presets.Start, Picks)
    if view != "runs":
        views.VIEW.declare(views.Listing)
    if not is_result:
        tuning_form.TUNING.declare("tuned", tuning_form.TuningForm)
    going.notice(choice.entries, watched=choice.entry.name if view == "result" else "")
    # A place for each view: what the last one showed is gone at once, and not grey between what is new.
    places = {name: st.container() if name == view else st.empty() for name in views.VIEWS}
    with places[view]:
        if view == "new":
            form.form()
        elif view == "runs":
            history.history()
        elif choice.entry.state == "done":
            finished(choice.entry, choice.entries)
        else:
            unfinished.panel(choice.entry)


def spoken(entry: runs.Entry) -> bool:
    """A lecture on a run; False where nothing was measured that it could be about."""
    palette = widgets.palette()
    tuned = None if methods.keeps_parents(entry) else tuning_form.chosen(entry)
    slides = lecture.slides(entry, palette, tuned)
    if not slides:
        st.info("The lecture mode needs a run whose accuracies were measured.", icon=":material/info:")
        return False
    presets.FORM.declare(presets.Start, Picks)
    views.VIEW.declare(views.Listing)
    tuning_form.TUNING.declare("tuned", tuning_form.TuningForm)
    data = PurePath(entry.config.get("data", "")).name
    lectures.show(f"{runs.networks_words(entry)} on {data}", slides)  # without the accuracy, which is an answer
    return True


def finished(entry: runs.Entry, entries: list[runs.Entry]) -> None:
    """The finding and what brought it, what the networks saw, what was lost where, how good each is, and what to take away."""
    palette = widgets.palette()
    tuned = None if methods.keeps_parents(entry) else tuning_form.chosen(entry)
    session.remember(tuning.TILE, tuning.tile_of(tuned))
    headline.headline(entry, palette, tuned)
    if sentence := runs.other_version(entry):
        st.info(
            f"{escaped(sentence)} To compare, delete it in *Your runs* and run it again.", icon=":material/history:"
        )
    ingredients.brought(entry, palette)
    followed(entry, palette)
    show_images = seen.seen(entry, palette)
    lost.lost(entry, palette)
    measured.accuracies(entry, entries, palette)
    tuning.tuning(entry, palette)
    downloads.downloads(entry)
    show_images()


@st.fragment
@guarded
def followed(entry: runs.Entry, palette: Palette) -> None:
    """One image through all networks, once somebody asks for it."""
    example.relink()
    data = entry.config["data"]
    example.follow(entry, palette, lambda: not permission.ask_data(data, "Show images of", "example-show-data"))
