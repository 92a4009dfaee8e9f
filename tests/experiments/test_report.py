"""Reports of results that nobody measured: numbers, deviations, verdicts, and what is printed where."""

import csv
import dataclasses
import io
from pathlib import Path

import pytest

from retrofit_core.cli import main
from retrofit_core.experiments.lines import Line
from retrofit_core.experiments.paper import paper_values
from retrofit_core.experiments.report import markdown, report, spreadsheet, verdicts
from retrofit_core.experiments.reproduction import ReproducedColumn
from retrofit_core.experiments.results import GivenParents, Records, merged_records, write_result
from retrofit_core.experiments.scales import scale_of
from retrofit_core.experiments.tables import TABLES
from retrofit_core.experiments.units import ParentSource
from tests.experiments.made_up import cells_of, knowing, records_of
from tests.marks import each_case

SMOKE = [scale_of("smoke")]


def column_of(written, table: str, column: str) -> ReproducedColumn:
    (found,) = (each for each in written.columns if (each.table, each.name) == (table, column))
    return found


def line_of(written, table: str, column: str, row: str) -> Line:
    return column_of(written, table, column).line(row)


def rows_of(written) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(spreadsheet(written))))


@pytest.mark.slow
def test_every_number_of_the_paper_is_in_the_report():
    empty = report(Records({}), list(TABLES), SMOKE)
    rows = {(row["table"], row["column"], row["row"]): row for row in rows_of(empty)}
    assert len(paper_values()) > 400
    for value in paper_values():
        row = rows[value.table, value.column, value.row]
        assert float(row["paper"]) == value.mean
        # Short tables repeat means without deviations, and "best" rows stand in them alone.
        assert value.deviation is None or float(row["paper deviation"]) == value.deviation
    text = markdown(empty)
    assert all(f"\nretrofit reproduce {name} --scale smoke\n" in text for name in TABLES)


def test_the_text_has_a_line_for_each_row_of_the_paper_with_its_claims():
    """One row refused, two seeds; the row's own claims are counted, and a contradicted one is written out."""
    shares = {"Parent 0": 40, "Parent 1": 30, "KF-Linear, uniform": 60, "KF-Linear, conductance": 70, "LP": 99}

    def facts(cell):
        if cell.row == "KF-Linear, deeplift":
            return {"refusal": "it has no rule."}
        return {"known": knowing(shares[cell.row])} if cell.row in shares else None

    cells = [cell for cell in cells_of("vgg11-noniid", "small") if cell.column == "2-way"]
    text = markdown(report(records_of(cells, facts), ["vgg11-noniid"], [scale_of("small")]))
    assert "| Parent 0               | 83.8 ± 2.7 | 40.00 (1)   | -                        | small |" in text
    assert "| KF-Linear, conductance | 86.6 ± 0.7 | 70.00 (1)   | 2 agreed, 1 contradicted | small |" in text
    assert "| KF-Linear, deeplift    | 86.5 ± 0.7 | refused [1] | -                        | -     |" in text
    assert "\n[1] it has no rule.  \n" in text and "LP, all data" not in text
    assert "Contradicted: KF-Linear (conductance) against LP, -29.00 (-" in text and "paper +1.1 ± 2.1)." in text
    assert "of 75 claims 2 agreed, 0 undecided, 1 contradicted." in text
    assert "\nretrofit reproduce vgg11-noniid --scale small\n" in text


def test_means_deviations_and_two_sigma():
    # Ours: 74, 76, 78, of mean 76 and deviation 2. The paper: 76.1 ± 0.5, of an unknown number of seeds.
    cells = cells_of("fusion-set-size", seeds=3)
    records = records_of(cells, lambda cell: {"known": knowing(74 + 2 * cell.seed)})
    line = line_of(report(records, ["fusion-set-size"], SMOKE), "fusion-set-size", "5k samples", "KF-Gradient, uniform")
    assert (line.mean, line.deviation) == (pytest.approx(76), pytest.approx(2))
    assert line.difference == pytest.approx(-0.1) and line.words == "76.00 ± 2.00 (3)"
    assert dataclasses.replace(line, paper=None).difference is None


def test_several_sets_of_parents_are_one_factor():
    """Two sets, the second with a better fusion; deviations are over sets, claims over the best parent of each."""
    shares = {0: {"Parent 0": 40, "Parent 1": 30}, 1: {"Parent 0": 20, "Parent 1": 50}}
    rows = ("Parent 0", "Parent 1", "KF-Linear, uniform")
    cells = TABLES["vgg11-noniid"].cells(SMOKE[0], 2, parents=2)
    cells = [cell for cell in cells if cell.column == "2-way" and cell.row in rows]
    assert len({cell.units[0].key() for cell in cells}) == len(cells) == 2 * (2 + 2)

    def share(cell) -> int:
        return shares[cell.parents].get(cell.row, 60 + 10 * cell.parents + 4 * cell.seed)

    written = report(records_of(cells, lambda cell: {"known": knowing(share(cell))}), ["vgg11-noniid"], SMOKE)
    column = column_of(written, "vgg11-noniid", "2-way")
    line = column.line("KF-Linear, uniform")
    assert line.by_parents == ((60, 64), (70, 74)) and line.words == "67.00 ± 7.07 (2 parents, 4)"
    (claim,) = (claim for claim in column.claims if claim.ours is not None)
    assert claim.rows == ("KF-Linear, uniform", "best parent")
    assert claim.ours == pytest.approx(((62 - 40) + (72 - 50)) / 2) and claim.seeds == 4


def test_accuracy_on_a_part_is_that_of_its_classes():
    cells = [cell for cell in cells_of("resnet50-imagenet") if cell.row == "ZipIt"]
    written = report(records_of(cells, lambda cell: {"per_part": [30.0, 70.0]}), ["resnet50-imagenet"], SMOKE)
    columns = [f"{name}, 25k samples" for name in ("joint", "task A", "task B")]
    numbers = [line_of(written, "resnet50-imagenet", column, "ZipIt").values for column in columns]
    assert numbers == [(50.0,), (30.0,), (70.0,)]


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["smoke", "small"])
def test_smoke_decides_nothing(scale):
    """The same results at `small` agree with the paper."""
    cells = TABLES["vgg11-noniid"].cells(scale_of(scale))
    right = {row: 90 - index for index, row in enumerate(dict.fromkeys(cell.row for cell in cells))}
    records = records_of(cells, lambda cell: {"known": knowing(right[cell.row])})
    rows = rows_of(report(records, ["vgg11-noniid"], [scale_of(scale)]))
    assert any(row["state"] == "agreed" for row in rows) == (scale == "small")


def test_given_parents_have_columns_of_their_own():
    source = ParentSource(None, {"given": ["a", "b", "splits"], "data": "cifar10"})
    given = GivenParents((("vgg11-noniid", "2-way"),), source, "VGG11s of a friend")
    cells = [cell for cell in cells_of("vgg11-noniid", "paper", 1, given.source) if cell.column == "2-way"]
    records = Records(records_of(cells[:3], lambda cell: {"known": knowing(60)}).results, (given,))
    written = report(records, ["vgg11-noniid", "vgg11-sharded"], [scale_of("paper")])
    column = column_of(written, "vgg11-noniid", "2-way")
    assert column.badge == "given VGG11s of a friend" and column.setting.counts[0] == 3
    assert {column.badge for column in written.tables[1].columns} == {"paper"}


def test_the_command_prints_and_writes(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = cells_of("fusion-set-size")
    for result in records_of(cells, lambda cell: {"known": knowing(40)}).results.values():
        write_result("runs", result)
    words = ["reproduce", "fusion-set-size", "--report", "--scale", "smoke"]
    assert main(words) == 0
    from_folder = capsys.readouterr().out
    assert from_folder.startswith("# The paper's numbers, and ours\n") and from_folder.count("| 40.00 (1)") == 11
    assert main([*words, "--folder", "elsewhere", "--results", "runs", "--out", "report.csv"]) == 0
    assert capsys.readouterr().out == from_folder
    assert len(Path("report.csv").read_text(encoding="utf-8").splitlines()) > 17


@each_case(
    ("words", "sentence"),
    [
        (["vgg"], "unknown table 'vgg'"),
        (["vgg11-noniid", "--scale", "huge"], "unknown scale 'huge'"),
        (["vgg11-noniid", "--columns", "9-way"], "unknown column '9-way'"),
        (["vgg11-noniid", "--results", "none.json"], "the results in none.json cannot be read"),
    ],
)
def test_the_command_refuses_in_a_sentence(words, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *words, "--report"]) == 2
    assert sentence in capsys.readouterr().err


def test_the_summary_counts_each_claim_once_by_its_verdict():
    shares = {"Parent 0": 40, "Parent 1": 30, "KF-Gradient, uniform": 60, "KF-Gradient, conductance": 60}
    records = records_of(
        cells_of("fusion-set-size", "small", 1), lambda cell: {"known": knowing(shares.get(cell.row, 90))}
    )
    summary = report(records, ["fusion-set-size"], [scale_of("evening"), scale_of("small")]).summary
    claimed, printed = summary.decided(), paper_values("fusion-set-size")
    assert [(count.scale, count.numbers) for count in summary.counts] == [("small", summary.numbers)]
    assert summary.numbers == len({(value.column, value.row) for value in printed})
    assert not summary.decided("evening") and len(claimed) == summary.claims
    # Above the best parent by 20, DeepLIFT above conductance by 30, conductance level with uniform scores.
    for claim in claimed:
        expected = "agreed" if claim.paper > 0 else "contradicted"
        assert claim.verdict == ("undecided" if claim.left.endswith("conductance") else expected)
    assert sum(verdicts(claimed)) == len(claimed) and all(verdicts(claimed))


def vit(data: str, scale: str, share: int) -> Records:
    """Results of two rows of `vit-sharded-cifar100` measured on a data set; parents know 40 images."""
    cells = TABLES["vit-sharded-cifar100"].cells(dataclasses.replace(scale_of(scale), always=data), 1)
    shares = {"Parent 0": 40, "Parent 1": 40, "KF-Gradient, uniform": share}
    return records_of(cells, lambda cell: {"known": knowing(shares[cell.row])} if cell.row in shares else None)


def test_a_stand_in_has_a_badge_counts_for_nothing_and_gives_way_to_the_papers_data_set():
    """CIFAR-10 tells nothing of the paper's numbers on CIFAR-100, not even at a fuller scale."""
    own, other = vit("cifar100", "small", 60), vit("cifar10", "evening", 90)
    scales = [scale_of("evening"), scale_of("small")]
    alone = report(other, ["vit-sharded-cifar100"], scales)
    assert (alone.summary.measured(), alone.summary.decided(), alone.summary.counts) == (0, [], ())
    column = alone.columns[0]
    assert column.badge == "evening, cifar10 for cifar100" and column.number("KF-Gradient, uniform") == 90
    both = report(merged_records([own, other]), ["vit-sharded-cifar100"], scales)
    assert {(count.scale, count.badge) for count in both.summary.counts} == {("small", "small")}
    assert [claim.ours for claim in both.summary.decided() if claim.column == "2-way"] == [pytest.approx(20)]
    assert both.columns[0].badge == "small" and both.columns[0].number("KF-Gradient, uniform") == 60
