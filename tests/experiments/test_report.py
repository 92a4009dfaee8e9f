"""Reports of results that nobody measured: what is printed where, and the formats beside their golden files.

After a change that is meant, `RETROFIT_WRITE_GOLDEN=1 pytest tests/experiments/test_report.py -k golden` writes the golden files
anew; read their difference before it is committed.
"""

import csv
import dataclasses
import io
import os
import re
from pathlib import Path

import numpy as np
import pytest

from retrofit_core.cli import main
from retrofit_core.experiments import table
from retrofit_core.experiments.bundles import Bundle, GivenParents, merged, write_bundle
from retrofit_core.experiments.lines import Line, spread
from retrofit_core.experiments.paper import paper_values
from retrofit_core.experiments.report import report, verdicts
from retrofit_core.experiments.report_formats import markdown, spreadsheet
from retrofit_core.experiments.report_words import ours_words
from retrofit_core.experiments.reproduction import ReproducedColumn
from retrofit_core.experiments.results import write_result
from retrofit_core.experiments.scales import scale_of
from retrofit_core.experiments.tables import TABLES
from retrofit_core.experiments.units import ParentSource
from tests.experiments.made_up import bundle_of, cells_of, knowing
from tests.marks import each_case

GOLDEN = Path(__file__).parent / "golden"
SMOKE = [scale_of("smoke")]
NOTHING = Bundle({})


def column_of(written, table: str, column: str) -> ReproducedColumn:
    (found,) = (each for each in written.columns if (each.table, each.name) == (table, column))
    return found


def line_of(written, table: str, column: str, row: str) -> Line:
    return column_of(written, table, column).line(row)


def lines_of_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def golden_report():
    """Some rows missing, one refused, two seeds, images kept for a part."""
    cells = [*cells_of("fusion-set-size", seeds=2), *cells_of("runtime-vit"), *cells_of("inference-cost")]

    def facts(cell):
        if cell.row.startswith("Parent"):
            return {"known": knowing(60 + 10 * cell.units[0].index), "operations": 1000}
        if cell.row == "KF-Linear, conductance":
            return {"refusal": "level 'a_b' is 50 % of $x & y: use {fit}."}
        if cell.column != "1k samples, augmented" and cell.row == "KF-Linear, uniform":
            return None
        share = 50 + len(cell.row) + 3 * cell.seed
        return {"known": knowing(share), "seconds": share / 7, "operations": 1000 * len(cell.row)}

    tables = ["fusion-set-size", "runtime-vit", "inference-cost", "neuron-importance"]
    return report(bundle_of(cells, facts), tables, SMOKE)


@each_case(("written", "ending"), [(markdown, "md"), (spreadsheet, "csv")])
def test_golden(written, ending):
    text, file = written(golden_report()), GOLDEN / f"report.{ending}"
    if os.environ.get("RETROFIT_WRITE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
    assert file.stat().st_size < 30_000


@pytest.fixture(scope="module")
def empty():
    """The report of everything where nothing is measured."""
    return report(NOTHING, list(TABLES), SMOKE)


def test_every_number_of_the_paper_is_in_the_report(empty):
    lines = {
        (line["table"], line["column"], line["row"]): line
        for line in lines_of_csv(spreadsheet(empty))
        if line["kind"] == "cell"
    }
    assert len(paper_values()) > 400
    for value in paper_values():
        line = lines[value.table, value.column, value.row]
        assert float(line["paper"]) == value.mean
        # Short tables repeat means without deviations, and "best" rows stand in them alone.
        assert value.deviation is None or float(line["paper_deviation"]) == value.deviation
    assert all(line["command"].startswith("retrofit ") for line in lines.values() if line["state"] == "not measured")
    text = markdown(empty)
    assert all(f"\nretrofit reproduce {name} --scale smoke\n" in text for name in TABLES)


def test_means_deviations_and_two_sigma():
    # Ours: 74, 76, 78, of mean 76 and deviation 2. The paper: 76.1 ± 0.5, of an unknown number of seeds.
    cells = cells_of("fusion-set-size", seeds=3)
    bundle = bundle_of(cells, lambda cell: {"known": knowing(74 + 2 * cell.seed)})
    line = line_of(report(bundle, ["fusion-set-size"], SMOKE), "fusion-set-size", "5k samples", "KF-Gradient, uniform")
    assert line.is_within is None  # of digits, not of CIFAR-10
    line = dataclasses.replace(line, substitute="")
    assert (line.mean, line.deviation) == (pytest.approx(76), pytest.approx(2))
    assert line.difference == pytest.approx(-0.1) and ours_words(line) == "76.00 ± 2.00 (3)"
    of_five = dataclasses.replace(line, paper=dataclasses.replace(line.paper, seeds=5))
    for each, by_parents, is_within in (
        (line, line.by_parents, True),
        (line, ((75.0,),), False),  # 1.1 of 2 * 0.5
        # Of five seeds: 2 * 0.5 * sqrt(1 + 1/5) = 1.0954.
        (of_five, ((75.01,),), True),
        (of_five, ((75.0,),), False),
        # Of two sets of parents, with means 75 and 75.3: 76.1 - 75.15 = 0.95 of 2 * 0.5 * sqrt(1/2 + 1/5) = 0.837.
        (of_five, ((75.0,), (75.2, 75.4)), False),
        (of_five, ((75.0,), (75.5, 75.7)), True),
    ):
        assert dataclasses.replace(each, by_parents=by_parents).is_within is is_within, by_parents
    without = dataclasses.replace(line.paper, deviation=None)
    assert dataclasses.replace(line, paper=without).is_within is None
    assert dataclasses.replace(line, paper=None).difference is None


def test_several_sets_of_parents_are_one_factor():
    """Two sets, the second with a better fusion; deviations are over sets, claims over the best parent of each."""
    shares = {0: {"Parent 0": 40, "Parent 1": 30}, 1: {"Parent 0": 20, "Parent 1": 50}}
    rows = ("Parent 0", "Parent 1", "KF-Linear, uniform")
    cells = TABLES["vgg11-noniid"].cells(SMOKE[0], 2, parents=2)
    cells = [cell for cell in cells if cell.column == "2-way" and cell.row in rows]
    assert len({cell.units[0].key() for cell in cells}) == len(cells) == 2 * (2 + 2)

    def known(cell) -> int:
        return shares[cell.parents].get(cell.row, 60 + 10 * cell.parents + 4 * cell.seed)

    written = report(bundle_of(cells, lambda cell: {"known": knowing(known(cell))}), ["vgg11-noniid"], SMOKE)
    column = column_of(written, "vgg11-noniid", "2-way")
    line = column.line("KF-Linear, uniform")
    assert line.by_parents == ((60, 64), (70, 74)) and ours_words(line) == "67.00 ± 7.07 (2 parents, 4)"
    # Within sets 8 (of 60, 64 and of 70, 74); between their means 50, of which 8 / 2 come from the seeds.
    assert line.spread == pytest.approx({"parents": 46**0.5, "fusion": 8**0.5, "images": (67 * 33 / 100) ** 0.5})
    (claim,) = (claim for claim in column.claims if claim.ours is not None)
    assert claim.rows == ("KF-Linear, uniform", "best parent")
    assert claim.ours == pytest.approx(((62 - 40) + (72 - 50)) / 2) and claim.seeds == 4


def test_spread_finds_what_made_the_numbers():
    generator = np.random.default_rng(0)
    parents = generator.normal(scale=2, size=(4000, 1))
    found = spread((50 + parents + generator.normal(size=(4000, 3))).tolist(), 100)
    assert found == pytest.approx({"parents": 2, "fusion": 1, "images": 5}, rel=0.04)
    assert {*spread([[50.0]], 0).values(), *spread([], 0).values()} == {None}
    assert list(spread([[50.0, 50.0], [50.0]], 0).values()) == [0, 0, None]


def test_accuracy_on_a_part_is_that_of_its_classes():
    cells = [cell for cell in cells_of("resnet50-imagenet") if cell.row == "ZipIt"]
    written = report(bundle_of(cells, lambda cell: {"per_part": [30.0, 70.0]}), ["resnet50-imagenet"], SMOKE)
    columns = [f"{name}, 25k samples" for name in ("joint", "task A", "task B")]
    numbers = [line_of(written, "resnet50-imagenet", column, "ZipIt").values for column in columns]
    assert numbers == [(50.0,), (30.0,), (70.0,)]


@pytest.mark.parametrize("scale", ["smoke", "small"])
def test_smoke_decides_nothing(scale):
    """The same results at `small` agree with the paper."""
    cells = TABLES["vgg11-noniid"].cells(scale_of(scale))
    right = {row: 90 - index for index, row in enumerate(dict.fromkeys(cell.row for cell in cells))}
    known = bundle_of(cells, lambda cell: {"known": knowing(right[cell.row])})
    written = report(known, ["vgg11-noniid"], [scale_of(scale)])
    said = "\n".join(markdown(written).split("\n## ")[1:])
    assert bool(re.search(r"\| agreed +\|", said)) == (scale == "small")
    lines = lines_of_csv(spreadsheet(written))
    assert any(line["state"] == "agreed" for line in lines) == (scale == "small")


@pytest.fixture
def no_data(monkeypatch):
    """A machine without any data set."""
    monkeypatch.setattr("retrofit_core.experiments.scales.is_on_disk", lambda name: False)


def test_given_parents_have_columns_of_their_own(tmp_path):
    for name in ("a", "b", "splits"):
        (tmp_path / name).write_text(name)
    source = ParentSource(None, (str(tmp_path / "a"), str(tmp_path / "b")), str(tmp_path / "splits"), "digits")
    given = GivenParents((("vgg11-noniid", "2-way"),), source.models, source.to_json(), source.given_splits)
    cells = [cell for cell in cells_of("vgg11-noniid", given=source) if cell.column == "2-way"]
    results = bundle_of(cells[:3], lambda cell: {"known": knowing(60)}).results
    written = report(Bundle(results, (given,)), ["vgg11-noniid", "vgg11-sharded"], SMOKE)
    column = column_of(written, "vgg11-noniid", "2-way")
    assert column.badge == "smoke, given parents, digits for cifar10" and column.setting.measured == 3
    assert {column.badge for column in written.tables[1].columns} == {"smoke, digits for cifar10"}


def test_the_command_prints_writes_and_bundles(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = cells_of("fusion-set-size")
    for result in bundle_of(cells, lambda cell: {"known": knowing(40)}).results.values():
        write_result("runs", result)
    words = ["reproduce", "fusion-set-size", "--report", "--scale", "smoke"]
    assert main(words) == 0
    from_folder = capsys.readouterr().out
    assert from_folder.startswith("# The paper's numbers, and ours\n") and "17 of 17 cells" in from_folder
    assert main([*words, "--bundle", "all"]) == 0
    capsys.readouterr()
    assert main([*words, "--folder", "elsewhere", "--results", "all", "--out", "table.csv"]) == 0
    assert capsys.readouterr().out == from_folder
    assert len(lines_of_csv(Path("table.csv").read_text(encoding="utf-8"))) > 17


@each_case(
    ("words", "sentence"),
    [
        (["vgg"], "unknown table 'vgg'"),
        (["all", "--scale", "huge"], "unknown scale 'huge'"),
        (["vgg11-noniid", "--columns", "9-way"], "unknown column '9-way'"),
        (["all", "--results", "none.json"], "the bundle none.json cannot be read"),
    ],
)
def test_the_command_refuses_in_a_sentence(words, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "--report", *words]) == 2
    assert sentence in capsys.readouterr().err


@pytest.fixture
def all_data(monkeypatch):
    """A machine with every data set."""
    monkeypatch.setattr("retrofit_core.experiments.scales.is_on_disk", lambda name: True)


def test_the_summary_counts_each_claim_once_by_its_verdict(all_data):
    shares = {"Parent 0": 40, "Parent 1": 30, "KF-Gradient, uniform": 60, "KF-Gradient, conductance": 60}
    known = bundle_of(
        cells_of("fusion-set-size", "small", 1), lambda cell: {"known": knowing(shares.get(cell.row, 90))}
    )
    summary = report(known, ["fusion-set-size"], [scale_of("evening"), scale_of("small")]).summary
    claimed, printed = summary.decided(), paper_values("fusion-set-size")
    assert [(count.scale, count.numbers) for count in summary.counts] == [("small", summary.numbers)]
    assert summary.numbers == len({(value.column, value.row) for value in printed})
    assert not summary.decided("evening") and len(claimed) == summary.claims
    # Above the best parent by 20, DeepLIFT above conductance by 30, conductance level with uniform scores.
    for claim in claimed:
        expected = "agreed" if claim.paper > 0 else "contradicted"
        assert claim.verdict == ("undecided" if claim.left.endswith("conductance") else expected)
    assert sum(verdicts(claimed)) == len(claimed) and all(verdicts(claimed))


def blood(data: str, scale: str, **shares: int) -> Bundle:
    """Results of `bloodmnist` measured on a data set; parents know 40 images."""
    cells = TABLES["bloodmnist"].cells(dataclasses.replace(scale_of(scale), always=data), 1)
    known = {"Parent 0": 40, "Parent 1": 40, **{row.replace("_", "-") + ", uniform": n for row, n in shares.items()}}
    return bundle_of(cells, lambda cell: {"known": knowing(known[cell.row])} if cell.row in known else None)


def test_a_substitute_counts_for_nothing_and_stands_apart(no_data):
    """CIFAR-10 tells nothing of the paper's numbers on BloodMNIST, not even at a fuller scale."""
    own, other = blood("bloodmnist", "small", KF_Linear=60), blood("cifar10", "evening", KF_Linear=90, HF_Linear=10)
    scales = [scale_of("evening"), scale_of("small")]
    alone = report(other, ["bloodmnist"], scales, only_measured=True)
    assert (alone.summary.measured(), alone.summary.decided(), alone.summary.counts) == (0, [], ())
    assert [count.badge for count in alone.summary.substituted] == ["evening, cifar10 for bloodmnist"]
    both = report(merged([own, other]), ["bloodmnist"], scales, only_measured=True)
    assert [(count.scale, count.badge) for count in both.summary.counts] == [("small", "small")]
    assert [claim.ours for claim in both.summary.decided() if claim.right == "best parent"] == [pytest.approx(20)]
    assert both.summary.substituted == alone.summary.substituted
    assert {line.is_within for line in alone.columns[0].all_lines} == {None}
    above, _, apart = markdown(both).partition("## Measured on another data set than the paper's\n")
    assert [line.split()[-2] for line in above.splitlines() if line.startswith("| bloodmnist ")] == ["small"]
    assert "evening, cifar10 for bloodmnist |" in apart


def test_the_papers_data_set_is_the_column_whatever_a_substitute_has(no_data, tmp_path):
    own, other = blood("bloodmnist", "small", KF_Linear=60), blood("cifar10", "evening", KF_Linear=90, HF_Linear=10)
    write_bundle(tmp_path / "both.json", merged([own, other]))
    column = table("bloodmnist", runs=tmp_path / "runs", results=tmp_path / "both.json").column("2-way")
    assert column.badge == "small" and column.number("KF-Linear, uniform") == 60
