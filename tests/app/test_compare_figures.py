"""The pictures of the page Compare: classes."""

import pytest

from retrofit_app.figures import LIGHT, Network
from retrofit_app.figures.classes import class_sources, forgotten, origins, source

CLASSES = ["cat", "dog", "owl", "fox"]


A = Network("network A", "parent", 50.0, [90.0, 0.0, 80.0, None])


B = Network("network B", "parent", 50.0, [0.0, 96.0, 80.4, None])


def fused(*values: float | None, name: str = "KF-Linear") -> Network:
    return Network(name, "fused", 80.0, list(values))


def test_each_class_has_the_parent_that_knows_it_best():
    assert [source([A, B], index) for index in range(4)] == [0, 1, None, None]
    assert origins([A, B], CLASSES) == "Network A knows cat best and network B knows dog best."
    assert origins([A], CLASSES) == ""


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ((91.0, 96.0, 81.0, None), "KF-Linear: every class at least as well"),
        ((91.0, 66.0, 81.0, None), "no class forgotten; most lost on dog: 66"),
        ((10.0, 96.0, 3.0, None), "forgotten: cat (10 of 90"),
    ],
)
def test_forgotten_classes_are_named(values, says):
    assert says in forgotten([fused(*values)], [A, B], CLASSES).replace("\N{NO-BREAK SPACE}", " ")


def test_columns_stand_by_the_parent_that_knows_them():
    picture = class_sources([A, B], [fused(91, 66, 81, None)], CLASSES, LIGHT)
    heat, numbers, band = picture.figure.data
    assert list(picture.figure.layout.xaxis.ticktext) == CLASSES and len(heat.z) == 3
    assert list(band.text) == ["A", "B", "=", "="]
    assert "–" in numbers.text and "most lost on dog" in picture.alt
    flipped = class_sources([B, A], [], CLASSES, LIGHT).figure
    assert "class dog" in flipped.data[0].hovertext[0][0]
    assert list(flipped.layout.xaxis.ticktext) == ["dog", "cat", "owl", "fox"]


def test_many_classes_are_neither_lettered_nor_numbered():
    parent = Network("network A", "parent", 50.0, [50.0] * 100)
    picture = class_sources([parent, parent], [fused(*[40.0] * 100)], [f"c{index}" for index in range(100)], LIGHT)
    assert len(picture.figure.data) == 2 and "100 classes" in picture.figure.layout.xaxis.title.text
