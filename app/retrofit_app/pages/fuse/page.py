"""Which network comes out when trained ones are fused? The first page: a run's result, the form of a new one, the list."""

from retrofit_app.shell import picker

from . import form, going, history, presets, result, unfinished, views


def page() -> None:
    """The view that the address names: as by default a finished run, or the progress of one that goes on or stopped."""
    shown, view = picker.shown(), views.where().view
    views.bar(view)
    if view != "new":
        presets.FORM.declare(presets.words())
    if view != "runs":
        views.VIEW.declare(views.words())
    going.notice(shown.entries, watched=shown.entry.name if view == "result" else "")
    if view == "new":
        form.form()
    elif view == "runs":
        history.history()
    elif shown.entry.state == "done":
        result.page(shown.entry, shown.entries)
    else:
        unfinished.panel(shown.entry)
