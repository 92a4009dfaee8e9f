"""A report's numbers and sentences as words, which all formats share."""

from collections.abc import Iterable

from .claims import Claim
from .report import Block, Line, Report, TableReport

HEADER = ("row", "paper", "ours", "difference", "within 2 sigma", "scale")
CLAIM_HEADER = ("difference", "paper", "ours", "95 % interval", "sign")
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
    "Paper: mean ± deviation, where it prints one. Ours: mean ± deviation (number of seeds); a seed is a fusion of the same "
    "parents, where the paper's seeds may have parents of their own.",
    "Within 2 sigma: whether the difference is at most two deviations, ours and the paper's as the root of the sum of their "
    'squares; "-" where one of them has none.',
    "Scale: how the settings were made smaller, and what serves in place of a data set or of parents that are not there; see "
    "the end.",
    "Equal parents stand in the order of their accuracy, as the paper prints them.",
    "Rank correlation: Spearman's, of the methods' order in the paper and here.",
    "Sign: of a difference between two rows, each with its best score where none is named. It is undecided where the "
    "interval of 95 % contains 0: a bootstrap over test images, paired but where it says otherwise, averaged over seeds.",
)


def printed(number: float) -> str:
    """A number of the paper, with as many digits as it prints."""
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
    return f"{line.mean:.2f}{deviation} ({len(line.values)})"


def line_words(line: Line, block: Block) -> tuple[str, ...]:
    """A line under HEADER."""
    difference = "-" if line.difference is None else f"{line.difference:+.2f}"
    within = {None: "-", True: "yes", False: "no"}[line.is_within]
    return line.row, paper_words(line), ours_words(line), difference, within, block.badge if line.values else "-"


def claim_words(claim: Claim) -> tuple[str, ...]:
    """A claim under CLAIM_HEADER."""
    deviation = "" if claim.deviation is None else f" ± {claim.deviation:.1f}"
    ours = "-" if claim.ours is None else f"{claim.ours:+.2f}"
    interval = "-"
    if claim.interval is not None:
        low, high = claim.interval
        interval = f"{low:+.2f} to {high:+.2f}{'' if claim.paired else ', unpaired'}"
    sides = (_side(name, row) for name, row in zip((claim.left, claim.right), claim.rows, strict=True))
    return " against ".join(sides), f"{claim.paper:+.1f}{deviation}", ours, interval, claim.verdict


def _side(name: str, row: str) -> str:
    """A side of a difference, with the row that stood for it."""
    score = row.removeprefix(f"{name}, ")
    return name if score == row else f"{name} ({score})"


def footnotes(lines: Iterable[Line]) -> dict[str, int]:
    """The number of each different note of lines, from 1, in their order."""
    return {note: number for number, note in enumerate(dict.fromkeys(line.note for line in lines if line.note), 1)}


def block_title(block: Block) -> str:
    """A column's name and what its numbers are."""
    part = block.metric.removeprefix("part ")
    unit = METRICS.get(block.metric, f"% of the test images of part {part}'s classes" if part != block.metric else "")
    return f"{block.column}, {unit}" if unit else block.column


def block_sentences(block: Block) -> list[str]:
    """What is said below a column: its parents, the order of its methods, and differences that are not measured."""
    sentences = [f"Given parents: {', '.join(block.parents)}."] if block.parents else []
    if block.ranked is not None and block.ranked[1] is not None:
        sentences.append(f"Rank correlation of {block.ranked[0]} methods: {block.ranked[1]:.2f}.")
    missing = sum(claim.verdict == "not measured" for claim in block.claims)
    if missing:
        sentences.append(f"{many(missing, 'difference')} of the paper {_are(missing)} not measured here.")
    return sentences


def known_claims(block: Block) -> list[Claim]:
    """The claims with a number of ours."""
    return [claim for claim in block.claims if claim.ours is not None]


def table_title(table: TableReport) -> str:
    """Name, subject, and labels in the paper's source, where it has some."""
    labels = f" ({', '.join(table.labels)})" if table.labels else ""
    return f"{table.name}: {table.title}{labels}"


def summary(report: Report) -> list[str]:
    """What is measured, which claims hold, and where it was measured."""
    counts = [
        f"{badge}: {measured} of {cells} cells are measured." for badge, (measured, cells) in report.counts().items()
    ]
    verdicts = [f"{count} {verdict}" for verdict, count in report.verdicts().items()]
    machines = [f"{many(count, 'result')} from {name}." for name, count in report.machines]
    left_out = []
    if report.others:
        left_out.append(f"{many(report.others, 'result')} {_are(report.others)} of other tables or scales.")
    if report.outdated:
        left_out.append(
            f"{many(report.outdated, 'result')} {_are(report.outdated)} of earlier versions of their methods; notes mark "
            "them, and `retrofit reproduce` measures them again."
        )
    signs = [f"Signs of the paper's differences: {', '.join(verdicts)}."] if verdicts else []
    return [*counts, *signs, *machines, *left_out]


def departures(report: Report) -> list[str]:
    """How the scales differ from the paper, and what serves in place of what."""
    scales = [f"{scale.name}: {scale.sentence}." for scale in report.scales]
    served: dict[str, list[str]] = {}
    for table in report.tables:
        for block in table.blocks:
            if "," in block.badge and any(line.values for line in block.lines):
                served.setdefault(block.badge, []).append(f"{table.name} ({block.column})")
    return [*scales, *(f"{badge}: {'; '.join(columns)}." for badge, columns in served.items())]


def many(count: int, noun: str) -> str:
    """A number of things, in words: "1 difference", "2 differences"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
