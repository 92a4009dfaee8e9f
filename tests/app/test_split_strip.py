"""The strip of classes and networks."""

import re

import pytest

from retrofit_app.figures import DARK, LIGHT
from retrofit_app.figures.sheets import split_strip, split_words
from tests.marks import each_case

from .test_figures import contrast

NAMES = ["network A", "network B"]


@each_case("palette", [LIGHT, DARK])
def test_every_count_stands_in_its_cell_and_can_be_read(palette):
    strip = split_strip([[3, 0, 12], [0, 7, 1]], ["cat", "<dog>", "ox"], NAMES, palette)
    rows = strip.split("<tr>")[2:]
    cells = [re.findall(r"<td[^>]*>([^<]*)<", row) for row in rows]
    assert cells == [["3", "·", "12", "15"], ["·", "7", "1", "8"]]
    assert "<dog>" not in strip and "&lt;dog&gt;" in strip
    tints = re.findall(r"background:(#\w+);color:(#\w+)", strip)
    assert len(tints) == 6 and min(contrast(*pair) for pair in tints) >= 4.5


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ([[3, 0], [0, 7]], "No class is seen by two networks."),
        ([[3, 4], [3, 4]], "the same 7 images of 2 classes"),
        ([[1, 4], [9, 4]], "Most unequal: network B saw 9 images of class a, network A 1."),
    ],
)
def test_the_finding_in_words(counts, says):
    assert says in split_words(counts, ["a", "b"], NAMES[: len(counts)])
