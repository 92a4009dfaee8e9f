"""The picture of accuracy over images and seconds: what is drawn is what was measured."""

from typing import Any

import pytest

from retrofit_app.figures import DARK, LIGHT
from retrofit_app.figures.frontier import frontier

#: Network, way, images, of whom, with a copy of each, seed, accuracy, seconds.
MEASURED = [
    ("small", "KF-Linear", 100, "parent 0", False, 0, 60.0, 2.0),
    ("small", "KF-Linear", 400, "parent 0", False, 0, 63.0, 4.0),
    ("small", "KF-Linear", 400, "parent 0", False, 1, 67.0, 6.0),
    ("small", "KF-Linear", 400, "parent 0", True, 0, 99.0, 9.0),
    ("small", "KD", 400, "all parents", False, 0, 70.0, 100.0),
    ("large", "KF-Linear", 400, "all parents", False, 0, 52.0, 30.0),
]
NAMES = ("network", "way", "samples", "of", "augmented", "seed", "accuracy", "seconds")
RECORD = {
    "references": {
        "small": {"parent 0": 45.0, "parent 1": 49.0, "ensemble": 80.0, "centred ensemble": 82.0, "test images": 359},
        "large": {
            "parent 0": 43.0,
            "parent 1": 37.0,
            "ensemble": 57.0,
            "centred ensemble": 61.0,
            "test images": 10_000,
        },
    },
    "rows": [dict(zip(NAMES, row, strict=True)) for row in MEASURED],
}


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_marks_stand_at_the_mean_of_seeds_without_augmented_rows(palette):
    picture: Any = frontier(RECORD, palette)
    marked = [trace for trace in picture.figure.data if trace.mode == "lines+markers"]
    assert [(trace.xaxis, list(trace.x), list(trace.y)) for trace in marked] == [
        ("x", [2.0, 5.0], [60.0, 65.0]),
        ("x", [100.0], [70.0]),
        ("x2", [30.0], [52.0]),
    ]
    few, more = marked[0].marker.size
    assert few < more == marked[1].marker.size[0] == marked[2].marker.size[0]
    assert marked[0].marker.color == palette.paper != marked[2].marker.color  # open: of parent 0
    assert marked[0].line.color == marked[2].line.color != marked[1].line.color  # one colour for a method
    assert picture.figure.layout.xaxis.type == picture.figure.layout.xaxis2.type == "log"


def test_ensembles_and_best_parent_are_horizontal_lines():
    picture: Any = frontier(RECORD, LIGHT)
    lines = [trace for trace in picture.figure.data if trace.mode == "lines"]
    assert [list(trace.y) for trace in lines] == [
        [49.0] * 2,
        [80.0] * 2,
        [82.0] * 2,
        [43.0] * 2,
        [57.0] * 2,
        [61.0] * 2,
    ]


def test_the_finding_names_the_most_accurate_of_each_kind_of_parents():
    caption = frontier(RECORD, LIGHT).caption
    assert "small: KD with 400 images of all parents reaches 70.0" in caption
    assert "large: KF-Linear with 400 images of all parents reaches 52.0" in caption
