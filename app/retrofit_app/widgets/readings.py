"""What pages read from records, cached until they change."""

from retrofit_app import runs
from retrofit_app.figures import Neurons
from retrofit_app.models.keep import keep
from retrofit_app.runs import levels

record = keep(2, "Reading the run's levels…")(levels.record)  # one of large networks has hundreds of megabytes
analysis = keep(2, "Reading the analysis…")(levels.analysis)
overview = keep(200)(levels.overview)


@keep(1000)
def grouping(entry: runs.Entry, level: int, score: str | None = None) -> Neurons:
    """See `levels.grouped`."""
    return levels.grouped(entry, record(entry).levels, analysis(entry), level, score)
