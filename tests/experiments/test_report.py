"""Reports of results that nobody measured: numbers, deviations, verdicts, and what is printed where."""

import dataclasses

import pytest

from retrofit_core.cli import main
from retrofit_core.experiments.lines import Line
from retrofit_core.experiments.paper import paper_values
from retrofit_core.experiments.report import markdown, report, summary_of_tables, verdicts
from retrofit_core.experiments.reproduction import ReproducedColumn, by_row
from retrofit_core.experiments.results import Result, add
from retrofit_core.experiments.tables import TABLES
from tests.experiments.made_up import made, of_rows, of_table


def column_of(written, table: str, column: str) -> ReproducedColumn:
    (shown,) = (each for each in written if each.name == table)
    (found,) = (each for each in by_row(shown.columns) if each.name == column)
    return found


def line_of(written, table: str, column: str, row: str) -> Line:
    return column_of(written, table, column).line(row)


def test_every_number_of_the_paper_is_in_the_report():
    empty = report({name: [] for name in TABLES}, ["smoke"])
    assert len(paper_values()) > 400
    for value in paper_values():
        paper = line_of(empty, value.table, value.column, value.row).paper
        assert paper.mean == value.mean
        # Short tables repeat means without deviations, and "best" rows stand in them alone.
        assert value.deviation is None or paper.deviation == value.deviation
    text = markdown(empty)
    assert all(f"\nretrofit reproduce {value.table} --scale smoke\n" in text for value in paper_values())


def test_the_text_has_a_line_for_each_row_of_the_paper_with_its_claims():
    """One row refused, two seeds; the row's own claims are counted, and a contradicted one is written out."""
    shares = {"Parent 0": 40, "Parent 1": 30, "KF-Linear, uniform": 60, "KF-Linear, conductance": 70, "LP": 99}

    results = [*of_rows(shares), made("KF-Linear, deeplift", refusal="it has no rule."), made("LP, all data", 50)]
    text = markdown(report({"vgg11-noniid": results}, ["small"]))
    assert "| Parent 0               | 83.8 ± 2.7 | 40.00 (1)   | -                        | small |" in text
    assert "| KF-Linear, conductance | 86.6 ± 0.7 | 70.00 (1)   | 2 agreed, 1 contradicted | small |" in text
    assert "| KF-Linear, deeplift    | 86.5 ± 0.7 | refused [1] | -                        | -     |" in text
    assert "\n[1] it has no rule.  \n" in text and "LP, all data" not in text
    assert "Contradicted: KF-Linear (conductance) against LP, -29.00 (-" in text and "paper +1.1 ± 2.1)." in text
    assert "of 75 claims 2 agreed, 0 undecided, 1 contradicted." in text
    assert "\nretrofit reproduce vgg11-noniid --scale small\n" in text


def test_means_deviations_and_two_sigma():
    # Ours: 74, 76, 78, of mean 76 and deviation 2. The paper: 76.1 ± 0.5, of an unknown number of seeds.
    row, column = "KF-Gradient, uniform", "5k samples"
    results = [made(row, 74 + 2 * seed, column=column, seed=seed) for seed in range(3)]
    line = line_of(report({"fusion-set-size": results}), "fusion-set-size", column, row)
    assert (line.mean, line.deviation) == (pytest.approx(76), pytest.approx(2))
    assert line.difference == pytest.approx(-0.1) and line.words == "76.00 ± 2.00 (3)"
    assert dataclasses.replace(line, paper=None).difference is None


def test_several_sets_of_parents_are_one_factor():
    """Two sets, the second with a better fusion; deviations are over sets, claims over the best parent of each."""
    shares = {0: {"Parent 0": 40, "Parent 1": 30}, 1: {"Parent 0": 20, "Parent 1": 50}}
    results = [made(row, known, parents=k) for k, of_set in shares.items() for row, known in of_set.items()]
    for k in range(2):
        results += [made("KF-Linear, uniform", 60 + 10 * k + 4 * seed, parents=k, seed=seed) for seed in range(2)]
    written = report({"vgg11-noniid": results}, ["small"])
    column = column_of(written, "vgg11-noniid", "2-way")
    line = column.line("KF-Linear, uniform")
    assert line.by_parents == ((60, 64), (70, 74)) and line.words == "67.00 ± 7.07 (2 parents, 4)"
    (claim,) = (claim for claim in column.claims if claim.ours is not None)
    assert claim.rows == ("KF-Linear, uniform", "best parent")
    assert claim.ours == pytest.approx(((62 - 40) + (72 - 50)) / 2) and claim.seeds == 4


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["smoke", "small"])
def test_smoke_decides_nothing(scale):
    """The same results at `small` agree with the paper."""
    badge = {"smoke": "smoke, digits for cifar10"}.get(scale, scale)
    results = of_rows({row: 90 - index for index, row in enumerate(TABLES["vgg11-noniid"].rows)}, scale=badge)
    claims = column_of(report({"vgg11-noniid": results}, [scale]), "vgg11-noniid", "2-way").claims
    assert any(claim.verdict == "agreed" for claim in claims) == (scale == "small")


def test_the_command_prints(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    add("runs", "fusion-set-size", of_table("fusion-set-size", 40, "smoke", "smoke, digits for cifar10"))
    words = ["reproduce", "fusion-set-size", "--report", "--scale", "smoke"]
    assert main(words) == 0
    from_folder = capsys.readouterr().out
    assert from_folder.startswith("# The paper's numbers, and ours\n") and from_folder.count("| 40.00 (1)") == 11
    assert main([*words, "--folder", "elsewhere", "--results", "runs"]) == 0
    assert capsys.readouterr().out == from_folder


def test_the_summary_counts_each_claim_once_by_its_verdict():
    shares = {"Parent 0": 40, "Parent 1": 30, "KF-Gradient, uniform": 60, "KF-Gradient, conductance": 60}
    results = [made(each.row, shares.get(each.row, 90), column=each.column) for each in of_table("fusion-set-size", 0)]
    summary = summary_of_tables(report({"fusion-set-size": results}, ["evening", "small"]))
    claimed, printed = summary.decided(), paper_values("fusion-set-size")
    assert [(count.badge, count.numbers) for count in summary.counts] == [("small", summary.numbers)]
    assert summary.numbers == len({(value.column, value.row) for value in printed})
    assert len(claimed) == summary.claims
    # Above the best parent by 20, DeepLIFT above conductance by 30, conductance level with uniform scores.
    for claim in claimed:
        expected = "agreed" if claim.paper > 0 else "contradicted"
        assert claim.verdict == ("undecided" if claim.left.endswith("conductance") else expected)
    assert sum(verdicts(claimed)) == len(claimed) and all(verdicts(claimed))


def vit(badge: str, share: int) -> list[Result]:
    """Results of `vit-sharded-cifar100`; parents know 40 images."""
    return of_rows({"Parent 0": 40, "Parent 1": 40, "KF-Gradient, uniform": share}, scale=badge)


def test_a_stand_in_has_a_badge_counts_for_nothing_and_gives_way_to_the_papers_data_set():
    """CIFAR-10 tells nothing of the paper's numbers on CIFAR-100, not even at a fuller scale."""
    own, other = vit("small", 60), vit("evening, cifar10 for cifar100", 90)
    alone = report({"vit-sharded-cifar100": other})
    counted = summary_of_tables(alone)
    assert (counted.measured(), counted.decided(), counted.counts) == (0, [], ())
    column = column_of(alone, "vit-sharded-cifar100", "2-way")
    assert column.badge == "evening, cifar10 for cifar100" and column.number("KF-Gradient, uniform") == 90
    both = report({"vit-sharded-cifar100": [*own, *other]})
    assert {count.badge for count in summary_of_tables(both).counts} == {"small"}
    assert [claim.ours for claim in summary_of_tables(both).decided() if claim.column == "2-way"] == [pytest.approx(20)]
    column = column_of(both, "vit-sharded-cifar100", "2-way")
    assert column.badge == "small" and column.number("KF-Gradient, uniform") == 60
