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


def test_the_tables_of_auto_are_those_of_its_record():
    """Means by plain loops, of chains and of networks with blocks: over all draws of a regime, and over those held back."""
    record = json.loads((RESULTS.parent / "auto.json").read_text(encoding="utf-8"))
    rows = record["rows"]
    titles = ("best parent", "KF-Linear", "KF-Linear, centred", "Auto", "ensemble")

    def means(drawn):
        return [f"{sum(row[title] for row in drawn) / len(drawn):.1f}" for title in titles]

    lines = [line for line in section("## Never worse than the best parent").splitlines() if line.startswith("| ")]
    written = [re.split(r" *\| *", line[2:-2]) for line in lines]
    for blocks in (False, True):
        drawn = [row for row in rows if (row["network"] in ("ResNet-18", "ViT")) == blocks]
        if blocks:
            assert ["ResNet-18s and ViTs, all draws", str(len(drawn)), *means(drawn)] in written
        else:
            digits = [row for row in drawn if row["network"] != "given"]
            held_back = [row for row in digits if row["seed"] != 0]
            regimes = {row["regime"] for row in drawn}
            parts = {regime: [row for row in drawn if row["regime"] == regime] for regime in regimes}
            parts |= {"all draws of digits": digits, "of these the seeds held back": held_back}
            for name, part in parts.items():
                assert [name, str(len(part)), *means(part)] in written
    again = dict(zip(titles, means(record["measured again, with Average and RegMean"]), strict=True))
    said = ", ".join(f"{title} {again[title]}" for title in ("best parent", "KF-Linear", "Auto"))
    assert f"{said}, Ensemble {again['ensemble']}" in PAGE.with_name("which_method.md").read_text(encoding="utf-8")


def test_the_table_of_priors_is_that_of_its_record():
    """Means over draws towards zero, and of the differences from these."""
    rows = json.loads((RESULTS.parent / "block-priors.json").read_text(encoding="utf-8"))["rows"]
    text = PAGE.with_name("findings_beyond.md").read_text(encoding="utf-8").split("## A prior inside of blocks")[1]
    _, _, *lines = re.findall(r"^\|.*$", text.split("\n## ")[0], re.MULTILINE)
    written = [[cell.split(", ") for cell in re.split(r" *\| *", line.strip(" |"))[1:]] for line in lines]
    assert len(written) * 3 == len(rows)
    for cells, of_pair in zip(written, [rows[k : k + 3] for k in range(0, len(rows), 3)], strict=True):
        for number, row in enumerate(of_pair):
            zero, *others = (row[name] for name in list(row)[4:])
            assert cells[0][number] == f"{sum(zero) / len(zero):.1f}"
            for cell, other in zip(cells[1:], others, strict=True):
                gain = sum(b - a for a, b in zip(zero, other, strict=True)) / len(zero)
                assert float(cell[number]) == pytest.approx(gain, abs=0.0501)


def test_the_table_of_heads_is_that_of_its_record():
    rows = json.loads((RESULTS.parent / "heads.json").read_text(encoding="utf-8"))["rows"]
    text = PAGE.with_name("findings_beyond.md").read_text(encoding="utf-8").split("## What the ensemble says")[1]
    head, _, *lines = re.findall(r"^\|.*$", text.split("\n## ")[0], re.MULTILINE)
    known = {
        (f"{row['parents']}, {row['importance']}", row["head"] + ", centred" * row["centre"]): row
        for row in rows
        if (row["source"], row["ridge"]) == ("parent0", "0.01x")
    }
    names = [re.split(r" *\| *", line.strip(" |")) for line in (head, *lines)]
    assert len(lines) == len({name for name, _ in known})
    for name, *cells in names[1:]:
        for way, cell in zip(names[0][1:], cells, strict=True):
            row = known[name, way]
            gain = f" ({row['gain']:+.1f} ± {row['interval']:.1f})" if way == "ensemble" else ""
            assert cell == f"{row['test']:.1f}{gain}", (name, way)


def test_the_tables_of_more_samples_are_those_of_the_frontier():
    """One fusion each, so a cell is a row of the record."""
    record = json.loads((RESULTS.parent / "frontier.json").read_text(encoding="utf-8"))
    tables = [
        [re.split(r" *\| *", line.strip("| ")) for line in lines.splitlines()]
        for lines in re.findall(r"(?:^\|.*\n)+", section("## More samples"), re.MULTILINE)
    ]
    for ((title, *samples), _, *lines), (name, known) in zip(tables, record["references"].items(), strict=True):
        best = max(known["parent 0"], known["parent 1"])
        ensembles = f"ensemble {known['ensemble']:.1f}, centred ensemble {known['centred ensemble']:.1f}"
        assert title == f"{name}: best parent {best:.1f}, {ensembles}"
        cells = {
            (row["way"], f"{row['samples']:,} of {row['of']}"): f"{row['accuracy']:.1f} ({row['seconds']:.0f} s)"
            for row in record["rows"]
            if row["network"] == name and not row["augmented"]
        }
        for way, *written in lines:
            assert written == [cells[way, each] for each in samples]


def section(heading: str) -> str:
    """Of the page of findings beyond the paper."""
    text = PAGE.with_name("findings_beyond.md").read_text(encoding="utf-8")
    return text.split(heading)[1].split("\n## ")[0]


def test_the_tables_of_the_training_are_those_of_its_record():
    rows = json.loads((RESULTS.parent / "recipes.json").read_text(encoding="utf-8"))["rows"]
    text = PAGE.with_name("findings_beyond.md").read_text(encoding="utf-8").split("## The parents' training")[1]
    tables = [table.splitlines()[2:] for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]
    written = sorted(re.split(r" *\| *", line.strip("| "))[1:] for lines in tables for line in lines)
    expected = []
    for row in rows:
        own = ", ".join(f"{share:.1f}" for share in row["own classes"])
        numbers = (f"{row[name]:.1f}" for name in ("ensemble", "KF-Linear", "HF-Linear"))
        expected.append([own, *numbers])
    assert written == sorted(expected)


def test_the_numbers_of_text_are_those_of_its_record():
    rows = json.loads((RESULTS.parent / "text.json").read_text(encoding="utf-8"))["rows"]
    both = {(row["pair"], row["network"], row["width"]): row["both"] for row in rows}

    def said(pair):
        best = min(both[pair, "A: English", 64], both[pair, "B: Python", 64])
        numbers = [both[pair, "Average", 64], both[pair, "KF-Linear", 64], both[pair, "KF-Linear", 128]]
        return "average {:.2f}, KF-Linear {:.2f}, twice as wide {:.2f}, better parent {:.2f}, ensemble {:.2f}".format(
            *numbers, best, both[pair, "Ensemble", 64]
        )

    own, listed = (
        " ".join(PAGE.with_name(page).read_text(encoding="utf-8").split())
        for page in ("own_networks.md", "notebooks.md")
    )
    assert said("different") in own and said("different") in listed and said("together") in listed
