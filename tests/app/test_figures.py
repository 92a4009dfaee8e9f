"""Figures: what is drawn is what was measured, and the words say it."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from retrofit_app import figures
from retrofit_app.figures import DARK, LIGHT, Network
from retrofit_app.figures.classes import class_sources
from retrofit_app.figures.losses import columns_of
from retrofit_app.figures.neurons import coloured_clusters, counterparts
from retrofit_app.figures.palette import shade
from retrofit_app.figures.plane import ALONE, OTHER, marks
from retrofit_core.fusion.results import LevelReport, frame
from tests.marks import each_case

from .test_diagnosis import course

NETWORKS = [
    Network("network A", "parent", 49.6, [100.0, 0.0]),
    Network("ensemble", "reference", 95.8, [97.0, 94.0]),
    Network("KF-Linear", "fused", 93.0, [92.0, None]),
]


def level(points: np.ndarray, labels: list[int], scores: list[float] | None = None, widths=(4, 4)) -> LevelReport:
    """A report whose Gram matrix is that of the points."""
    x = torch.tensor(points)
    return LevelReport(
        "features.0",
        "Linear",
        tuple(widths),
        max(labels) + 1,
        10,
        torch.tensor(scores or [1.0] * len(labels)),
        torch.tensor(labels),
        x @ x.T,
        1.0,
        0.1,
        0.05,
        0.0,
        1.0,
        "primal",
        {},
    )


def test_cells_of_classes_say_what_was_measured_and_a_class_without_samples_is_a_dash():
    names = ["immature granulocytes", "?"]
    networks = [*NETWORKS, Network("B", "parent", 50.0, [100 * 5932 / 5949, 0.0])]
    picture = class_sources([], networks, names, LIGHT)
    cells, words = picture.figure.data
    assert list(words.text) == ["100", "0", "97", "94", "92", "–", "99.7", "0"]  # nearly all does not read as all
    places = dict(zip(zip(words.x, words.y, strict=True), words.text, strict=True))
    for name, row in zip(cells.y, cells.z, strict=True):
        for column, value in zip(cells.x, row, strict=True):
            assert places[column, name] == ("–" if value is None or value != value else figures.share(value, 0))
    assert list(picture.figure.layout.xaxis.ticktext) == ["immature granulocytes", "“?”"]  # signs in quotes


def test_a_tile_names_what_a_network_knows_and_escapes_names():
    seen = figures.Tile("Network A", "50.0 %", "± 5.2", "saw 1 of 3", "parent", [99.0, 0.0, 3.0], [True, False, False])
    other = figures.Tile("Fused", "90.0 %", "", "one network", "fused", [100.0, None, 3.0])
    html = figures.tiles([[seen, other], []], ["<b>", "1", "2"], LIGHT)
    assert "<b></b>" not in html and "&lt;b&gt;" in html
    assert "Network A: 50.0 % ± 5.2, saw 1 of 3; knows 1 of 3 classes" in html and "no test images" in html
    assert seen.guessed == [False, False, True]  # a hollow column, which the caption explains
    assert html.count("class='bar hollow'") == 1 and html.count("class='known'") == 1
    bare = figures.tiles([[figures.Tile("Plain average", "–", "", "not possible", "reference")]], ["0"], LIGHT)
    assert "columns" not in bare and "Plain average: –, not possible." in bare


def test_an_interval_holds_the_true_accuracy_as_often_as_it_says():
    random, images = np.random.default_rng(0), 400
    for truth in (50.0, 90.0, 99.0):
        drawn = 100 * random.binomial(images, truth / 100, 20_000) / images
        inside = np.mean([abs(value - truth) <= figures.margin(value, images) for value in drawn])
        assert 0.92 < inside < 0.98, (truth, inside)
    assert figures.margin(100.0, images) == pytest.approx(300 / images)  # the rule of three
    assert figures.margin(50.0, 0) == np.inf and figures.interval(50.0, 0) == ""


def trace_of(picture: figures.Picture, kind: str) -> Any:
    return next(trace for trace in picture.figure.data if trace.type == kind)


def test_a_level_shows_its_points_its_interval_and_its_error(shipped):
    table, facts = frame(shipped.levels), course([90.0, 89.8, 80.5, 86.0, 86.0], 1000)
    picture = figures.level_losses(table, facts, LIGHT, chosen=0)
    bars, cells = trace_of(picture, "bar"), trace_of(picture, "heatmap")
    assert list(bars.y) == pytest.approx([-0.2, -9.3, 5.5, 0.0])
    assert [opacity == 1 for opacity in bars.marker.opacity] == [
        figures.difference(b, a).clear for a, b in pairwise(facts)
    ]
    low, high = figures.difference(facts[2], facts[1]).ends
    assert (bars.y[1] - bars.error_y.arrayminus[1], bars.y[1] + bars.error_y.array[1]) == pytest.approx((low, high))
    assert list(cells.z[0]) == pytest.approx(list(100 * (table["grouping share"] + table["approximation share"])))
    assert f"Level 2 ({table['level'][1]}) loses 9.3" in picture.caption and "regains 5.5" in picture.caption
    clicks = [trace for trace in picture.figure.data if trace.type == "scatter" and trace.customdata is not None]
    assert {int(row[0]) for trace in clicks for row in trace.customdata} == {0, 1, 2, 3} and len(clicks) == 2
    assert "has the largest error" in figures.level_losses(table, [], LIGHT).caption  # accuracy was not measured
    alone = table.assign(
        widths=[widths.split(" + ")[0] for widths in table["widths"]]
    )  # a network that was made smaller
    for drawn, start in ((picture, "ensemble"), (figures.level_losses(alone, facts, LIGHT), "network A")):
        assert drawn.figure.layout.annotations[0].text.startswith(f"points of accuracy: {start} 90.0 → fused 86.0")


def test_many_levels_are_blocks_of_which_the_chosen_ones_is_open():
    names = [f"blocks.{block}.{part}" for block in range(4) for part in ("q", "k", "v", "out", "fc")]
    assert columns_of([*names, "head"], 7) == [
        (0, 5),
        (5, 6),
        (6, 7),
        (7, 8),
        (8, 9),
        (9, 10),
        (10, 15),
        (15, 20),
        (20, 21),
    ]
    assert columns_of([f"features.{index}" for index in range(13)], 0)[3:6] == [(3, 4), (4, 8), (8, 12)]
    assert columns_of(names[:11], 0) == [(level, level + 1) for level in range(11)]


@each_case(("widths", "groups"), [((8, 8), 9), ((512, 512), 512), ((2048, 2048), 2048), ((16,) * 8, 40)])
def test_a_ribbon_holds_every_neuron_and_its_bands_are_shares_of_targets(widths, groups):
    random, neurons = np.random.default_rng(0), sum(widths)
    labels = np.concatenate([np.arange(groups), random.integers(0, groups, neurons - groups) // 3])
    weights = random.exponential(size=neurons)
    grouped = figures.Neurons("x", widths, np.zeros((neurons, 2)), np.array([0.5, 0.2]), labels, groups, weights)
    node, link = (trace_of(figures.ribbon(grouped, LIGHT), "sankey")[part] for part in ("node", "link"))
    assert len(node.label) <= len(widths) + 10 and len(set(node.color[: len(widths)])) == len(widths)
    assert sum(link.value) == pytest.approx(weights.sum(), rel=1e-3)
    largest = int(node.label[len(widths)].split()[1].rstrip(":"))
    assert grouped.counts[largest] == grouped.counts.max()
    for parent, end, value in zip(link.source, link.target, link.value, strict=True):
        if end == len(widths):
            assert value == pytest.approx(weights[(labels == largest) & (grouped.parents == parent)].sum(), abs=1e-3)


def colours_of(picture: figures.Picture) -> dict[int, str]:
    """The colour of every neuron."""
    return {
        int(row[0]): colour
        for trace in marks_of(picture)
        for row, colour in zip(trace.customdata, trace.marker.color, strict=True)
    }


def test_the_six_largest_clusters_have_a_colour_each():
    labels = np.repeat(np.arange(9), [6, 5, 5, 4, 3, 2, 2, 2, 1]).tolist()
    weights = [1.0] * 25 + [2.0, 2.0] + [1.0] * 3  # of the three pairs the second is the most important
    grouped = seen(labels, weights)
    assert coloured_clusters(grouped) == [0, 1, 2, 3, 4, 6]
    colours = colours_of(figures.clusters(grouped, LIGHT))
    by_cluster = {cluster: {colours[row] for row in np.flatnonzero(grouped.labels == cluster)} for cluster in range(9)}
    assert [by_cluster[cluster] for cluster in coloured_clusters(grouped)] == [
        {LIGHT.ink},
        *({hue} for hue in LIGHT.clusters),
    ]
    assert by_cluster[5] == by_cluster[7] == {LIGHT.grey} and by_cluster[8] == {LIGHT.paper}  # alone: hollow


def test_the_same_colour_is_the_same_cluster_under_another_score():
    reference = seen([0, 0, 0, 0, 1, 1, 1, 2, 2, 3])
    other = seen([2, 2, 2, 1, 1, 0, 0, 3, 4, 5])  # 0 is now 2, 1 is now 0, 2 fell apart
    assert counterparts(reference, other).tolist() == [1, -1, 0, -1, -1, -1]
    assert marks(other, reference).kinds[[0, 5, 3, 7]].tolist() == [0, 1, OTHER, ALONE]


def marks_of(picture: figures.Picture) -> list[Any]:
    return [trace for trace in picture.figure.data if trace.customdata is not None]


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@each_case("palette", [LIGHT, DARK])
def test_text_and_marks_have_contrast_and_lettering_can_be_read_on_every_shade(palette):
    assert min(contrast(*shade(share / 200, palette)) for share in range(201)) >= 4.5
    networks = [Network("A", "parent", 50.0, [share, 100 - share]) for share in (0.0, 30.0, 45.0, 61.0)]
    cells, words = class_sources([], networks, ["0", "1"], palette).figure.data
    expected = [shade(value / 100, palette)[1] for row in cells.z for value in row]
    assert list(words.textfont.color) == expected and len(set(expected)) == 2
    assert all(contrast(colour, palette.paper) >= 4.5 for colour in (palette.ink, palette.muted, palette.accent))
    assert all(contrast(colour, palette.paper) >= 3 for colour in (palette.grey, palette.grouping))
    # Light colours stand out on white by their outline.
    assert palette is DARK or contrast(palette.outline, palette.paper) >= 3
    for colours in (palette.clusters, palette.networks):
        assert palette is LIGHT or all(contrast(colour, palette.paper) >= 3 for colour in colours)


def seen(labels: list[int], weights: list[float] | None = None) -> figures.Neurons:
    points = np.random.default_rng(1).normal(size=(len(labels), 2))
    half = len(labels) // 2
    return figures.Neurons(
        "x",
        (half, len(labels) - half),
        points,
        np.array([0.5, 0.25]),
        np.array(labels),
        max(labels) + 1,
        np.array(weights or [1.0] * len(labels)),
    )


def test_r2_of_a_fit():
    targets = np.array([1.0, 2.0, 3.0])
    assert figures.explained(targets, targets) == 1
    assert figures.explained(targets, targets[::-1]) == pytest.approx(-3)
    assert figures.explained(np.ones(3), targets) is None
    assert "no R²" in figures.fit_scatter(np.ones(3), targets, "Fused neuron 0", LIGHT).alt


def test_the_kept_epoch_is_the_best_on_the_rows_set_aside():
    curve = [{"epoch": index, "loss": 1.0, "validation": value} for index, value in enumerate([1.0, 0.4, 0.5])]
    assert "epoch 1 is kept" in figures.loss_curve(curve, LIGHT).caption


@each_case(
    ("value", "digits", "reads"),
    [
        (100 * 5932 / 5949, 0, "99.7"),
        (99.96, 1, "99.96"),
        (100 * (1 - 1e-6), 1, "over 99.99"),
        (100.0, 1, "100.0"),
        (0.04, 0, "0.04"),
        (1e-5, 1, "under 0.01"),
        (0.0, 0, "0"),
        (53.25, 0, "53"),
    ],
)
def test_a_share_reads_all_or_nothing_only_if_it_is(value, digits, reads):
    assert figures.share(value, digits) == reads and figures.percent(value, digits) == f"{reads}\N{NO-BREAK SPACE}%"


@each_case(
    ("facts", "says"),
    [
        ({}, None),
        ({"stream": "features.0"}, "A residual stream begins here"),
        ({"stream": "conv_1"}, r"begins at **conv\_1**, and shares its grouping."),
        ({"stream": "conv", "missing_error": 4.0, "approximation_error": 1.0, "energy": 8.0}, "50.0 % of the neurons'"),
        ({"grouping": {"heads": [0, 1, 1, 0]}}, "Its heads are grouped by what they attend to"),
        ({"grouping": {"parts": 4}}, "in the 4 parts of a grouped convolution"),
        ({"grouping": {"kinds": 2}}, "of 2 kinds that cannot be exchanged"),
    ],
)
def test_a_level_says_what_its_grouping_is_tied_to_and_what_it_repaired(facts, says):
    report = replace(level(np.eye(4), [0, 1, 0, 1]), **facts)
    words = f"{figures.group_words(report)} {figures.stream_words(report)}".strip().replace("\N{NO-BREAK SPACE}", " ")
    assert (says in words and (", 12.5 % after them." in words) == ("energy" in facts)) if says else words == ""
