"""The paper's numbers beside ours: what is drawn is what the columns say."""

from dataclasses import replace

import pytest

from retrofit_app.figures import LIGHT
from retrofit_app.figures.histograms import kept_histograms
from retrofit_app.figures.paper import differences
from retrofit_app.figures.paper.cells import cells as table_of_cells
from retrofit_core.experiments import table
from retrofit_core.experiments.results import add
from tests.experiments.made_up import of_rows

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
    html = table_of_cells([mixed], list(ROWS), LIGHT, {"2-way": ""}, {"2-way": {}})
    assert "<small>evening</small> 99.0" in html and "<b>80.0</b>" in html  # the best is one of those at one scale
    assert trace(differences(mixed, LIGHT), "ours, the paper's sign")[0]["KF-Linear \N{MINUS SIGN} best parent"] == 20


def test_a_column_without_numbers_is_refused_in_a_sentence(empty):
    with pytest.raises(ValueError, match="vgg11-noniid, 2-way"):
        differences(empty, LIGHT)


@pytest.mark.slow
def test_a_picture_shows_itself_in_a_notebook(column, monkeypatch):
    display = pytest.importorskip("IPython.display")
    shown = []
    monkeypatch.setattr(display, "display", lambda content, **options: shown.append(content))
    picture = differences(column, LIGHT)
    picture._ipython_display_()
    finding, figure = shown
    drawn = figure["application/vnd.plotly.v1+json"]
    assert picture.caption[:20] in finding.data and figure["text/plain"] == picture.alt
    assert len(drawn["data"]) == len(picture.figure.data) and "VGG11 on CIFAR-10" in drawn["layout"]["title"]["text"]
    assert picture.figure.layout.title.text is None  # on a page a heading stands above it


def test_a_kept_histogram_says_how_many_neurons_hardly_count():
    picture = kept_histograms({"conductance": {"counts": [30, 10], "edges": [0.0, 0.1, 2.1]}}, LIGHT)
    (bars,) = picture.figure.data
    assert list(bars.y) == [30, 10] and list(bars.width) == pytest.approx([0.1, 2.0])
    assert "75.0\N{NO-BREAK SPACE}%" in picture.caption
