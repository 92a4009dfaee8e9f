"""Figures: what is drawn is what was measured, and the words say it."""

import json
import re

import numpy as np
import pytest
import torch
from retrofit_app import figures
from retrofit_app.figures import DARK, LIGHT, Network

from retrofit_core.results import LevelReport, frame

NETWORKS = [
    Network("network A", "parent", 49.6, [100.0, 0.0]),
    Network("ensemble", "reference", 95.8, [97.0, 94.0]),
    Network("KF-Linear", "fused", 93.0, [92.0, None], chosen=True),
]


def level(points: np.ndarray, labels: list[int], scores: list[float] | None = None, widths=(4, 4)) -> LevelReport:
    """A report whose Gram matrix is that of the points."""
    x = torch.tensor(points)
    return LevelReport(
        "features.0", "Linear", tuple(widths), max(labels) + 1, 10, torch.tensor(scores or [1.0] * len(labels)),
        torch.tensor(labels), x @ x.T, 1.0, 0.1, 0.05, 0.0, 1.0, "primal", {},
    )  # fmt: skip


@pytest.fixture
def points() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(8, 3)) * np.array([3.0, 1.0, 0.1])


def test_accuracies_are_drawn_and_said():
    picture = figures.accuracy_bars(NETWORKS, LIGHT)
    assert list(picture.figure.data[0].x) == [49.6, 95.8, 93.0]
    assert "network A 49.6, ensemble 95.8, KF-Linear 93.0" in picture.alt
    # Not by colour alone: references are hatched, the chosen run is bold and framed.
    assert picture.figure.data[0].marker.pattern.shape == ("", "/", "")
    assert picture.figure.data[0].y[2] == "<b>KF-Linear</b>"


def test_a_class_without_samples_is_a_dash():
    picture = figures.class_grid(NETWORKS, ["0", "1"], LIGHT)
    assert picture.figure.data[0].text[2] == ["92", "–"]
    assert "network A fails on 1" in picture.alt and "ensemble is weakest on 1 with 94" in picture.alt


def test_class_card_names_what_a_network_knows_and_escapes_names():
    html = figures.class_card("Network A", "50 %", [100.0, 0.0], ["<b>", "1"], LIGHT, seen=[True, False])
    assert "<b></b>" not in html and "&lt;b&gt;" in html
    assert "knows 1 of 2 classes" in html


def test_errors_stack_to_the_reports_numbers(shipped):
    table = frame(shipped.levels)
    picture = figures.level_errors(table, LIGHT, chosen=1)
    grouping, approximation = picture.figure.data[:2]
    assert np.allclose(np.array(grouping.y) / 100, table["grouping share"])
    assert np.allclose(np.array(approximation.y) / 100, table["approximation share"])
    assert approximation.marker.pattern.shape == "/"
    worst = int((table["grouping share"] + table["approximation share"]).argmax())
    assert f"Level {worst + 1} " in picture.alt


def test_densest_is_the_largest_cluster_and_on_a_tie_the_tightest():
    points = np.array([[0.0, 0], [2, 0], [5, 0], [5.1, 0], [9, 9]])
    assert figures.densest_cluster(points, np.array([0, 0, 1, 1, 2]), np.ones(5)) == 1
    assert figures.densest_cluster(points, np.array([0, 0, 0, 1, 1]), np.ones(5)) == 0
    assert figures.densest_cluster(points, np.arange(5), np.ones(5)) is None


def test_neighbouring_clusters_differ_in_hue():
    # A chain of pairs: with at most eight linked neighbours and six hues the two nearest always differ.
    x = np.repeat(np.arange(30.0) ** 1.1, 2)
    labels = np.repeat(np.arange(30), 2)
    hue = figures.neighbour_hues(np.column_stack([x, 0 * x]), labels, np.ones(60), 6)
    assert set(hue) == set(range(6))
    assert all(hue[i] != hue[i + 1] for i in range(29))
    assert (hue == figures.neighbour_hues(np.column_stack([x, 0 * x]), labels, np.ones(60), 6)).all()


def test_cluster_picture_shows_each_neuron_once_with_its_number(points):
    picture = figures.clusters(level(points, [0, 0, 0, 1, 1, 2, 3, 3]), LIGHT)
    marks = [trace for trace in picture.figure.data if trace.customdata is not None]
    assert sorted(int(row[0]) for trace in marks for row in trace.customdata) == list(range(8))
    symbols = {
        int(row[0]): symbol
        for trace in marks
        for row, symbol in zip(trace.customdata, trace.marker.symbol, strict=True)
    }
    assert symbols[0].startswith("circle") and symbols[4].startswith("diamond")  # shape is the parent
    ink = [trace for trace in marks if LIGHT.ink in trace.marker.color]
    assert sorted(int(row[0]) for trace in ink for row in trace.customdata) == [0, 1, 2]
    assert "densest 3" in picture.caption and "1 alone" in picture.caption
    assert "4 + 4 neurons in 4 clusters" in picture.alt


def test_outliers_stand_open_on_the_border_and_are_counted():
    points = np.random.default_rng(0).normal(size=(40, 2))
    points[0] = [500, 0]
    picture = figures.clusters(level(points, list(range(20)) * 2, widths=(20, 20)), LIGHT)
    opened = [row for trace in picture.figure.data if trace.customdata is not None
              for row, symbol in zip(trace.customdata, trace.marker.symbol, strict=True) if symbol.endswith("-open")]  # fmt: skip
    assert 0 in [int(row[0]) for row in opened]
    assert f"{len(opened)} off-scale" in picture.caption
    low, high = picture.figure.layout.xaxis.range
    assert high - low < 100


def test_area_is_importance(points):
    picture = figures.clusters(level(points, [0, 0, 1, 1, 2, 2, 3, 3], [1.0, 4.0] * 4), LIGHT)
    sizes = {int(row[0]): size for trace in picture.figure.data if trace.customdata is not None
             for row, size in zip(trace.customdata, trace.marker.size, strict=True)}  # fmt: skip
    assert sizes[1] / sizes[0] == pytest.approx(2.0)


@pytest.mark.parametrize("labels", [[0] * 8, list(range(8))])
def test_one_cluster_and_no_cluster_can_be_drawn(points, labels):
    assert figures.clusters(level(points, labels), DARK).alt


@pytest.mark.parametrize("scores", [[0.0] * 8, [1e-30] * 8])
def test_zero_importance_can_be_drawn(points, scores):
    assert figures.clusters(level(points, [0, 0, 1, 1, 2, 2, 3, 3], scores), DARK).alt


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_marks_have_contrast(palette):
    assert all(contrast(colour, palette.paper) >= 4.5 for colour in (palette.ink, palette.muted, palette.accent))
    assert contrast(palette.grey, palette.paper) >= 3
    # Two light hues stand out on white by their outline.
    assert palette is DARK or contrast(palette.outline, palette.paper) >= 3
    assert palette is LIGHT or all(contrast(hue, palette.paper) >= 3 for hue in palette.hues)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_figures_name_no_other_host(shipped, palette):
    pictures = [figures.accuracy_bars(NETWORKS, palette), figures.clusters(shipped.levels[0], palette)]
    for picture in pictures:
        assert not re.search(r"https?://", json.dumps(picture.figure.to_plotly_json(), default=str))
