"""Numbers and sentences of a report as words, for all formats."""

import statistics
from collections.abc import Iterable

from .claims import DECIDED, EASY, INFORMATIVE, Claim
from .lines import Line
from .report import Count, Report, Summary, verdicts
from .reproduction import ReproducedColumn, ReproducedTable
from .rows import PARENT

HEADER = ("row", "paper", "ours", "difference", "within 2 sigma", "scale")
CLAIM_HEADER = ("difference", "paper", "ours", "95 % interval", "sign", "opponent")
SUMMARY_HEADER = ("table", "numbers", "easy", "informative", "informative, clear in the paper", "scale")
TITLE = "The paper's numbers, and ours"
APART = "Measured on another data set than the paper's"
METRICS = {
    "accuracy": "% of test images",
    "seconds": "seconds",
    "processor_seconds": "seconds of the processor, of all threads together",
    "operations": "multiply-adds for one image, in units of one parent's",
    "rand": "adjusted Rand index",
    "below 0.1": "% of the neurons with less than a tenth of the uniform score",
    "landscape loss": "mean cross entropy of the network itself",
    "landscape accuracy": "% of the landscape's images",
    "landscape rise": "rise of the loss at a tenth of the distance between the parents, mean over directions in the "
    "plane",
    "landscape barrier": "largest rise of the loss above the line between two networks' losses",
}
READING = (
    "Paper: mean ± standard deviation, if it prints one; each of its seeds has its own parents. Ours: mean ± "
    "standard deviation (number of fusions) over fusion seeds of the same parents, or over sets of parents if their "
    "number is given.",
    "Within 2 sigma: whether our results could be further seeds of the paper. Sigma is the paper's deviation times "
    'sqrt(1/m + 1/n), with our m sets of parents (1 if no number is given) and the paper\'s n seeds; "-" if the paper '
    "prints no deviation, or on another data set than its own.",
    "Scale: how we reduced the settings, and what replaces missing data sets or parents; details are at the end. "
    "Given parents without a scale are fused as in the paper; their width and training may differ. What is measured on "
    "another data set than the paper's does not count as its numbers and claims; it has a part of its own.",
    "Parents of the same kind are listed by accuracy, as in the paper.",
    "Sign: of the difference between two rows, each with its best importance score (in brackets ours, in the paper maybe "
    "another) unless two are compared. It is undecided if the 95 % interval contains 0, and at `smoke`. The interval covers test "
    "images (paired bootstrap) and, if "
    "there are several fusion seeds, also those (Student's t). With one seed it does not cover other seeds, and with one set "
    "of parents it does not cover other parents. Two sets do not say how far sets differ: with two, the interval covers test "
    "images, and is wide enough for both sets.",
    f"Easy opponents are {', '.join(EASY)}. Informative ones are the best parent, the ensemble, LP, and one "
    "importance score against another. A difference is within the paper's noise if it is at most two of the paper's "
    "deviations.",
)


def printed(number: float) -> str:
    """A number of the paper with the digits that it prints."""
    short = f"{number:.1f}"
    return short if float(short) == number else f"{number:g}"


def paper_words(line: Line) -> str:
    """The paper's mean and deviation."""
    if line.paper is None:
        return line.state if line.state == "N/A" else "-"
    deviation = "" if line.paper.deviation is None else f" ± {printed(line.paper.deviation)}"
    return f"{printed(line.paper.mean)}{deviation}"


def ours_words(line: Line) -> str:
    """Our mean, deviation and number of seeds, or why there are none."""
    if line.mean is None:
        return line.state
    deviation = "" if line.deviation is None else f" ± {line.deviation:.2f}"
    parents = f"{len(line.by_parents)} parents, " if len(line.by_parents) > 1 else ""
    return f"{line.mean:.2f}{deviation} ({parents}{len(line.values)})"


def line_words(line: Line, column: ReproducedColumn) -> tuple[str, ...]:
    """A line's cells, see HEADER."""
    difference = "-" if line.difference is None else f"{line.difference:+.2f}"
    within = {None: "-", True: "yes", False: "no"}[line.is_within]
    badge = (line.badge or column.badge) if line.values else "-"
    return line.row, paper_words(line), ours_words(line), difference, within, badge


def claim_words(claim: Claim) -> tuple[str, ...]:
    """A claim's cells, see CLAIM_HEADER."""
    deviation = "" if claim.deviation is None else f" ± {claim.deviation:.1f}"
    at = f" ({claim.badge})" if claim.badge else ""
    ours = "-" if claim.ours is None else f"{claim.ours:+.2f}{at}"
    interval = "-"
    if claim.interval is not None:
        low, high = claim.interval
        interval = f"{low:+.2f} to {high:+.2f}"
    sides = (_side(name, row) for name, row in zip((claim.left, claim.right), claim.rows, strict=True))
    noise = ", within the paper's noise" if claim.is_noise else ""
    words = f"{claim.paper:+.1f}{deviation}", ours, interval, claim.verdict
    return " against ".join(sides), *words, f"{claim.group}{noise}"


def _side(name: str, row: str) -> str:
    """A side of a difference, with its score, if any."""
    score = row.removeprefix(f"{name}, ")
    return name if score == row else f"{name} ({score})"


def footnotes(lines: Iterable[Line]) -> dict[str, int]:
    """Note -> its number from 1, in order of lines."""
    return {note: number for number, note in enumerate(dict.fromkeys(line.note for line in lines if line.note), 1)}


def column_title(column: ReproducedColumn) -> str:
    """A column's name and unit."""
    part = column.metric.removeprefix("part ")
    unit = METRICS.get(column.metric, f"% of the test images of part {part}'s classes" if part != column.metric else "")
    return f"{column.name}, {unit}" if unit else column.name


def column_sentences(column: ReproducedColumn) -> list[str]:
    """Sentences below a column: its parents, deviations, and unmeasured differences."""
    given, substitute = column.setting.given, column.setting.substitute
    sentences = [f"Given parents: {', '.join(given.names)}."] if given else []
    if substitute and column.lines:
        sentences.append(f"Measured on {substitute}: nothing here counts as the paper's.")
    sentences += _spreads(column)
    missing = sum(claim.verdict == "not measured" for claim in column.claims)
    if missing:
        verb = "is" if missing == 1 else "are"
        sentences.append(f"{many(missing, 'difference')} of the paper {verb} not measured here.")
    return sentences


def _spreads(column: ReproducedColumn) -> list[str]:
    """Deviations of the column's accuracies by source, as medians over rows, if anything was repeated."""
    spreads = [line.spread for line in column.lines if line.images and not line.row.startswith(PARENT)]
    over = {"parents": "sets of parents", "fusion": "fusion seeds", "images": "test images"}
    known = {name: [value for each in spreads if (value := each[name]) is not None] for name in over}
    if not known["parents"] and not known["fusion"]:
        return []
    words = [f"{statistics.median(values):.2f} over {over[name]}" for name, values in known.items() if values]
    return [f"Deviation of a fused network's accuracy (median of the rows): {', '.join(words)}."]


def table_title(shown: ReproducedTable) -> str:
    """Name, subject, and labels in the paper's source, if any."""
    labels = f" ({', '.join(shown.table.labels)})" if shown.table.labels else ""
    return f"{shown.name}: {shown.table.title}{labels}"


def findings(summary: Summary) -> list[str]:
    """Sentences on how many of the paper's numbers are measured and how many of its claims hold."""
    decided = summary.decided()
    groups = {
        "easy opponents": [claim for claim in decided if claim.group != INFORMATIVE],
        "informative ones": [claim for claim in decided if claim.group == INFORMATIVE],
        "informative ones, beyond the paper's noise": [
            claim
            for claim in decided
            if claim.group == INFORMATIVE and claim.deviation is not None and not claim.is_noise
        ],
    }
    held = [
        f"{words} {', '.join(f'{count} {verdict}' for verdict, count in zip(DECIDED, verdicts(of_group), strict=True))}"
        for words, of_group in groups.items()
        if of_group
    ]
    single = sum(claim.seeds == 1 for claim in decided)
    return [
        f"Of {many(summary.numbers, 'number')} in these tables of the paper, we measured {summary.measured()} at "
        f"scale `small` or larger, {summary.measured('evening')} of them at `evening` or larger.",
        f"Of {many(summary.claims, 'claim')} (differences between methods), we measured {len(decided)} at scale "
        f"`small` or larger, {len(summary.decided('evening'))} of them at `evening` or larger.",
        *([f"Claims against {'; '.join(held)}."] if held else []),
        *([f"{single} of these have one fusion seed, so their intervals cover only test images."] if single else []),
        *([apart] if (apart := apart_words(summary)) else []),
    ]


def apart_words(summary: Summary) -> str:
    """How much was measured on other data sets than the paper's; empty if nothing was."""
    numbers = sum(count.numbers for count in summary.substituted)
    claims = sum(len(count.claims) for count in summary.substituted)
    if not numbers and not claims:
        return ""
    return (
        f"Apart from these, {many(numbers, 'number')} and {many(claims, 'claim')} were measured on another data set than the "
        "paper's. They do not count."
    )


def summary_rows(counts: Iterable[Count]) -> list[tuple[str, ...]]:
    """The rows of tables, see SUMMARY_HEADER, with agreed / undecided / contradicted claims."""
    rows = []
    for count in counts:
        easy = [claim for claim in count.claims if claim.group != INFORMATIVE]
        informative = [claim for claim in count.claims if claim.group == INFORMATIVE]
        clear = [claim for claim in informative if claim.deviation is not None and not claim.is_noise]
        words = (" / ".join(map(str, verdicts(group))) if group else "-" for group in (easy, informative, clear))
        rows.append((count.table, str(count.numbers), *words, count.badge))
    return rows


def details(report: Report) -> list[str]:
    """Sentences on how many cells are measured, and where."""
    counts = [f"{badge}: {measured} of {cells} cells measured." for badge, (measured, cells) in report.counts().items()]
    machines = [f"{many(count, 'result')} from {name}." for name, count in report.machines]
    left_out = []
    if report.others:
        left_out.append(f"{many(report.others, 'result')} {_verb('belong', report.others)} to other tables or scales.")
    return [*counts, *machines, *left_out]


def departures(report: Report) -> list[str]:
    """Sentences on how scales differ from the paper, and what replaces data sets and parents."""
    scales = [f"{scale.name}: {scale.sentence}." for scale in report.scales]
    served: dict[str, list[str]] = {}
    for column in report.columns:
        if column.badge != column.setting.scale.name and column.lines:
            served.setdefault(column.badge, []).append(f"{column.table} ({column.name})")
    return [*scales, *(f"{badge}: {'; '.join(columns)}." for badge, columns in served.items())]


def many(count: int, noun: str) -> str:
    """A count with its noun: "1 difference", "2 differences"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _verb(verb: str, count: int) -> str:
    return f"{verb}s" if count == 1 else verb
