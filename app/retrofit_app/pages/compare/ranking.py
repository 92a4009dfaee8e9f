"""A leaderboard's rows, from its worker's results and existing records."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from retrofit_app import runs, widgets
from retrofit_app.figures import Difference, difference, lettered, listing, number, percent, share
from retrofit_app.figures.booktable import Column, Line, Table, ranked
from retrofit_app.figures.leaderboard import seconds_words
from retrofit_app.figures.words import first_up
from retrofit_app.runs import leaderboards, methods
from retrofit_app.runs.leaderboards import BoardRun, Leaderboard

COLUMNS = (
    Column("network", "The place, the method, its importance and options.", is_number=False),
    Column("accuracy %", "On the test images. Bold: the best."),
    Column(
        "to the first", "Distance to the first row in points; in brackets the 95 % interval, paired image by image."
    ),
    Column("loss", "Mean cross entropy."),
    Column("calib.", "Calibration error: mean gap between confidence and accuracy over 15 bins; 0 is best."),
    Column("seconds", "Time of the fusion, on the machine that made it."),
    Column("M ops", "Million multiply-adds for one image."),
    Column("run", "Its name in the list of runs.", is_number=False),
)
MILLION = 1e6
NOT_RUN = "not run yet"
MOST_NAMES = 3  # names in a sentence
MOST_BEATEN = 4
AVERAGE = "Average"
#: Methods that do not look at the neurons, in words.
SIMPLE = {
    "Random-Linear": "random groups with the fit",
    AVERAGE: "the plain average",
}


@dataclass(frozen=True)
class BoardRow:
    """A network of a leaderboard, or a method without one."""

    name: str
    """On the page"""
    method: str | None
    """None for a parent"""
    facts: dict[str, Any]
    """Its measurements; empty if there are none"""
    seconds: float | None = None
    operations: float | None = None
    run: str = ""
    note: str = ""
    """Why there is no network, or its progress"""
    refused: bool = False
    """The method does not apply"""
    rank: int = 0
    """0 without a network"""
    behind: Difference | None = None
    """Its lead over the first row"""

    @property
    def accuracy(self) -> float | None:
        """In per cent."""
        return self.facts.get("accuracy")


def rows(leaderboard: Leaderboard, entry: runs.Entry, refusals: dict[str, str]) -> list[BoardRow]:
    """The best first, then pending rows, then methods that do not apply."""
    parents = [_parent(leaderboard, entry, index) for index in range(len(entry.config["models"]))]
    each = [*parents, *(_row(leaderboard, entry, run, refusals) for run in leaderboard.runs)]
    measured = sorted((row for row in each if row.accuracy is not None), key=lambda row: -(row.accuracy or 0.0))
    accuracies = [row.accuracy for row in measured]
    places = [  # equal accuracies share a rank
        replace(row, rank=accuracies.index(row.accuracy) + 1, behind=difference(row.facts, measured[0].facts))
        for row in measured
    ]
    others = [row for row in each if row.accuracy is None]
    return [*places, *sorted(others, key=lambda row: row.refused)]


def _parent(leaderboard: Leaderboard, entry: runs.Entry, index: int) -> BoardRow:
    name = f"parent {index}"
    measured = leaderboard.measured.get(name)
    if measured is not None and measured.get("accuracy") is not None:
        facts = measured | {"samples": leaderboard.samples}
        return BoardRow(lettered(name), None, facts, operations=measured["operations"])
    return BoardRow(lettered(name), None, entry.metrics.get("networks", {}).get(name, {}))


def _row(leaderboard: Leaderboard, entry: runs.Entry, run: BoardRun, refusals: dict[str, str]) -> BoardRow:
    method, name = run.config.method, leaderboard.short(run.name)
    measured = leaderboard.measured.get(run.name)
    if measured is not None and measured.get("reason") is None:
        chose = f": {lettered(measured['chose'])}" if measured.get("chose") else ""
        return BoardRow(
            f"{name}{chose}",
            method,
            measured | {"samples": leaderboard.samples},
            seconds=measured["seconds"],
            operations=measured["operations"],
            run=_run(run) or measured["key"] or "",
        )
    if run.entry is not None and run.done and run.entry.accuracy is not None:
        facts = run.entry.metrics["networks"]["fused"]
        chose = methods.chosen_words(run.entry)
        return BoardRow(f"{name}{chose}", method, facts, seconds=run.entry.status.get("seconds"), run=_run(run))
    reason = (measured or {}).get("reason") or refusals.get(run.name)
    if reason:
        return BoardRow(name, method, {}, note=f"does not apply: {lettered(reason)}", refused=True)
    if leaderboard.at_work is not None and leaderboard.at_work.name == run.name:
        step = leaderboards.step(run)
        return BoardRow(name, method, {}, note=f"at work{f': {step}' if step else ''} …")
    known = entry.metrics.get("networks", {}).get(leaderboards.KNOWN.get(method, ""))
    if known and not run.config.options:
        return BoardRow(name, method, known)
    return BoardRow(name, method, {}, note=f"failed before: {lettered(run.reason)}" if run.reason else NOT_RUN)


def _run(run: BoardRun) -> str:
    return f"{run.entry.name}{' (shipped)' if run.entry.shipped else ''}" if run.entry is not None else ""


def table(leaderboard: Leaderboard, entry: runs.Entry, every: Sequence[BoardRow]) -> Table:
    """All rows as the page and its files show them."""
    ranked_rows = [row for row in every if row.rank]
    is_tied = sum(row.rank == 1 for row in every) > 1
    best = ranked([row.accuracy for row in ranked_rows])
    lines = [
        Line(_cells(row, is_tied), frozenset({1} if index in best else ())) for index, row in enumerate(ranked_rows)
    ]
    lines += [
        Line((row.name, *[""] * (len(COLUMNS) - 1)), note=row.note)
        for row in every
        if not row.rank and row.note != NOT_RUN
    ]
    waiting = [row.name for row in every if row.note == NOT_RUN]
    samples = max((row.facts.get("samples") or leaderboard.samples for row in ranked_rows), default=0)
    images = f"{samples:,} test images. " if samples else ""
    weighed = f"{leaderboard.score} importance, " if leaderboard.score else ""
    note = f"{images}{runs.networks_words(entry)}; {weighed}{leaderboard.base.samples} samples, seed {leaderboard.base.seed}."
    if waiting:
        note += f" Not run yet: {listing(waiting)}."
    if known := [row.name for row in ranked_rows if row.method and row.seconds is None and not row.run]:
        note += f" Measured with the run, but not timed yet: {listing(known)}."
    return Table("Leaderboard of methods on the same networks", COLUMNS, tuple(lines), (note,))


def _cells(row: BoardRow, is_tied: bool) -> tuple[str, ...]:
    loss, calibration = row.facts.get("loss"), row.facts.get("calibration_error")
    return (
        f"{row.rank}. {row.name}",
        share(row.accuracy or 0.0),
        _distance(row, is_tied),
        "" if loss is None else number(loss, 2),
        "" if calibration is None else number(calibration, 3),
        "" if row.seconds is None else seconds_words(row.seconds),
        "" if row.operations is None else f"{row.operations / MILLION:.3g}",
        row.run,
    )


def _distance(row: BoardRow, is_tied: bool) -> str:
    if row.rank == 1:
        return "tied first" if is_tied else "the first"
    return row.behind.words if row.behind else ""


def finding(every: Sequence[BoardRow]) -> str:
    """Which network is first, and which are not clearly behind."""
    ranked_rows = [row for row in every if row.rank]
    if len(ranked_rows) < 2:
        return ""
    first = ranked_rows[0]
    tied = [row.name for row in ranked_rows if row.rank == 1]
    are = "is first" if len(tied) == 1 else "are tied first"
    waits = any(not row.rank and not row.refused for row in every)
    words = f"{'So far: ' if waits else ''}{listing(tied)} {are} with {percent(first.accuracy or 0.0)}"
    if keeps_parents(first):
        singles = [row for row in ranked_rows if not keeps_parents(row)]
        best = [row.name for row in singles if row.rank == singles[0].rank]
        if best:
            are = "is" if len(best) == 1 else "are"
            words += f"; of single networks {listing(best)} {are} first with {percent(singles[0].accuracy or 0.0)}"
        return f"{words}."
    close = [row.name for row in ranked_rows[len(tied) :] if row.behind and row.behind.ends and not row.behind.clear]
    if not close:
        return f"{words}."
    names = close if len(close) <= MOST_NAMES else [*close[: MOST_NAMES - 1], f"{len(close) - MOST_NAMES + 1} more"]
    return f"{words}; not clearly behind: {listing(names)}."


def noticed(every: Sequence[BoardRow]) -> str:
    """Which published methods a simple one clearly beats, and whether the best of the paper's clearly beats it; empty if it
    beats none."""
    best: dict[str, BoardRow] = {}
    for row in every:
        if row.rank and row.method:
            best.setdefault(row.method, row)
    published = {
        name for family in ("Averaging", "Matching") for name in leaderboards.FAMILIES[family][1]
    } - SIMPLE.keys()
    ours = [best[name] for name in leaderboards.PAPERS if name in best]
    for method, words in SIMPLE.items():
        simple = best.get(method)
        if simple is None:
            continue
        beaten = [row for name, row in best.items() if name in published and _clearly(simple, row)]
        if beaten:
            shown = [_rounded(row) for row in beaten[:MOST_BEATEN]]
            shown += [f"{len(beaten) - MOST_BEATEN} more"] * (len(beaten) > MOST_BEATEN)
            verb, them = ("beats", "it") if method == AVERAGE else ("beat", "them")
            text = f"{first_up(_rounded(replace(simple, name=words)))} {verb} {listing(shown)}"
            if ours:
                first = max(ours, key=lambda row: row.accuracy or 0.0)
                text += f"; {_rounded(first)} is {'' if _clearly(first, simple) else 'not '}clearly ahead of {them}"
            return f"{text}."
    return ""


def _rounded(row: BoardRow) -> str:
    return f"{row.name} ({number(row.accuracy or 0.0, 0)})"


def _clearly(one: BoardRow, other: BoardRow) -> bool:
    """Whether the first is clearly more accurate."""
    lead = difference(one.facts, other.facts)
    return lead.clear and lead.points > 0


def keeps_parents(row: BoardRow) -> bool:
    """Whether it is all networks side by side."""
    return row.method is not None and methods.takes(row.method).keeps_parents


def origin(leaderboard: Leaderboard, entry: runs.Entry) -> widgets.Several:
    """The leaderboard as the origin of pictures and tables."""

    def texts() -> tuple[str, str]:
        from retrofit_core.runs import snippets

        pairs = [(run.config, runs.training_of(entry)) for run in leaderboard.runs]
        return snippets.comparison_command(pairs), snippets.comparison_python(pairs)

    source = f"Leaderboard {leaderboard.folder.name} on the networks of run {entry.name}; retrofit-workbench {runs.library()}"
    return widgets.Several(f"leaderboard-{entry.name}", source, texts)
