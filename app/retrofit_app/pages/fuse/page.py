"""Which network comes out when trained ones are fused? The first page: a finished run, and the form of a new one."""

from retrofit_app.shell import picker

from . import finished, form, history, presets, unfinished


def page() -> None:
    """A finished run as a whole, or the progress of one that goes on or stopped; then the form and the list of runs."""
    shown = picker.shown()
    if shown.entry.state == "done":
        finished.page(shown.entry, shown.entries)
    else:
        unfinished.panel(shown.entry)
    if shown.entry.active:
        presets.FORM.declare(presets.words())
    else:
        form.form()
    history.history()
