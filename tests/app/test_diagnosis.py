"""The headline over the levels: what is lost, whether that is more than chance, and what the numbers say of the cause."""

import re

import numpy as np
import pandas as pd
import pytest

from retrofit_app.figures import Difference, difference
from retrofit_app.figures.diagnosis import changes, diagnosis, worst_level
from retrofit_core.training.evaluation import as_bits
from tests.marks import each_case


def levels(*errors: tuple[float, float]) -> pd.DataFrame:
    """A table of levels with these shares of grouping and approximation error."""
    grouping, approximation = zip(*errors, strict=True)
    names = [f"layer{index}" for index in range(len(errors))]
    return pd.DataFrame(
        {"level": names, "form": "ridge", "grouping share": grouping, "approximation share": approximation}
    )


def course(accuracies: list[float], images: int) -> list[dict]:
    """Results on the same images, each right on images drawn anew; with 0 images nobody noted which."""
    draw = np.random.default_rng(0)
    orders = [draw.permutation(images) for _ in accuracies]
    return [
        {"accuracy": value, "samples": images, "knows": as_bits(order < value * images / 100) if images else ""}
        for value, order in zip(accuracies, orders, strict=True)
    ]


THREE = levels((0.02, 0.0), (0.10, 0.05), (0.20, 0.0))


def test_a_clear_loss_is_told_with_its_interval():
    text = diagnosis(THREE, course([90.0, 89.0, 70.0, 70.0], 1000))
    found = re.fullmatch(r"Level 2 \(layer1\) loses 19.0 \((\S+) to (\S+)\) points of accuracy.", text)
    assert found and float(found[2]) - float(found[1]) == pytest.approx(
        392 * ((0.89 * 0.11 + 0.21) / 1000) ** 0.5, abs=0.5
    )


def test_every_level_that_clearly_loses_or_regains_is_named():
    """A vision transformer's level that regains 14.8 points was not named, nor a first level that lost 4.5."""
    text = diagnosis(THREE, course([95.5, 91.0, 70.0, 84.8], 10_000))
    assert re.match(
        r"Level 1 \(layer0\) loses 4.5 \(\S+ to \S+\) and level 2 \(layer1\) loses 21.0 \(\S+ to \S+\) points of accuracy; "
        r"level 3 \(layer2\) regains 14.8 \(",
        text,
    )
    many = levels(*[(0.1, 0.0)] * 5)
    falls = diagnosis(many, course([90.0, 85.0, 75.0, 72.0, 60.0, 60.0], 10_000))
    assert falls == "Levels 4 (12.0), 2 (10.0), 1 (5.0) and 3 (3.0) lose points of accuracy."


def test_a_loss_within_chance_is_none():
    accuracy = [96.0, 95.0, 93.0, 93.0]
    text = diagnosis(THREE, course(accuracy, 300))
    assert text.startswith("No level clearly loses accuracy; the largest drop, 2.0 (")
    assert "points at level 2 (layer1), may be chance" in text and "Level 3 (layer2) has the largest error" in text
    assert " and level 2 (layer1) loses 2.0" in diagnosis(THREE, course(accuracy, 100_000))
    assert changes(course(accuracy, 0))[0].ends is None  # nobody noted which images are right
    assert diagnosis(THREE, course(accuracy, 0)).startswith("The largest drop in accuracy is 2.0 points, at level 2")


def test_a_smaller_loss_is_named_where_the_largest_may_be_chance():
    """Many images change sides at level 1 and few, all to the worse, at level 2."""
    right = np.arange(1000) < 500
    after = right.copy()
    after[:160], after[500:640] = False, True  # 160 lost, 140 gained
    then = after.copy()
    then[200:215] = False
    results = [
        {"accuracy": 100 * each.mean(), "samples": 1000, "knows": as_bits(each)} for each in (right, after, then)
    ]
    assert diagnosis(levels((0.2, 0.0), (0.1, 0.0)), results).startswith("Level 2 (layer1) loses 1.5 (")


def test_equal_networks_have_no_interval():
    """The same images are right: chance cannot part them, though two other networks of this accuracy may differ by 3 points."""
    same = [course([93.0], 300)[0]] * 2
    assert difference(*same) == Difference(0.0, (0.0, 0.0)) and not difference(*same).clear


def test_without_a_loss_or_a_measurement_the_errors_are_told():
    assert diagnosis(THREE, course([80.0, 80.0, 81.0, 81.0], 1000)).startswith(
        "No level loses accuracy. Level 3 (layer2)"
    )
    assert diagnosis(THREE, []).startswith("Level 3 (layer2) has the largest error: 20.0")


@each_case("accuracy", [[], [80.0] * 4, [96.0, 95.0, 93.0, 93.0], [90.0, 60.0, 60.0, 60.0]])
@each_case("images", [0, 300, 100_000])
def test_the_level_that_is_opened_is_the_one_that_is_named(accuracy, images):
    named = worst_level(THREE, course(accuracy, images))
    text = diagnosis(THREE, course(accuracy, images))
    assert (
        f"evel {named + 1} (layer{named}) loses" in text or f"Level {named + 1} (layer{named}) has the largest" in text
    )
