"""The paper's numbers beside ours: what is drawn is what the columns say."""

from dataclasses import replace
from html import unescape

import pandas as pd
import pytest

from retrofit_app.figures import DARK, LIGHT
from retrofit_app.figures.across import across
from retrofit_app.figures.histograms import kept_histograms
from retrofit_app.figures.paper import beside_in_parts, beside_the_paper, differences, rank_against_rank
from retrofit_app.figures.paper.cells import cells as table_of_cells
from retrofit_app.figures.quantities import quantity
from retrofit_app.figures.ticks import tick_grid
from retrofit_core.experiments import table
from retrofit_core.experiments.bundles import Bundle, write_bundle
from retrofit_core.experiments.report_words import METRICS
from tests.experiments.made_up import bundle_of, cells_of, knowing
from tests.marks import each_case

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
def column(tmp_path, monkeypatch):
    """Made-up numbers: LP below the best parent, where the paper has it above."""
    monkeypatch.setattr("retrofit_core.experiments.scales.is_on_disk", lambda name: True)
    cells = [cell for cell in cells_of("vgg11-noniid", "small") if cell.column == "2-way" and cell.row in ROWS]
    bundle = bundle_of(cells, lambda cell: {"known": knowing(ROWS[cell.row])})
    write_bundle(tmp_path / "bundle.json", Bundle(bundle.results))
    return table("vgg11-noniid", runs=tmp_path / "runs", results=tmp_path / "bundle.json").column("2-way")


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.setattr("retrofit_core.experiments.scales.is_on_disk", lambda name: True)
    return table("vgg11-noniid", runs=tmp_path / "runs").column("2-way")


def trace(picture, name: str):
    (found,) = (each for each in picture.figure.data if each.name and each.name.startswith(name))
    return dict(zip(found.y, found.x, strict=True)), found


@pytest.mark.slow
@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_each_row_has_the_papers_number_and_ours_with_its_interval(column, palette):
    picture = beside_the_paper(column, palette)
    ours, marks = trace(picture, "ours (small)")
    paper, _ = trace(picture, "paper")
    assert ours == ROWS
    assert paper["KF-Linear, conductance"] == 86.6
    assert "ZipIt" not in paper  # the paper's table lacks it
    reach = dict(zip(marks.y, marks.error_x.array, strict=True))
    assert reach["KF-Linear, conductance"] == pytest.approx(196 * (0.8 * 0.2 / 100) ** 0.5)
    assert (
        "KF-Linear, conductance has 80.0 %, +20.0 against the best parent and \N{MINUS SIGN}10.0 against"
        in picture.caption
    )
    assert "LP 30.0 (paper 85.5)" in picture.alt


def test_rows_stand_in_groups_the_papers_best_first(column):
    names = list(beside_the_paper(column, LIGHT).figure.layout.yaxis.categoryarray)
    assert names == [
        "Parent 0",
        "Parent 1",
        "Ensemble",
        "KF-Linear, conductance",
        "LP",
        "KF-Linear, uniform",
        "OTFusion, uniform",
        "ZipIt",
    ]
    assert list(beside_the_paper(column, LIGHT, ["LP", "Ensemble"]).figure.layout.yaxis.categoryarray) == [
        "LP",
        "Ensemble",
    ]


def test_a_long_column_is_several_pictures_of_at_most_20_rows(empty, tmp_path):
    cells = [cell for cell in cells_of("vgg11-noniid", "small", 1) if cell.column == "2-way"]
    write_bundle(tmp_path / "all.json", bundle_of(cells, lambda cell: {"accuracy": 50.0}))
    column = table("vgg11-noniid", runs=tmp_path / "runs", results=tmp_path / "all.json").column("2-way")
    pictures = beside_in_parts(column, LIGHT)
    rows = [list(map(unescape, picture.figure.layout.yaxis.categoryarray)) for picture in pictures]
    assert max(map(len, rows)) <= 20
    assert sorted(row for part in rows for row in part) == sorted(line.row for line in column.lines)
    papers = {line.row for line in column.lines if line.paper is not None}
    assert [{row in papers for row in part} for part in rows] == [{True}, {True}, {False}, {False}]
    assert [picture.title.split(": ")[1] for picture in pictures][1:3] == [
        "ours beside the paper's, 2 of 2",
        "rows that the paper lacks, 1 of 2",
    ]
    # The standards are those of the column, wherever their own rows stand.
    assert all(any(note.text == "our ensemble" for note in picture.figure.layout.annotations) for picture in pictures)
    assert beside_in_parts(empty, LIGHT) == []


def test_ranks_are_those_of_the_methods_that_both_have_under_headings_of_their_own(column):
    picture = rank_against_rank(column, LIGHT)
    places = {each.hovertemplate.split("<br>")[0]: tuple(each.y) for each in picture.figure.data}
    assert places == {
        "Ensemble": (1, 1),
        "KF-Linear, conductance": (2, 2),
        "LP": (3, 4),
        "KF-Linear, uniform": (4, 3),
        "OTFusion, uniform": (5, 5),
    }
    assert "rank correlation 0.97; LP moves most, by 1 place" in picture.caption
    notes = picture.figure.layout.annotations
    headings = {note.text: (note.x, note.xanchor) for note in notes if note.yref == "paper"}
    assert headings == {"paper": (0, "right"), "ours": (1, "left")}
    assert {(note.x, note.xanchor) for note in notes} == set(headings.values())


def test_differences_say_whether_the_sign_is_the_papers_and_draw_no_opponent_that_loses_by_dozens(column):
    picture = differences(column, LIGHT)
    agreed, _ = trace(picture, "ours, the paper's sign")
    assert agreed["KF-Linear \N{MINUS SIGN} best parent"] == 20
    assert agreed["KF-Linear \N{MINUS SIGN} Ensemble"] == -10
    assert not trace(picture, "ours, the other sign")[0]
    claims = {f"{claim.left} {claim.right}" for claim in column.claims if claim.ours is not None}
    names = [name.split(" \N{MINUS SIGN} ")[1] for name in picture.figure.layout.yaxis.categoryarray]
    assert "KF-Linear OTFusion" in claims and names == ["best parent", "Ensemble", "LP", "KF-Linear, uniform"]
    assert "5 have its sign. Drawn are 4" in picture.caption
    alone = replace(column, claims=tuple(c for c in column.claims if c.right == "OTFusion"))
    only = differences(alone, LIGHT)
    assert list(only.figure.layout.yaxis.categoryarray) == ["KF-Linear \N{MINUS SIGN} OTFusion"]


def test_rows_at_another_scale_are_marked_and_in_no_order(column, tmp_path, monkeypatch):
    cells = [cell for cell in cells_of("vgg11-noniid", "evening", 1) if cell.column == "2-way" and cell.row in FULLER]
    write_bundle(tmp_path / "fuller.json", bundle_of(cells, lambda cell: {"known": knowing(FULLER[cell.row])}), True)
    results = [tmp_path / "bundle.json", tmp_path / "fuller.json"]
    mixed = table("vgg11-noniid", runs=tmp_path / "runs", results=results).column("2-way")
    picture = beside_the_paper(mixed, LIGHT)
    fuller, marks = trace(picture, "ours (evening)")
    assert fuller == {"LP (evening)": 99, "OTFusion, uniform (evening)": 55}
    assert marks.marker.symbol == "square"
    assert trace(picture, "ours (small)")[0] == {row: ROWS[row] for row in ROWS if row not in FULLER}
    assert "(scale small)" in picture.caption
    html = table_of_cells([mixed], list(ROWS), LIGHT, {"2-way": ""}, {"2-way": {}})
    assert "<small>evening</small> 99.0" in html and "<b>80.0</b>" in html  # the best is one of those at one scale
    assert not any("LP" in note.text for note in rank_against_rank(mixed, LIGHT).figure.layout.annotations)
    assert trace(differences(mixed, LIGHT), "ours, the paper's sign")[0]["KF-Linear \N{MINUS SIGN} best parent"] == 20


@each_case(
    ("name", "column_name", "row", "kind", "symbol"),
    [
        ("vgg11-noniid", "2-way", "KF-Linear, uniform", "ours, the other sign", "x"),  # not by colour alone
        ("fusion-set-size", "1k samples", "KF-Gradient, uniform", "ours, 0 in the paper", "square-open"),  # no verdict
    ],
)
def test_another_sign_and_one_that_is_0_in_the_paper_have_marks_of_their_own(
    tmp_path, monkeypatch, name, column_name, row, kind, symbol
):
    rows = {"Parent 0": 90, "Parent 1": 40, row: 50}
    known = measured(tmp_path, monkeypatch, name, lambda row: {"known": knowing(rows[row])} if row in rows else None)
    picture = differences(known.column(column_name), LIGHT)
    drawn, marks = trace(picture, kind)
    (difference,) = [value for pair, value in drawn.items() if pair.endswith("best parent")]
    assert difference == -40 and marks.marker.symbol == symbol


@pytest.mark.slow
@pytest.mark.parametrize("draw", [beside_the_paper, rank_against_rank, differences])
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
    assert finding.data.startswith("**KF-Linear, conductance has 80.0 %")
    assert figure["text/plain"] == picture.alt
    drawn = figure["application/vnd.plotly.v1+json"]
    assert len(drawn["data"]) == len(picture.figure.data)
    title = drawn["layout"]["title"]["text"]
    assert title == "<b>VGG11 on CIFAR-10, non-IID splits, 2-way: ours beside the paper&#x27;s</b>"
    assert drawn["layout"]["height"] > picture.figure.layout.height  # the title has room of its own
    assert picture.figure.layout.title.text is None  # on a page a heading stands above it


def measured(tmp_path, monkeypatch, name: str, value):
    """A table whose cells' units have the metrics that `value` says of a row."""
    monkeypatch.setattr("retrofit_core.experiments.scales.is_on_disk", lambda name: True)
    bundle = bundle_of(cells_of(name, "small"), lambda cell: value(cell.row))
    write_bundle(tmp_path / "bundle.json", bundle)
    return table(name, runs=tmp_path / "runs", results=tmp_path / "bundle.json")


SECONDS = {"OTFusion": 1.5, "Git-Re-Basin": 0.25, "KF-Linear, uniform": 120.0}


def test_a_logarithmic_axis_within_a_power_of_ten_has_its_numbers_in_full():
    """Plotly's own would be "5", "10 s", "2"."""
    shown = quantity("processor_seconds").axis([5.1, 22.0])
    assert shown["ticktext"] == [f"{seconds}\N{NO-BREAK SPACE}s" for seconds in (5, 10, 20, 30)]
    assert shown["tickvals"] == pytest.approx([5, 10, 20, 30]) and shown["range"][1] - shown["range"][0] < 1
    assert "ticktext" not in quantity("processor_seconds").axis([0.9, 100.0])


def test_seconds_stand_on_a_logarithmic_axis_with_no_interval_and_no_standards(tmp_path, monkeypatch):
    def seconds(row):
        return {"seconds": SECONDS[row]} if row in SECONDS else None

    column = measured(tmp_path, monkeypatch, "runtime-vgg", seconds).column()
    picture = beside_the_paper(column, LIGHT)
    ours, marks = trace(picture, "ours (small)")
    assert ours == SECONDS
    assert set(marks.error_x.array) == {0.0}
    assert marks.name == "ours (small)"  # one seed has no deviation
    assert picture.figure.layout.xaxis.type == "log"
    assert picture.figure.layout.xaxis.title.text == "seconds"
    low, high = picture.figure.layout.xaxis.range
    assert 10**low < 0.25 and 10**high > 120
    assert not any("our" in note.text for note in picture.figure.layout.annotations)
    assert "From Git-Re-Basin 0.250" in picture.caption


def test_a_number_of_the_paper_that_is_zero_is_left_out_of_a_logarithmic_axis(tmp_path, monkeypatch):
    shown = measured(tmp_path, monkeypatch, "runtime-end-to-end", lambda row: {"seconds": 5.0})
    paper, _ = trace(beside_the_paper(shown.column("fine-tuning"), LIGHT), "paper")
    assert 0 not in paper.values()


def test_indices_have_two_digits_and_an_axis_up_to_one(tmp_path, monkeypatch):
    scores = ("uniform", "conductance", "deeplift")
    agreement = [
        {"first": first, "second": second, "mean": 0.25, "least": 0.2, "most": 0.3}
        for first in scores
        for second in scores
    ]
    shown = measured(tmp_path, monkeypatch, "neuron-importance", lambda row: {"agreement": agreement})
    picture = beside_the_paper(shown.column("conductance"), LIGHT, ["adjusted Rand index to uniform"])
    assert list(picture.figure.layout.xaxis.range) == [0, 1]
    assert picture.caption == "Adjusted Rand index to uniform 0.25 (paper 0.74) (scale small)."


def test_a_best_row_that_alone_the_paper_prints_stands_with_its_number(tmp_path, monkeypatch):
    rows = {"Parent 0": 60, "Ensemble": 70, "LP": 50, "KF-Linear, uniform": 62, "KF-Linear, conductance": 80}
    shown = measured(
        tmp_path, monkeypatch, "bloodmnist", lambda row: {"known": knowing(rows[row])} if row in rows else None
    )
    names = list(beside_the_paper(shown.column(), LIGHT).figure.layout.yaxis.categoryarray)
    assert names == ["Parent 0", "Ensemble", "KF-Linear, best", "LP", "KF-Linear, uniform"]
    ranked = rank_against_rank(shown.column(), LIGHT)
    assert {each.hovertemplate.split("<br>")[0] for each in ranked.figure.data} == {
        "Ensemble",
        "LP",
        "KF-Linear, best",
    }


def test_rows_are_drawn_over_columns_the_paper_beside_ours(tmp_path, monkeypatch):
    shown = measured(
        tmp_path,
        monkeypatch,
        "fusion-set-size",
        lambda row: {"known": knowing(60)} if row == "KF-Gradient, uniform" else None,
    )
    columns = [shown.column(name) for name in ("1k samples", "5k samples")]
    picture = across(columns, ["KF-Gradient, uniform", "KF-Linear, uniform"], DARK)
    drawn = {(each.name, each.xaxis): tuple(each.y) for each in picture.figure.data}
    assert drawn == {
        ("KF-Gradient, uniform", "x"): (73.2, 76.1),
        ("KF-Gradient, uniform", "x2"): (60, 60),
    }
    unmeasured = table("widths", runs=tmp_path / "none").column("1x, 1x")
    wider = across([*columns, unmeasured], ["KF-Gradient, uniform"], DARK, "samples")
    assert wider.figure.layout.xaxis.categoryarray == ("1k samples", "5k samples")  # no empty places
    assert wider.figure.layout.xaxis.title.text == "samples"
    low, high = picture.figure.layout.yaxis.range
    assert 50 < low < 60 and 76.1 < high < 90
    assert picture.caption.startswith("KF-Gradient, uniform: 1k samples 60.0\N{NO-BREAK SPACE}% (paper 73.2")
    with pytest.raises(ValueError, match="nothing is measured of these rows of fusion-set-size"):
        across(columns, ["KF-Linear, uniform"], DARK)


def test_a_row_that_a_column_lacks_leaves_a_gap_and_one_that_all_lack_is_refused(tmp_path, monkeypatch):
    rows = {"Parent 0": 40, "KF-Gradient, uniform": 60}
    shown = measured(
        tmp_path, monkeypatch, "fusion-set-size", lambda row: {"known": knowing(rows[row])} if row in rows else None
    )
    columns = [shown.column(name) for name in ("all sizes", "5k samples")]
    drawn = {(each.name, each.xaxis): tuple(each.y) for each in across(columns, list(rows), LIGHT).figure.data}
    assert drawn["Parent 0", "x2"] == (40, None)
    assert drawn["KF-Gradient, uniform", "x2"] == (None, 60)
    with pytest.raises(ValueError, match="unknown row of fusion-set-size, all sizes 'ZipIt'"):
        across(columns, ["ZipIt"], LIGHT)


def test_a_kept_histogram_says_how_many_neurons_hardly_count():
    kept = {"conductance": {"counts": [30, 10], "edges": [0.0, 0.1, 2.1]}}
    picture = kept_histograms(kept, LIGHT)
    (bars,) = picture.figure.data
    assert list(bars.y) == [30, 10]
    assert list(bars.width) == pytest.approx([0.1, 2.0])
    assert picture.caption == "Neurons below a tenth of the uniform score: Conductance 75.0\N{NO-BREAK SPACE}%."


@each_case("metric", list(METRICS))
def test_every_metric_of_a_table_is_a_quantity(metric):
    assert quantity(metric).name


def test_the_accuracy_on_a_part_has_no_interval():
    assert not quantity("part 1").is_accuracy
    assert "part 1" in quantity("part 1").name


def test_an_axis_reaches_below_zero_where_numbers_do():
    low, high = quantity("landscape barrier").axis([-0.5, 2.0])["range"]
    assert low < -0.5 and high > 2
    assert quantity("landscape loss").axis([1.0])["range"][0] == 0


def test_a_table_of_ticks_has_a_sign_in_each_cell():
    table = pd.DataFrame({"more than two models": [True, False]}, index=["KF", "HF"])
    picture = tick_grid(table, LIGHT, {True: (1, "yes"), False: (0, "")})
    _, words = picture.figure.data
    assert list(words.text) == ["yes", ""]
    assert picture.figure.layout.xaxis.ticktext == ("more than<br>two models",)
    assert picture.alt == "Table of ticks. KF: 1 of 1, HF: 0 of 1."


@each_case(
    ("name", "columns", "says", "lines"),
    [
        ("vgg11-full", 2, "2-way zero-shot", ["2-way<br>zero-shot", "2-way<br>fine-tuned"]),
        ("widths", 2, "over 1x, 1x; 0.5x, 0.5x", None),
    ],
)
def test_names_of_columns_stand_in_short_lines_and_those_with_commas_are_told_apart(
    tmp_path, monkeypatch, name, columns, says, lines
):
    known = measured(tmp_path, monkeypatch, name, lambda row: {"known": knowing(60)} if row == "Parent 0" else None)
    picture = across(known.columns[:columns], ["Parent 0"], LIGHT)
    assert says in picture.alt and (lines is None or list(picture.figure.layout.xaxis.ticktext) == lines)
