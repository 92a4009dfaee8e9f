"""The paper's tables with all results, cached until a result changes."""

from typing import Any

from retrofit_app.memory import MEBI, cached
from retrofit_app.runs import paper
from retrofit_app.runs.paper import Shown, Stamp


@cached(512 * MEBI, "Reading the results…")
def results(stamp: Stamp) -> tuple[Any, list[str]]:
    """See `paper.read`."""
    return paper.read()


@cached(512 * MEBI, "Comparing them with the paper…")
def table(stamp: Stamp, name: str) -> Shown:
    """See `paper.table`."""
    return paper.table(name, results(stamp)[0])
