"""Results are written and read whole, or refused in a sentence."""

import dataclasses

import pytest

from retrofit_core.experiments.results import FOLDER, add, results_of, share_below
from retrofit_core.experiments.tables import TABLES
from tests.experiments.made_up import made, of_rows
from tests.marks import ROOT

RESULTS = [
    *of_rows({"Parent 0": 60, "KF-Linear, uniform": 70}, seed=1),
    made("HF-Linear, uniform", refusal='it wants two parents, "equal" ones.'),
    made("Parent 0", metrics={"landscape": {"markers": [{"name": "ä", "loss": 0.1}]}}, value=1 / 3),
]


def test_what_is_written_is_read_from_a_runs_folder_a_folder_and_a_file(tmp_path):
    add(tmp_path, "widths", RESULTS)
    places = [tmp_path, tmp_path / FOLDER, tmp_path / FOLDER / "widths.csv"]
    assert [results_of("widths", tmp_path / "none", [place]) for place in places] == [RESULTS] * 3
    assert results_of("widths", tmp_path) == RESULTS and results_of("beyond", tmp_path) == []


def test_of_two_results_of_a_cell_the_later_one_counts_and_others_stay(tmp_path):
    late = dataclasses.replace(RESULTS[1], value=99.0)
    add(tmp_path / "first", "widths", RESULTS)
    add(tmp_path / "first", "widths", [late])
    assert results_of("widths", tmp_path / "first") == [RESULTS[0], late, *RESULTS[2:]]
    add(tmp_path / "second", "widths", [RESULTS[1]])
    assert results_of("widths", tmp_path / "second", [tmp_path / "first"])[1] == RESULTS[1]


@pytest.mark.parametrize(
    "content",
    [b"column,row\n", b'column,row,scale\na,b,c\na,"b', b"\xff\xfe", b"[]\n1\n", b"column,row,scale,value\na,b,c,d"],
)
def test_other_content_is_refused_in_a_sentence(tmp_path, content):
    (tmp_path / "widths.csv").write_bytes(content)
    if content == b"column,row\n":
        assert results_of("widths", tmp_path / "none", [tmp_path]) == []
        return
    with pytest.raises(ValueError, match=r"widths.csv does not hold results of .* Delete it, or copy it again"):
        results_of("widths", tmp_path / "none", [tmp_path])


def test_a_folder_without_results_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none.csv"):
        with pytest.raises(ValueError, match="holds no results: it is no CSV file of .* and no folder of them"):
            results_of("widths", tmp_path / "none", [path])


@pytest.mark.slow
def test_every_result_that_comes_with_the_project_is_a_cell_of_a_table():
    """A change of a table must not take its results with it."""
    folder = ROOT / "benchmarks" / "results" / "experiments"
    assert {file.stem for file in folder.iterdir()} <= set(TABLES)
    for name, table in TABLES.items():
        columns = {column.name: column for column in table.columns}
        for result in results_of(name, "none", [folder]):
            assert result.row in table.rows and table.has(columns[result.column], result.row, result.seed)
            assert (result.value is None) == bool(result.refusal)
            if result.bits:
                assert 100 * result.knows().mean() == pytest.approx(result.value)


def test_neurons_near_zero_are_read_off_the_histogram():
    histogram = {"counts": [4, 2, 0, 2], "edges": [0.0, 0.2, 0.4, 0.6, 0.8]}
    assert share_below(histogram, 0.1) == pytest.approx(25)
    assert share_below(histogram, 0.4) == pytest.approx(75)
    assert share_below(histogram, 5) == pytest.approx(100) and share_below(histogram, -1) == 0
