"""The paper's numbers beside ours: what is drawn is what the columns say."""

from dataclasses import replace
from html import unescape

import pytest

from retrofit_app.figures import DARK, LIGHT, lettered
from retrofit_app.figures.across import across
from retrofit_app.figures.histograms import kept_histograms
from retrofit_app.figures.paper import beside_in_parts, beside_the_paper, differences
from retrofit_app.figures.paper.cells import cells as table_of_cells
from retrofit_core.experiments import table
from retrofit_core.experiments.results import add
from tests.experiments.made_up import made, of_rows, of_table

ROWS = {
    "Parent 0": 60,
    "Parent 1": 40,
    "Ensemble": 90,
    "LP": 30,
    "KF-Linear, uniform": 62,
    "KF-Linear, conductance": 80,
    "OTFusion, uniform": 20,
    "ZipIt": 25,
}


FULLER = {"LP": 99, "OTFusion, uniform": 55}


@pytest.fixture
def column(tmp_path):
    """Made-up numbers: LP below the best parent, where the paper has it above."""
    add(tmp_path, "vgg11-noniid", of_rows(ROWS))
    return table("vgg11-noniid", runs=tmp_path).column("2-way")


@pytest.fixture
def empty(tmp_path):
    return table("vgg11-noniid", runs=tmp_path / "runs").column("2-way")


def trace(picture, name: str):
    (found,) = (each for each in picture.figure.data if each.name and each.name.startswith(name))
    return dict(zip(found.y, found.x, strict=True)), found


@pytest.mark.slow
def test_each_row_has_the_papers_number_and_ours_with_its_interval(column):
    picture = beside_the_paper(column, LIGHT)
    ours, marks = trace(picture, "ours (small)")
    paper, _ = trace(picture, "paper")
    assert (
        ours == {lettered(row): accuracy for row, accuracy in ROWS.items()} and paper["KF-Linear, conductance"] == 86.6
    )
    assert "ZipIt" not in paper  # the paper's table lacks it
    reach = dict(zip(marks.y, marks.error_x.array, strict=True))
    assert reach["KF-Linear, conductance"] == pytest.approx(196 * (0.8 * 0.2 / 100) ** 0.5)
    assert "+20.0 against the best parent and \N{MINUS SIGN}10.0 against" in picture.caption
    assert "LP 30.0 (paper 85.5)" in picture.alt


def test_rows_stand_in_groups_the_papers_best_first(column):
    methods = ["KF-Linear, conductance", "LP", "KF-Linear, uniform", "OTFusion, uniform", "ZipIt"]
    names = list(beside_the_paper(column, LIGHT).figure.layout.yaxis.categoryarray)
    assert names == ["Network A", "Network B", "Ensemble", *methods]
    chosen = beside_the_paper(column, LIGHT, ["LP", "Ensemble"])
    assert list(chosen.figure.layout.yaxis.categoryarray) == ["LP", "Ensemble"]


def test_a_long_column_is_several_pictures_of_at_most_20_rows(empty, tmp_path):
    add(tmp_path, "vgg11-noniid", of_table("vgg11-noniid", 50))
    column = table("vgg11-noniid", runs=tmp_path).column("2-way")
    pictures = beside_in_parts(column, LIGHT)
    rows = [list(map(unescape, picture.figure.layout.yaxis.categoryarray)) for picture in pictures]
    assert max(map(len, rows)) <= 20
    assert sorted(row for part in rows for row in part) == sorted(lettered(line.row) for line in column.lines)
    papers = {lettered(line.row) for line in column.lines if line.paper is not None}
    assert [{row in papers for row in part} for part in rows] == [{True}, {True}, {False}, {False}]
    # The standards are those of the column, wherever their own rows stand.
    assert all(any(note.text == "our ensemble" for note in picture.figure.layout.annotations) for picture in pictures)
    assert beside_in_parts(empty, LIGHT) == []


def test_differences_say_whether_the_sign_is_the_papers_and_draw_no_opponent_that_loses_by_dozens(column):
    picture = differences(column, LIGHT)
    agreed, _ = trace(picture, "ours, the paper's sign")
    assert agreed["KF-Linear \N{MINUS SIGN} best parent"] == 20
    assert agreed["KF-Linear \N{MINUS SIGN} Ensemble"] == -10
    assert not trace(picture, "ours, the other sign")[0]
    claims = {f"{claim.left} {claim.right}" for claim in column.claims if claim.ours is not None}
    names = [name.split(" \N{MINUS SIGN} ")[1] for name in picture.figure.layout.yaxis.categoryarray]
    assert "KF-Linear OTFusion" in claims and names == ["best parent", "Ensemble", "LP", "KF-Linear, uniform"]
    assert "5 agreed; 4 are drawn." in picture.caption
    alone = replace(column, claims=tuple(c for c in column.claims if c.right == "OTFusion"))
    only = differences(alone, LIGHT)
    assert list(only.figure.layout.yaxis.categoryarray) == ["KF-Linear \N{MINUS SIGN} OTFusion"]


def test_rows_at_another_scale_are_marked(column, tmp_path):
    add(tmp_path, "vgg11-noniid", of_rows(FULLER, scale="evening"))
    mixed = table("vgg11-noniid", runs=tmp_path).column("2-way")
    picture = beside_the_paper(mixed, LIGHT)
    ours, marks = trace(picture, "ours (small), squares")
    fuller = {f"{row} (evening)": share for row, share in FULLER.items()}
    assert ours == fuller | {lettered(row): ROWS[row] for row in ROWS if row not in FULLER}
    symbols = dict(zip(marks.y, marks.marker.symbol, strict=True))
    assert {row for row, symbol in symbols.items() if symbol == "square"} == set(fuller)
    assert "(scale small)" in picture.caption
    html = table_of_cells([mixed], list(ROWS), LIGHT, {"2-way": ""}, {"2-way": {}})
    assert "<small>evening</small> 99.0" in html and "<b>80.0</b>" in html  # the best is one of those at one scale
    assert trace(differences(mixed, LIGHT), "ours, the paper's sign")[0]["KF-Linear \N{MINUS SIGN} best parent"] == 20


@pytest.mark.slow
@pytest.mark.parametrize("draw", [beside_the_paper, differences])
def test_a_column_without_numbers_is_refused_in_a_sentence(empty, draw):
    with pytest.raises(ValueError, match="vgg11-noniid, 2-way"):
        draw(empty, LIGHT)


@pytest.mark.slow
def test_a_picture_shows_itself_in_a_notebook(column, monkeypatch):
    display = pytest.importorskip("IPython.display")
    shown = []
    monkeypatch.setattr(display, "display", lambda content, **options: shown.append(content))
    picture = beside_the_paper(column, LIGHT)
    picture._ipython_display_()
    finding, figure = shown
    drawn = figure["application/vnd.plotly.v1+json"]
    assert picture.caption[:20] in finding.data and figure["text/plain"] == picture.alt
    assert len(drawn["data"]) == len(picture.figure.data) and "VGG11 on CIFAR-10" in drawn["layout"]["title"]["text"]
    assert picture.figure.layout.title.text is None  # on a page a heading stands above it


def test_seconds_stand_on_a_logarithmic_axis_with_no_interval_and_no_standards(tmp_path):
    known = {"OTFusion": 1.5, "Git-Re-Basin": 0.25, "KF-Linear, uniform": 120.0}
    add(tmp_path, "runtime-vgg", [made(row, column="seconds", value=seconds) for row, seconds in known.items()])
    picture = beside_the_paper(table("runtime-vgg", runs=tmp_path).column(), LIGHT)
    ours, marks = trace(picture, "ours (small)")
    assert ours == known and set(marks.error_x.array) == {0.0}
    assert (picture.figure.layout.xaxis.type, picture.figure.layout.xaxis.title.text) == ("log", "seconds")
    low, high = picture.figure.layout.xaxis.range
    assert 10**low < 0.25 and 10**high > 120
    assert not any("our" in note.text for note in picture.figure.layout.annotations)


def test_rows_are_drawn_over_columns_the_paper_beside_ours(tmp_path):
    names = ("1k samples", "5k samples")
    add(tmp_path, "fusion-set-size", [made("KF-Gradient, uniform", 60, column=name) for name in names])
    shown = table("fusion-set-size", runs=tmp_path)
    columns = [shown.column(name) for name in names]
    picture = across(columns, ["KF-Gradient, uniform", "KF-Linear, uniform"], DARK)
    drawn = {(each.name, each.xaxis): tuple(each.y) for each in picture.figure.data}
    assert drawn == {("KF-Gradient, uniform", "x"): (73.2, 76.1), ("KF-Gradient, uniform", "x2"): (60, 60)}
    unmeasured = table("widths", runs=tmp_path / "none").column("1x, 1x")
    wider = across([*columns, unmeasured], ["KF-Gradient, uniform"], DARK, "samples")
    assert all(len(trace.x) == 2 for trace in wider.figure.data)  # no empty places
    assert wider.figure.layout.xaxis.title.text == "samples"
    assert "1k samples 60.0\N{NO-BREAK SPACE}% (paper 73.2" in picture.caption
    with pytest.raises(ValueError, match="nothing is measured"):
        across(columns, ["KF-Linear, uniform"], DARK)


def test_a_kept_histogram_says_how_many_neurons_hardly_count():
    picture = kept_histograms({"conductance": {"counts": [30, 10], "edges": [0.0, 0.1, 2.1]}}, LIGHT)
    (bars,) = picture.figure.data
    assert list(bars.y) == [30, 10] and list(bars.width) == pytest.approx([0.1, 2.0])
    assert "75.0\N{NO-BREAK SPACE}%" in picture.caption
