"""How long work takes on this machine: a prediction, corrected by what its earlier runs took."""

import json
import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median, quantiles

from retrofit_core.runs.store import read_json
from retrofit_core.system import files

from .records import Entry

#: A file of a run that the workbench started: the seconds that were predicted, and when its worker was started.
EXPECTED = "expected.json"
#: Earlier runs that a prediction learns from: those with the nearest predictions. Fewer than ENOUGH say nothing of their spread.
NEAREST, ENOUGH = 9, 5
#: A range's ends are its middle divided and multiplied by at most this (after rounding: threefold), and at least that.
WIDEST, NARROWEST = 1.6, 1.2
#: Largest counts that are rounded to whole ones, and to multiples of 5; above, to multiples of 10.
ONES, FIVES = 10, 30


def expect(record: Path, seconds: float) -> None:
    """Keep the prediction of a run whose worker is about to start; 0 if none is known, or the run does not begin now."""
    if seconds:
        files.write(record / EXPECTED, json.dumps({"seconds": seconds, "started": time.time()}))
    else:
        (record / EXPECTED).unlink(missing_ok=True)


def known(entries: Iterable[Entry]) -> list[tuple[float, float]]:
    """(predicted, taken) seconds of the finished runs with a prediction; a resumed run has none."""
    return [
        (expected["seconds"], max(entry.status["updated"] - expected["started"], 1.0))
        for entry in entries
        if not entry.shipped and entry.state == "done" and (expected := read_json(entry.folder / EXPECTED))
    ]


def between(seconds: float, pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The least and most seconds that work with this prediction is likely to take, at most threefold apart.

    Args:
        pairs: see `known`; the nearest predictions count, because long and short runs err differently.
    """
    nearest = sorted(pairs, key=lambda pair: abs(math.log(pair[0] / seconds)))[:NEAREST]
    off = [math.log(taken / predicted) for predicted, taken in nearest]
    middle, spread = seconds * math.exp(median([0.0, *off])), WIDEST  # the prediction itself counts like a run
    if len(off) >= ENOUGH:  # nine of ten of them
        most = quantiles([abs(each - median(off)) for each in off], n=10, method="inclusive")[-1]
        spread = min(max(math.exp(most), NARROWEST), WIDEST)
    return middle / spread, middle * spread


def likely(seconds: float, entries: Iterable[Entry]) -> str:
    """A predicted time as a range in words, in Markdown, and what it is learned from."""
    low, high = map(rounded, between(seconds, pairs := known(entries)))
    same_unit = low.split()[1] == high.split()[1]
    words = f"about {low}" if low == high else f"{low.split()[0] if same_unit else low} to {high}"
    return f"**{words}** {'by your earlier runs' if pairs else 'as a first guess'}"


def about(seconds: float) -> str:
    """A predicted time in words."""
    return f"about {rounded(seconds)}"


def rounded(seconds: float) -> str:
    """A time in words, with a digit or two."""
    size, unit = (1, "s") if seconds < 90 else (60, "min") if seconds < 5400 else (3600, "h")
    count = max(seconds / size, 1)
    step = 1 if count < ONES else 5 if count < FIVES else 10
    return f"{round(count / step) * step} {unit}"
