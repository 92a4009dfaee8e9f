"""Every number of the findings follows from the records: comments in the page's source say how.

`<!-- records: EXPRESSION; ... -->` gives, in order, the numbers with a decimal point between the comment before and itself;
`<!-- counts: ... -->` gives the whole numbers there.
"""

import json
import re
from statistics import fmean

import pytest

from retrofit_core.experiments import table
from retrofit_core.experiments.claims import INFORMATIVE
from retrofit_core.experiments.report import report, summary_of_tables, verdicts
from retrofit_core.experiments.results import results_of
from retrofit_core.experiments.scales import SAYING
from retrofit_core.experiments.tables import TABLES
from retrofit_core.inspection.landscape import Survey
from retrofit_core.runs.answers import difference, from_bits
from tests.marks import ROOT, skip_without

skip_without("benchmarks", "docs")


PAGE = ROOT / "docs" / "findings.md"


RESULTS = ROOT / "benchmarks" / "results" / "experiments"


#: Pairs of benchmarks/depth.py.
LONG, SHORT = "CIFAR-10 VGG11, 200 epochs, non-IID", "CIFAR-10 VGG11, non-IID"


COMMENT = re.compile(r"<!-- (records|counts): (.*?) -->", re.DOTALL)


DECIMAL = re.compile(r"(?<![\w.,])-?\d+\.\d+(?!\w|\.\d)")


WHOLE = re.compile(r"(?<![\w.,-])\d+(?!\w|[.,]\d)")


@pytest.fixture(scope="module")
def names():
    """What the expressions may use."""

    def column(of_table, name, badge=None):
        found = table(of_table, results=RESULTS, columns=(name,)).column(name)
        return found.at(badge) if badge else found

    def gap(of_column, left, right):
        return of_column.gap(left, right).points

    def paper(of_column, row):
        return of_column.line(row).paper.mean

    def ci(of_column, left, right):
        """Points, and both ends of their interval."""
        found = of_column.gap(left, right)
        return found.points, *found.interval

    summary = summary_of_tables(report({name: results_of(name, "none", [RESULTS]) for name in TABLES}, SAYING))
    decided = summary.decided()
    informative = [claim for claim in decided if claim.group == INFORMATIVE]
    trained = ("vgg11-noniid", "vgg11-sharded")
    at_paper = [
        claim for count in summary.counts if count.badge == "paper" and count.table in trained for claim in count.claims
    ]
    tested = json.loads((RESULTS.parent / "explanations.json").read_text(encoding="utf-8"))
    depth = json.loads((RESULTS.parent / "depth.json").read_text(encoding="utf-8"))

    def at_depth(pair, first, then):
        ways = [first.split(", "), then.split(", ")]
        return next(row for row in depth["rows"] if (row["pair"], row["ways"]) == (pair, ways))

    def gap_at_depth(*sides):
        one, other = (from_bits(at_depth(LONG, *side)["knows"], depth["images"]) for side in sides)
        points, interval = difference(one, other)
        return points, *interval

    def gains(of_column, row):
        """The least and the greatest lead of a row over the best parent, over the pairs."""
        parents = [line for line in of_column.lines if line.row.startswith("Parent ")]
        best = [max(map(fmean, pair)) for pair in zip(*(line.by_parents for line in parents), strict=True)]
        leads = [fmean(ours) - most for ours, most in zip(of_column.line(row).by_parents, best, strict=True)]
        return min(leads), max(leads)

    given = "given VGG11s of full width, 14 epochs"
    columns = {
        "full_pair": ("vgg11-noniid", "2-way", "paper"),
        "full_shards": ("vgg11-sharded", "2-way", "paper"),
        "pair": ("vgg11-noniid", "2-way", given),
        "four": ("vgg11-noniid", "4-way"),
        "eight": ("vgg11-noniid", "8-way"),
        "shards": ("vgg11-sharded", "2-way", "given VGG11s of half width, 8 epochs"),
        "shards4": ("vgg11-sharded", "4-way"),
        "shards6": ("vgg11-sharded", "6-way"),
        "blood": ("bloodmnist", "2-way"),
        "full": ("vgg11-full", "2-way zero-shot"),
        "equal": ("widths", "1x, 1x"),
        "half": ("widths", "1x, 0.5x"),
        "vit": ("vit-sharded-cifar100", "2-way"),
        "vits": ("vit-full-cifar100", "2-way zero-shot"),
        "resnet": ("resnet-compression", "ResNet-34 to ResNet-18"),
        "seconds": ("runtime-vgg", "processor seconds"),
        "loss": ("landscape", "loss"),
        "rise": ("landscape", "rise"),
        "study": ("ablation", "VGG11, non-IID", given),
        "mlp": ("ablation", "MLP, non-IID"),
        "seeds": ("neuron-importance", "uniform"),
        "groups": ("neuron-importance", "conductance"),
    }
    return {
        **{name: column(*place) for name, place in columns.items()},
        **{
            "gap": gap,
            "gains": gains,
            "ci": ci,
            "verdicts": verdicts,
            "summary": summary,
            "decided": decided,
        },
        "paper": paper,
        "theirs": lambda of_column, left, right: paper(of_column, left) - paper(of_column, right),
        "easy": [claim for claim in decided if claim.group != INFORMATIVE],
        "informative": informative,
        "contradicted": [claim for claim in informative if claim.verdict == "contradicted"],
        "six": tested["six shards"]["crop and flip, 10 epochs"],
        "augmented": tested["six shards"]["as the paper, 30 epochs"][0],
        "order": tested["eight parts"]["crop and flip, 10 epochs"][0],
        **{"at_depth": at_depth, "gap_at_depth": gap_at_depth, "LONG": LONG, "SHORT": SHORT},
        "WITHOUT": "without networks of one class",
        "plane": Survey.from_json(
            json.loads((RESULTS.parent / "landscape-200-epochs.json").read_text(encoding="utf-8"))
        ),
        "PLANE": ("fused", "parent 0", "parent 1"),
        **{"TO_UNIFORM": "adjusted Rand index to uniform", "BETWEEN_SEEDS": "adjusted Rand index between seeds"},
        "PAIR": given,
        "clear": [claim for claim in informative if claim.deviation is not None and not claim.is_noise],
        **{"KF": "KF-Linear, conductance", "UNIFORM": "KF-Linear, uniform", "HF": "HF-Linear, conductance"},
        "claim": lambda of_table, left, right: next(
            claim
            for count in summary.counts
            if (count.table, count.badge) == (of_table, "paper")
            for claim in count.claims
            if (claim.left, claim.right) == (left, right)
        ),
        "of_full": lambda claims: [claim for claim in at_paper if claim in claims],
    }


def parts() -> list[tuple[str, str, str]]:
    """Text, kind and expressions between one comment and the next."""
    texts = COMMENT.split(PAGE.read_text(encoding="utf-8"))
    return list(zip(texts[::3], texts[1::3], texts[2::3], strict=False))


def prose(text: str) -> str:
    """A text without code and addresses."""
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)


@pytest.mark.slow
def test_every_number_follows_from_the_records(names):
    wrong = {}
    for text, kind, expressions in parts():
        written = (DECIMAL if kind == "records" else WHOLE).findall(prose(text) if kind == "records" else last(text))
        values = eval(f"[{expressions.replace(';', ',')}]", {"sum": sum, "len": len, **names})
        digits = [len(number.partition(".")[2]) for number in written]
        found = [f"{value:.{places}f}" for value, places in zip(values, digits, strict=True)]
        if found != written:
            wrong[text] = (written, found)
    assert not wrong


def last(text: str) -> str:
    """What a count speaks of: the text from the last heading or comment on, without headings."""
    return re.sub(r"CIFAR-\d+|VGG\d+", "", prose(text).split("\n## ")[-1])


def test_no_number_is_without_a_source():
    rest = COMMENT.split(PAGE.read_text(encoding="utf-8"))[-1]
    assert not DECIMAL.findall(prose(rest))
    for text, kind, _ in parts():
        assert kind == "records" or not DECIMAL.findall(prose(text)), text


@pytest.mark.parametrize(
    ("heading", "columns"),
    [
        ("## The closed form inside of blocks", {1: "ResNet-18, sharded", 3: "ViT, sharded"}),
        (
            "## Closer to the ensemble",
            dict(
                enumerate(("VGG11, non-IID", "VGG11, sharded", "MLP, non-IID", "ResNet-18, sharded", "ViT, sharded"), 1)
            ),
        ),
    ],
)
def test_tables_beyond_the_paper_are_those_of_the_records(heading, columns):
    beyond = table("beyond", results=RESULTS)
    text = PAGE.with_name("findings_beyond.md").read_text(encoding="utf-8").split(heading)[1]
    rows = [
        [word.strip() for word in line.split("|")[1:-1]]
        for line in re.split(r"\n\n", text[text.index("\n|") + 1 :])[0].split("\n")
    ]
    for index, name in columns.items():
        column = beyond.column(name)
        column = next((each for each in column.scales if each.given), column)
        for row in rows[2:]:
            values = column.line(row[0]).values if row[index] != "-" else ()
            if values:
                number = values[0] if rows[0][index].endswith("(one seed)") else column.number(row[0])
                assert row[index] == f"{number:.1f}", (name, row[0])
