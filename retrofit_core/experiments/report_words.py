"""Numbers and sentences of a report as words, for all formats."""

import statistics
from collections.abc import Iterable

from .claims import EASY, INFORMATIVE, Claim, Order
from .report import Report
from .report_parts import Block, Line, TableReport
from .rows import PARENT
from .summary import Summary, verdicts

HEADER = ("row", "paper", "ours", "difference", "within 2 sigma", "scale")
CLAIM_HEADER = ("difference", "paper", "ours", "95 % interval", "sign", "opponent")
SUMMARY_HEADER = ("table", "numbers", "easy", "informative", "informative, clear in the paper", "scale")
TITLE = "The paper's numbers, and ours"
METRICS = {
    "accuracy": "% of test images",
    "seconds": "seconds",
    "processor_seconds": "seconds of the processor, of all threads together",
    "operations": "multiply-adds for one image, in units of one parent's",
    "rand": "adjusted Rand index",
    "below 0.1": "% of the neurons with less than a tenth of the uniform score",
    "landscape loss": "mean cross entropy of the network itself",
    "landscape accuracy": "% of the landscape's images",
    "landscape rise": "rise of the loss at a tenth of the distance between the parents, mean over directions in the plane",
    "landscape barrier": "largest rise of the loss above the line between two networks' losses",
}
READING = (
    "Paper: mean ± deviation, where it prints one; each of its seeds has parents of its own. Ours: mean ± deviation (number of "
    "fusions), over fusion seeds of the same parents; over sets of parents where it says how many.",
    "Within 2 sigma: whether ours could be further seeds of the paper. Sigma is the paper's deviation d times sqrt(1/m + 1/n): "
    'of our m sets of parents (one, where it does not say), and of its n seeds; "-" where it prints no deviation.',
    "Scale: how the settings were made smaller, and what serves in place of a data set or of parents that are not there; see "
    "the end. Given parents are fused as in the paper, where no scale stands before them; their width and training are their "
    "own.",
    "Equal parents stand in the order of their accuracy, as the paper prints them.",
    "Rank correlation: Spearman's, of the methods' order in the paper and here, with an interval of 95 %: a bootstrap over "
    "methods, where there are eight. Over all methods it mainly tells families apart; the paper's own are the harder test.",
    "Sign: of a difference between two rows, each with its best score where none is named. It is undecided where the "
    "interval of 95 % contains 0. The interval is over test images (bootstrap, paired but where it says otherwise) and, with "
    "several fusion seeds, over these too (Student's t); with one seed it says nothing of other seeds. Of other parents it "
    "speaks where there are several sets of them, and not otherwise.",
    f"Easy opponents are {', '.join(EASY)}; informative ones the best parent, the ensemble, LP, and one score against "
    "another. A difference is within the paper's noise where it is at most two of the paper's deviations.",
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


def line_words(line: Line, block: Block) -> tuple[str, ...]:
    """A line's cells, see HEADER."""
    difference = "-" if line.difference is None else f"{line.difference:+.2f}"
    within = {None: "-", True: "yes", False: "no"}[line.is_within]
    badge = (line.badge or block.badge) if line.values else "-"
    return line.row, paper_words(line), ours_words(line), difference, within, badge


def claim_words(claim: Claim) -> tuple[str, ...]:
    """A claim's cells, see CLAIM_HEADER."""
    deviation = "" if claim.deviation is None else f" ± {claim.deviation:.1f}"
    at = f" ({claim.badge})" if claim.badge else ""
    ours = "-" if claim.ours is None else f"{claim.ours:+.2f}{at}"
    interval = "-"
    if claim.interval is not None:
        low, high = claim.interval
        interval = f"{low:+.2f} to {high:+.2f}{'' if claim.paired else ', unpaired'}"
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


def block_title(block: Block) -> str:
    """A column's name and unit."""
    part = block.metric.removeprefix("part ")
    unit = METRICS.get(block.metric, f"% of the test images of part {part}'s classes" if part != block.metric else "")
    return f"{block.column}, {unit}" if unit else block.column


def block_sentences(block: Block) -> list[str]:
    """Sentences below a column: its parents, the order of its methods, deviations, and unmeasured differences."""
    sentences = [f"Given parents: {', '.join(block.parents)}."] if block.parents else []
    orders = [("", block.ranked), ("the paper's own ", block.ranked_own)]
    known = [_order(order, whose) for whose, order in orders if order is not None]
    if known:
        at = f" at {block.badge}" if any(line.badge for line in block.lines) else ""
        sentences.append(f"Rank correlation{at} of {'; of '.join(known)}.")
    sentences += _spreads(block)
    missing = sum(claim.verdict == "not measured" for claim in block.claims)
    if missing:
        sentences.append(f"{many(missing, 'difference')} of the paper {_are(missing)} not measured here.")
    return sentences


def _spreads(block: Block) -> list[str]:
    """Deviations of the column's accuracies by source, as medians over rows, if anything was repeated."""
    spreads = [line.spread for line in block.lines if line.images and line.values and not line.row.startswith(PARENT)]
    over = {"parents": "sets of parents", "fusion": "fusion seeds", "images": "test images"}
    known = {name: [getattr(each, name) for each in spreads if getattr(each, name) is not None] for name in over}
    if not known["parents"] and not known["fusion"]:
        return []
    words = [f"{statistics.median(values):.2f} over {over[name]}" for name, values in known.items() if values]
    return [f"Deviation of a fused network's accuracy (median of the rows): {', '.join(words)}."]


def _order(order: Order, whose: str) -> str:
    interval = "" if order.interval is None else " ({:.2f} to {:.2f})".format(*order.interval)
    return f"{whose}{order.methods} rows: {order.correlation:.2f}{interval}"


def known_claims(block: Block) -> list[Claim]:
    """The claims that we have measured."""
    return [claim for claim in block.claims if claim.ours is not None]


def table_title(table: TableReport) -> str:
    """Name, subject, and labels in the paper's source, if any."""
    labels = f" ({', '.join(table.labels)})" if table.labels else ""
    return f"{table.name}: {table.title}{labels}"


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
    held = [f"{words} {_verdict_words(of_group)}" for words, of_group in groups.items() if of_group]
    single = sum(claim.seeds == 1 for claim in decided)
    return [
        f"Of {many(summary.numbers, 'number')} that the paper prints here, {summary.measured()} are measured at `small` or "
        f"fuller, {summary.measured('evening')} of them at `evening` or fuller.",
        f"Of {many(summary.claims, 'claim')} (differences between methods), {len(decided)} are measured at `small` or "
        f"fuller, {len(summary.decided('evening'))} of them at `evening` or fuller.",
        *([f"Claims against {'; '.join(held)}."] if held else []),
        *(
            [f"{single} of these have one fusion seed, so that their intervals are over test images alone."]
            if single
            else []
        ),
    ]


def _verdict_words(claims: Iterable[Claim]) -> str:
    agreed, undecided, contradicted = verdicts(claims)
    return f"{agreed} agreed, {undecided} undecided, {contradicted} contradicted"


def summary_rows(summary: Summary) -> list[tuple[str, ...]]:
    """The rows of tables, see SUMMARY_HEADER, with agreed / undecided / contradicted claims."""
    rows = []
    for count in summary.counts:
        easy = [claim for claim in count.claims if claim.group != INFORMATIVE]
        informative = [claim for claim in count.claims if claim.group == INFORMATIVE]
        clear = [claim for claim in informative if claim.deviation is not None and not claim.is_noise]
        words = (" / ".join(map(str, verdicts(group))) if group else "-" for group in (easy, informative, clear))
        rows.append((count.table, str(count.numbers), *words, count.badge))
    return rows


def details(report: Report) -> list[str]:
    """Sentences on how many cells are measured, and where."""
    counts = [
        f"{badge}: {measured} of {cells} cells are measured." for badge, (measured, cells) in report.counts().items()
    ]
    machines = [f"{many(count, 'result')} from {name}." for name, count in report.machines]
    left_out = []
    if report.others:
        left_out.append(f"{many(report.others, 'result')} {_are(report.others)} of other tables or scales.")
    if report.outdated:
        left_out.append(
            f"{many(report.outdated, 'result')} {_are(report.outdated)} of earlier versions of their methods; notes mark "
            "them, and `retrofit reproduce` measures them again."
        )
    return [*counts, *machines, *left_out]


def departures(report: Report) -> list[str]:
    """Sentences on how scales differ from the paper, and what replaces data sets and parents."""
    scales = [f"{scale.name}: {scale.sentence}." for scale in report.scales]
    served: dict[str, list[str]] = {}
    for table in report.tables:
        for block in table.blocks:
            if block.badge != block.scale and any(line.values for line in block.lines):
                served.setdefault(block.badge, []).append(f"{table.name} ({block.column})")
    return [*scales, *(f"{badge}: {'; '.join(columns)}." for badge, columns in served.items())]


def many(count: int, noun: str) -> str:
    """A count with its noun: "1 difference", "2 differences"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
