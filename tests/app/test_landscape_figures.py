"""The pictures of a landscape, as numbers."""

import dataclasses

import numpy as np
import pytest

from retrofit_app.figures import LIGHT, headline, landscape_plane, loss_path
from retrofit_app.figures.landscape import KINDS, average_words, caption
from retrofit_app.figures.landscape.scale import PAPER
from retrofit_app.figures.landscape.words import place_words, shares

from .surveys import invented


def traces(picture, kind):
    return [trace for trace in picture.figure.data if trace.type == kind]


def patterns(picture):
    return [trace.fillpattern.shape for trace in traces(picture, "scatter") if trace.fillpattern.shape]


def networks(picture):
    return next(trace for trace in traces(picture, "scatter") if trace.mode == "markers+text")


def targets(picture):
    return next(trace for trace in traces(picture, "scatter") if trace.marker.symbol == "square")


def test_contours_go_through_the_measured_points():
    survey = invented()
    for kind, measured in (("loss", survey.loss), ("accuracy", survey.accuracy)):
        (contour,) = traces(landscape_plane(survey, kind, LIGHT), "contour")
        x, y, z = (np.array(values) for values in (contour.x, contour.y, contour.z))
        for row in range(5):
            for column in range(5):
                at = z[np.abs(y - survey.ys[row].item()).argmin(), np.abs(x - survey.xs[column].item()).argmin()]
                low, high = KINDS[kind]
                assert at == pytest.approx(min(max(measured[row, column].item(), low), high), abs=1e-5)


def test_the_loss_above_the_clip_is_hatched_and_counted_and_the_accuracy_never():
    survey = invented()
    picture = landscape_plane(survey, "loss", LIGHT)
    above = int((survey.loss > PAPER).sum())
    assert patterns(picture) == ["/"] and f"Hatched: {above} of 25 points are above 4.6." in picture.alt
    hatched = next(trace for trace in traces(picture, "scatter") if trace.fillpattern.shape)
    corners = [(x, y) for x, y in zip(hatched.x, hatched.y, strict=True) if x is not None]
    assert (
        min(x + 2 + y + 2 for x, y in corners) > PAPER - 0.6
    )  # a drawn cell is a tenth wide, and its corners lie outside
    assert patterns(landscape_plane(survey, "accuracy", LIGHT)) == []


def test_every_measured_point_says_loss_accuracy_and_mixture():
    survey = invented()
    marks = targets(landscape_plane(survey, "accuracy", LIGHT))
    assert len(marks.x) == 25
    assert "loss 10.00, accuracy 55.0" in marks.hovertext[7] and "% A +" in marks.hovertext[7]


def test_places_are_mixtures_of_the_three():
    survey = invented()
    assert shares(survey, 5.0, 8.0) == pytest.approx((0, 0, 1))
    assert shares(survey, 10.0, 0.0) == pytest.approx((0, 1, 0))
    assert shares(survey, 7.5, 4.0) == pytest.approx((0, 0.5, 0.5))
    assert place_words(survey, 5.0, 0.0) == "50 % A + 50 % B + 0 % fused"


def test_a_line_shows_its_barrier_as_a_number_and_a_bar():
    path = invented().paths[0]
    picture = loss_path(path, LIGHT)
    assert path.barrier == pytest.approx(1.125)
    assert "<b>barrier 1.12</b>" in {text for trace in picture.figure.data for text in trace.text or ()}
    assert "the loss rises by up to 1.12" in picture.alt and "50\N{NO-BREAK SPACE}% of the way" in picture.alt
    assert "no barrier" in loss_path(invented().paths[1], LIGHT).alt


def test_the_plain_average_stands_beside_its_parents():
    numbers = (("parent 0", 49.6), ("parent 1", 49.2), ("fused", 93.0), ("average", 23.4))
    markers = [dataclasses.replace(invented().markers[0], name=name, accuracy=share) for name, share in numbers]
    said = average_words(dataclasses.replace(invented(), markers=markers)).replace("\N{NO-BREAK SPACE}", " ")
    assert "23.4 %, worse than either; alone: A 49.6 %, B 49.2 %" in said
    better = [*markers[:3], dataclasses.replace(markers[3], accuracy=60.0)]
    assert "better than either" in average_words(dataclasses.replace(invented(), markers=better))
    assert average_words(dataclasses.replace(invented(), markers=markers[:3])) == ""


def test_words_say_what_was_found_and_how_it_was_measured():
    survey = invented()
    assert "between A and B; the loss rises by 1.12" in headline(survey)
    assert "no barrier" in headline(dataclasses.replace(survey, paths=survey.paths[1:2]))
    facts = ("network A, network B and fused", "5 × 5 points", "40 images of digits (test)", "seed 3", "BatchNorm:")
    assert [fact for fact in facts if fact not in caption(survey)] == []
    without = dataclasses.replace(survey, facts={**survey.facts, "norms": "none"})
    assert "No BatchNorm" in caption(without)


def test_axes_markers_and_distances_name_the_networks_with_their_own_values():
    picture = landscape_plane(invented(), "loss", LIGHT)
    axes = picture.figure.layout.xaxis.title.text, picture.figure.layout.yaxis.title.text
    assert axes == ("network A → network B", "towards fused →")
    marks = networks(picture)
    off = "<b>average</b> 2.25<br>3.21 off the plane"
    assert list(marks.text) == ["<b>A</b> 1.50", "<b>B</b> 1.25", "<b>fused</b> 0.50", off]
    assert (list(marks.x), list(marks.y)) == ([0, 10, 5, 5], [0, 0, 8, 1])
    assert marks.marker.color[3] != marks.marker.color[2] == "#FFFFFF"  # hollow
    assert networks(landscape_plane(invented(), "accuracy", LIGHT)).text[2] == "<b>fused</b> 90.0\N{NO-BREAK SPACE}%"
