"""A table of the paper in a notebook: which numbers it shows, where they come from, and measuring what is missing."""

import re
from pathlib import Path

import pytest

from retrofit_core.experiments import table
from retrofit_core.experiments.results import GivenParents, Records, merged_records
from retrofit_core.experiments.scales import scale_of
from retrofit_core.experiments.tables import TABLES
from retrofit_core.experiments.units import ParentSource
from tests.experiments.made_up import cells_of, knowing, records_of, write_records

ROWS = {
    "Parent 0": 40,
    "Parent 1": 60,
    "Ensemble": 90,
    "KF-Linear, uniform": 70,
    "KF-Linear, conductance": 80,
    "OTFusion, uniform": 20,
}


def two_way(scale: str, gain: int = 0) -> Records:
    cells = [cell for cell in cells_of("vgg11-noniid", scale, seeds=1) if cell.column == "2-way" and cell.row in ROWS]
    return records_of(cells, lambda cell: {"known": knowing(ROWS[cell.row] + gain)})


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """The column "2-way" at two scales; ten points more at the larger one."""
    write_records(tmp_path / "records.json", merged_records([two_way("small"), two_way("evening", 10)]))
    return tmp_path / "records.json"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def beside(tmp_path: Path, *records: Records) -> Path:
    write_records(tmp_path / "beside.json", merged_records(records))
    return tmp_path / "beside.json"


def rows_of(scale: str, numbers: dict[str, int]) -> Records:
    """Made-up accuracies of some rows of the column "2-way"."""
    cells = [cell for cell in cells_of("vgg11-noniid", scale, seeds=1) if cell.column == "2-way"]
    return records_of(cells, lambda cell: {"known": knowing(numbers[cell.row])} if cell.row in numbers else None)


def test_one_fuller_result_changes_its_own_row_alone(tmp_path, runs):
    one = rows_of("evening", {"KF-Linear, uniform": 75})
    before = table("vgg11-noniid", runs=runs, results=beside(tmp_path, two_way("small"))).column("2-way")
    column = table("vgg11-noniid", runs=runs, results=beside(tmp_path, two_way("small"), one)).column("2-way")
    assert [line.row for line in column.lines] == [line.row for line in before.lines]
    assert column.badge == "small"  # of most rows
    assert {line.row: line.badge for line in column.lines if line.badge} == {"KF-Linear, uniform": "evening"}
    assert column.number("KF-Linear, uniform") == 75 and column.at("small").number("KF-Linear, uniform") == 70
    assert column.recipe("KF-Linear, uniform")["scale"] == "evening"
    line = next(line for line in repr(column.show()).splitlines() if "KF-Linear, uniform" in line)
    assert "75.00 (1)" in line and "evening" in line
    # Nothing else is measured at evening, so every comparison is that of small.
    assert column.claims == before.claims
    assert column.gap("KF-Linear, uniform", "Ensemble") == before.gap("KF-Linear, uniform", "Ensemble")


def test_claims_and_gaps_compare_rows_of_one_scale(tmp_path, runs):
    evening = {"KF-Linear, uniform": 75, "Ensemble": 60}
    results = beside(tmp_path, two_way("small"), rows_of("evening", evening))
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


@pytest.mark.slow
def test_given_parents_are_of_the_papers_scale(records, runs):
    source = ParentSource(None, {"given": ["a", "b"], "data": "cifar10"})
    given = GivenParents((("vgg11-noniid", "2-way"),), source)
    cells = [cell for cell in cells_of("vgg11-noniid", "paper", 1, given.source) if cell.column == "2-way"]
    results = records_of(cells, lambda cell: {"known": knowing(50)} if cell.row in ROWS else None).results
    write_records(records.with_name("pair.json"), Records(results, (given,)))
    vgg = table("vgg11-noniid", runs=runs, results=[records, records.with_name("pair.json")])
    assert vgg.column("2-way").badge == "given parents"
    assert vgg.column("2-way").number("Ensemble") == 50
    # Networks that were trained as in the paper come before them.
    trained = records.with_name("trained.json")
    cells = [cell for cell in cells_of("vgg11-noniid", "paper", 1) if (cell.column, cell.row) == ("2-way", "Ensemble")]
    write_records(trained, records_of(cells, lambda cell: {"known": knowing(40)}))
    column = table("vgg11-noniid", runs=runs, results=[records, records.with_name("pair.json"), trained]).column(
        "2-way"
    )
    assert (column.number("Ensemble"), column.number("KF-Linear, uniform")) == (40, 50)
    assert [column.at(name).number("Ensemble") for name in ("paper", "given parents")] == [40, 50]


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
    cells = TABLES["vgg11-noniid"].cells(scale_of("small"), 1, parents=2)
    chosen = [cell for cell in cells if cell.column == "2-way" and cell.row in numbers]
    results = beside(tmp_path, records_of(chosen, lambda cell: {"known": knowing(numbers[cell.row][cell.parents])}))
    column = table("vgg11-noniid", scale="small", runs=runs, results=results).column("2-way")
    assert [column.line(f"Parent {index}").by_parents for index in (0, 1)] == [((60.0,), (80.0,)), ((40.0,), (70.0,))]


def test_claims_and_recipes_are_found_by_their_names(records, runs):
    column = table("vgg11-noniid", scale="small", runs=runs, results=records).column("2-way")
    claim = column.claim("KF-Linear", "best parent")
    assert (claim.ours, claim.verdict, claim.rows) == (20, "agreed", ("KF-Linear, conductance", "Parent 1"))
    recipe = column.recipe("KF-Linear, conductance")
    assert recipe["command"].startswith("retrofit fuse ")
    assert (recipe["scale"], recipe["seeds"], recipe["date"]) == ("small", 1, "1970-01-01")
    assert "an abacus" in recipe["machine"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda vgg: vgg.column("3-way"), "unknown column of vgg11-noniid '3-way'"),
        (lambda vgg: vgg.column("2-way").number("LP"), "measure it with: retrofit reproduce vgg11-noniid"),
        (lambda vgg: vgg.column("2-way").claim("KF-Linear", "worst parent"), "unknown difference"),
        (lambda vgg: vgg.column("2-way").at("paper"), "unknown scale of vgg11-noniid, 2-way 'paper'"),
        (lambda vgg: table("vgg-noniid"), "Did you mean 'vgg11-noniid'"),
        (lambda vgg: table("vgg11-noniid", results="nowhere.json"), "cannot be read"),
    ],
)
def test_what_is_not_there_is_said_in_a_sentence(records, runs, ask, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        ask(table("vgg11-noniid", runs=runs, results=records))
