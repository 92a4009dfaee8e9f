"""The picture of accuracy over images and seconds: what is drawn is what was measured."""

from typing import Any

from retrofit_app.figures import LIGHT
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
REFERENCES = ("parent 0", "parent 1", "ensemble", "centred ensemble", "test images")
RECORD = {
    "references": {
        "small": dict(zip(REFERENCES, (45.0, 49.0, 80.0, 82.0, 359), strict=True)),
        "large": dict(zip(REFERENCES, (43.0, 37.0, 57.0, 61.0, 10_000), strict=True)),
    },
    "rows": [dict(zip(NAMES, row, strict=True)) for row in MEASURED],
}


def test_marks_stand_at_the_mean_of_seeds_without_augmented_rows():
    picture: Any = frontier(RECORD, LIGHT)
    marked = [trace for trace in picture.figure.data if trace.mode == "lines+markers"]
    assert [(trace.xaxis, list(trace.x), list(trace.y)) for trace in marked] == [
        ("x", [2.0, 5.0], [60.0, 65.0]),
        ("x", [100.0], [70.0]),
        ("x2", [30.0], [52.0]),
    ]
    assert marked[0].marker.color == LIGHT.paper != marked[2].marker.color  # open: of parent 0
    lines = [trace.y[0] for trace in picture.figure.data if trace.mode == "lines"]
    assert lines == [49.0, 80.0, 82.0, 43.0, 57.0, 61.0]  # best parent and ensembles
    assert "small: KD with 400 images of all parents reaches 70.0" in picture.caption
