"""The table of the compared runs and their references, and their settings."""

from collections.abc import Sequence

from retrofit_app.figures import difference, listing, number, percent, share
from retrofit_app.figures.booktable import Column, Line, Table, ranked
from retrofit_app.figures.noise import half
from retrofit_app.figures.words import seconds_words
from retrofit_app.runs import methods
from retrofit_app.runs.compared import FusedNetwork, Group, Row
from retrofit_app.runs.words import NONE, different

COLUMNS = (
    Column("network", "Method, grouping if not its own, importance, options.", is_number=False),
    Column(
        "accuracy %", "On the test images; the mean over seeds where there are several. Bold: the best of these runs."
    ),
    Column("±", "Half the 95 % interval that the number of test images allows, in points."),
    Column(
        "to best parent",
        "Gain over the best parent in points; in brackets the 95 % interval over images (paired) and seeds.",
    ),
    Column("seeds", "Number of runs in this row, which differ only in the seed of the fusion. †: one seed."),
    Column("sd", "Standard deviation of the accuracies over the seeds, in points."),
    Column("loss", "Mean cross entropy on the test images."),
    Column("calib.", "Calibration error: mean gap between confidence and accuracy over 15 bins, 0 is best."),
    Column("seconds", "Time of the fusion and the fine-tuning, on the machine that made it."),
    Column("run", "Its name in the list of runs.", is_number=False),
)
ACCURACY = 1  # the column whose best is bold
MOST_NAMES = 3  # run names in a cell
ONE_SEED = "† A single seed: how much another seed changes the result is unknown."


def side_by_side(groups: Sequence[Group]) -> Table:
    """All compared runs, with each group's references below it."""
    lines = []
    for group in groups:
        lines.append(Line((), heading=heading(group)))
        lines += _lines(group)
    return Table("Compared runs and what they are measured against", COLUMNS, tuple(lines), tuple(notes(groups)))


def heading(group: Group) -> str:
    """A group's networks and number of images."""
    images = max((row.samples for row in group.every), default=0)
    return f"{group.title}{f', {images:,} test images' if images else ''}"


def notes(groups: Sequence[Group]) -> list[str]:
    """What readers of the table have to know."""
    rows = [row for group in groups for row in group.rows]
    sentences = [ONE_SEED] if any(row.n == 1 for row in rows) else []
    if any(row.n == 0 for row in rows):
        sentences.append("Runs without numbers were not measured; retrofit fuse … --evaluate does it.")
    return sentences


def findings(groups: Sequence[Group]) -> list[str]:
    """A sentence about each group, with intervals."""
    sentences, every = [], [row for group in groups for row in group.rows]
    names = {id(row): name for row, name in zip(every, _titles(every), strict=True)}
    theirs = " on its networks" if len(groups) > 1 else ""
    for group in groups:
        measured = sorted((row for row in group.rows if row.n), key=lambda row: -(row.accuracy or 0.0))
        if not measured:
            continue
        best, parent = measured[0], group.best_parent
        name = names[id(best)]
        equal = [names[id(row)] for row in measured if row.accuracy == best.accuracy]
        if len(measured) == 1:
            words = f"{name} gets {percent(best.accuracy or 0.0)}"
        elif len(equal) > 1:
            words = f"{listing(equal)} are tied with {percent(best.accuracy or 0.0)}"
        else:
            seconds = [row for row in measured if row.accuracy == measured[1].accuracy]
            gaps = [difference(best.each, row.each) for row in seconds]
            ahead = "clearly ahead" if all(each.clear for each in gaps) else "but not clearly ahead"
            tie = ", which are tied" if len(seconds) > 1 else ""
            together = best.networks and methods.keeps_parents(best.networks[0].entry)
            words = (
                f"{name} is the best{theirs} with {percent(best.accuracy or 0.0)}, {ahead} of "
                f"{listing([names[id(row)] for row in seconds])}{tie}; the difference is {gaps[0].words} points"
                f"{'; it keeps all networks side by side' if together else ''}"
            )
        if parent is not None and best.networks and methods.keeps_one(best.networks[0].entry) == parent.name:
            words += "; it is the best parent itself"
        elif parent is not None:
            more, than = difference(best.each, parent.each), f"the best parent ({parent.name})"
            one = "it is" if len(measured) == 1 else f"{name} is" if len(equal) == 1 else "they are"
            words += f"; {one} {more.than(than).replace('**', '') if more.points else f'a tie with {than}'}"
        sentences.append(f"{words}.")
    return sentences


def _lines(group: Group) -> list[Line]:
    best = ranked([row.accuracy for row in group.rows])
    lines = [
        Line(_cells(group, row), frozenset({ACCURACY} if index in best else ())) for index, row in enumerate(group.rows)
    ]
    return lines + [Line(_cells(group, row), is_reference=True) for row in group.references]


def _cells(group: Group, row: Row) -> tuple[str, ...]:
    accuracy, parent = row.accuracy, group.best_parent
    loss, calibration = row.mean("loss"), row.mean("calibration_error")
    more = difference(row.each, parent.each) if parent is not None and row.each and row is not parent else None
    return (
        row.name,
        "" if accuracy is None else share(accuracy),
        "" if accuracy is None else half(accuracy, row.samples),
        more.words if more else ("the best" if row is parent else ""),
        "" if not row.networks or not row.n else f"{row.n}{' †' if row.n == 1 else ''}",
        "" if row.deviation is None else number(row.deviation),
        "" if loss is None else number(loss, 2),
        "" if calibration is None else number(calibration, 3),
        "" if row.seconds is None else seconds_words(row.seconds),
        _runs(row.networks),
    )


def _runs(networks: Sequence[FusedNetwork]) -> str:
    names = [f"{one.id}{' (shipped)' if one.entry.shipped else ''}" for one in networks]
    return ", ".join(names) if len(names) <= MOST_NAMES else f"{', '.join(names[:2])} and {len(names) - 2} more"


# --- settings -------------------------------------------------------------------------------------


def settings(groups: Sequence[Group]) -> Table:
    """A line for each setting that differs, a column for each row of the table above."""
    rows = [row for group in groups for row in group.rows]
    each = [row.networks[0].settings | _seeds(row) for row in rows]
    columns = tuple(Column(name, is_number=False) for name in ("setting", *_titles(rows)))
    lines = tuple(Line((name, *(values.get(name, NONE) for values in each))) for name in different(each))
    return Table("Settings of the compared runs", columns, lines)


def _titles(rows: Sequence[Row]) -> list[str]:
    """Names of rows, with their runs' titles or names if two are equal."""
    names = [row.name for row in rows]
    return [name if names.count(name) == 1 else f"{name} ({row.id})" for name, row in zip(names, rows, strict=True)]


def _seeds(row: Row) -> dict[str, str]:
    seeds = [network.settings.get("seed", NONE) for network in row.networks]
    return {"seed": ", ".join(seeds)} if len(seeds) > 1 else {}
