"""A table of the paper in a notebook: which numbers it shows, where they come from, and measuring what is missing."""

import re
from pathlib import Path

import pytest

from retrofit_core.experiments import table
from retrofit_core.experiments.results import Result, add
from tests.experiments.made_up import TWO_WAY, made, of_rows

ROWS = {
    "Parent 0": 40,
    "Parent 1": 60,
    "Ensemble": 90,
    "KF-Linear, uniform": 70,
    "KF-Linear, conductance": 80,
    "OTFusion, uniform": 20,
}


def two_way(scale: str, gain: int = 0) -> list[Result]:
    return of_rows({row: known + gain for row, known in ROWS.items()}, scale=scale)


def beside(folder: Path, *results: Result) -> Path:
    add(folder, "vgg11-noniid", results)
    return folder


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """The column "2-way" at two scales; ten points more at the larger one."""
    return beside(tmp_path, *two_way("small"), *two_way("evening", 10))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_one_fuller_result_changes_its_own_row_alone(tmp_path, runs):
    one = made("KF-Linear, uniform", 75, scale="evening")
    before = table("vgg11-noniid", runs=runs, results=beside(tmp_path, *two_way("small"))).column(TWO_WAY)
    column = table("vgg11-noniid", runs=runs, results=beside(tmp_path, one)).column(TWO_WAY)
    assert [line.row for line in column.lines] == [line.row for line in before.lines]
    assert column.badge == "small"  # of most rows
    assert {line.row: line.badge for line in column.lines if line.badge} == {"KF-Linear, uniform": "evening"}
    assert column.number("KF-Linear, uniform") == 75 and column.at("small").number("KF-Linear, uniform") == 70
    line = next(line for line in repr(column.show()).splitlines() if "KF-Linear, uniform" in line)
    assert "75.00 (1)" in line and "evening" in line
    # Nothing else is measured at evening, so every comparison is that of small.
    assert column.claims == before.claims
    assert column.gap("KF-Linear, uniform", "Ensemble") == before.gap("KF-Linear, uniform", "Ensemble")


def test_the_papers_table_has_our_number_its_mark_and_its_scale_beside_each_number(tmp_path, runs):
    results = beside(tmp_path, *two_way("small"), made("LP", 99, scale="evening"))
    shown = table("vgg11-noniid", runs=runs, results=results, columns=[TWO_WAY])
    head, _, *lines = (re.split(r" *\| *", line)[1:-1] for line in shown.beside_the_paper().splitlines())
    assert head == ["", f"{TWO_WAY}, paper", "ours, small"]
    assert [row for row, *_ in lines] == list(shown.table.paper_rows)
    cells = {row: both for row, *both in lines}
    assert cells["Ensemble"] == ["89.1 ± 0.4", "90.0"] and cells["LP"] == ["85.5 ± 2.0", "99.0 (evening)"]
    assert cells["KF-Linear, conductance"] == ["86.6 ± 0.7", "80.0 ✓"] and cells["KD"][1] == "-"


def test_claims_and_gaps_compare_rows_of_one_scale(tmp_path, runs):
    evening = {"KF-Linear, uniform": 75, "Ensemble": 60}
    results = beside(tmp_path, *two_way("small"), *of_rows(evening, scale="evening"))
    column = table("vgg11-noniid", runs=runs, results=results).column("2-way")
    claim = column.claim("KF-Linear", "Ensemble")
    assert (claim.ours, claim.badge, claim.rows[0]) == (15, "evening", "KF-Linear, uniform")
    gap = column.gap("KF-Linear, uniform", "Ensemble")
    assert (gap.points, gap.badge) == (15, "evening")
    assert (column.claim("KF-Linear", "best parent").ours, column.claim("KF-Linear", "best parent").badge) == (20, "")
    assert column.gap("KF-Linear, uniform", "Parent 0").points == 70 - 60


def test_each_row_is_shown_at_its_fullest_scale(records, runs):
    vgg = table("vgg11-noniid", runs=runs, results=records)
    assert [(column.name, column.badge, len(column.lines)) for column in vgg.columns] == [
        ("2-way", "evening", 6),
        ("4-way", "small", 0),
        ("8-way", "small", 0),
    ]
    assert vgg.column().name == "2-way"
    assert vgg.column("2-way").number("KF-Linear, uniform") == 80
    assert table("vgg11-noniid", scale="small", runs=runs, results=records).column().number("KF-Linear, uniform") == 70


def test_given_parents_are_of_the_papers_scale(records, runs):
    given = "given VGG11s of a friend"
    beside(records, *(made(row, 50, scale=given) for row in ROWS))
    column = table("vgg11-noniid", runs=runs, results=records).column(TWO_WAY)
    assert (column.badge, column.scale, column.given, column.number("Ensemble")) == (given, "paper", True, 50)
    # Networks that were trained as in the paper come before them.
    beside(records, made("Ensemble", 40, scale="paper"))
    column = table("vgg11-noniid", runs=runs, results=records).column(TWO_WAY)
    assert (column.number("Ensemble"), column.number("KF-Linear, uniform")) == (40, 50)
    assert [column.at(name).number("Ensemble") for name in ("paper", given)] == [40, 50]


def test_parents_stand_in_the_order_of_their_accuracy_with_their_own_results(records, runs):
    column = table("vgg11-noniid", scale="small", runs=runs, results=records).column("2-way")
    assert column.number("Parent 0") == 60  # ours is parent 1
    assert column.results("Parent 0")[0].knows().sum() == 60
    assert column.line("Parent 0").images == 100
    assert column.per_class("Parent 0") == (60.0,) * 10
    assert column.classes[:2] == ("airplane", "automobile")
    for row in ("Parent 0", "Parent 1"):
        assert column.gap("Ensemble", row).points == column.number("Ensemble") - column.number(row)


def test_parents_stand_in_the_order_of_each_sets_accuracies(tmp_path, runs):
    numbers = {"Parent 0": (40, 80), "Parent 1": (60, 70)}
    every = [made(row, known, parents=k) for row, of_sets in numbers.items() for k, known in enumerate(of_sets)]
    results = beside(tmp_path, *every)
    column = table("vgg11-noniid", scale="small", runs=runs, results=results).column("2-way")
    assert [column.line(f"Parent {index}").by_parents for index in (0, 1)] == [((60.0,), (80.0,)), ((40.0,), (70.0,))]


def test_claims_and_commands_are_found_by_their_names(records, runs):
    column = table("vgg11-noniid", scale="small", runs=runs, results=records).column("2-way")
    claim = column.claim("KF-Linear", "best parent")
    assert (claim.ours, claim.verdict, claim.rows) == (20, "agreed", ("KF-Linear, conductance", "Parent 1"))
    command = column.command("KF-Linear, conductance")
    assert command.startswith("retrofit reproduce vgg11-noniid --scale small --columns 2-way")


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda vgg: vgg.column("3-way"), "unknown column of vgg11-noniid '3-way'"),
        (lambda vgg: vgg.column("2-way").number("LP"), "measure it with: retrofit reproduce vgg11-noniid"),
        (lambda vgg: vgg.column("2-way").claim("KF-Linear", "worst parent"), "unknown difference"),
        (lambda vgg: vgg.column("2-way").at("paper"), "unknown scale of vgg11-noniid, 2-way 'paper'"),
        (lambda vgg: table("vgg-noniid"), "Did you mean 'vgg11-noniid'"),
        (lambda vgg: table("vgg11-noniid", results="nowhere.csv"), "nowhere.csv holds no results"),
    ],
)
def test_what_is_not_there_is_said_in_a_sentence(records, runs, ask, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        ask(table("vgg11-noniid", runs=runs, results=records))
