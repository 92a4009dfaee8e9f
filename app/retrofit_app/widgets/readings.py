"""What pages read from records, cached until they change."""

from typing import Any

from retrofit_app import runs
from retrofit_app.figures import Neurons
from retrofit_app.models.keep import keep
from retrofit_app.runs import levels
from retrofit_core.runs.store import Work

record = keep(2, "Reading the run's levels…")(levels.record)  # one of large networks has hundreds of megabytes
analysis = keep(2, "Reading the analysis…")(levels.analysis)
overview = keep(200)(levels.overview)


@keep(32)
def survey(work: Work) -> Any:
    """A landscape so far, a `landscape.Survey`.

    Raises:
        ValueError: it is damaged.
    """
    from retrofit_core.inspection.landscape import Survey

    try:
        return Survey.load(work.folder)
    except ValueError as error:
        raise ValueError(runs.without_folders(error, work.folder.parent)) from error


@keep(1000)
def grouping(entry: runs.Entry, level: int, score: str | None = None) -> Neurons:
    """See `levels.grouped`."""
    return levels.grouped(entry, record(entry).levels, analysis(entry), level, score)
