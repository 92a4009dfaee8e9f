"""The headline over the levels: what is lost, whether that is more than chance, and what the numbers say of the cause."""

import pandas as pd

from retrofit_app.figures.diagnosis import AVERAGED, diagnosis, largest_loss, worst_level
from tests.marks import each_case


def levels(*errors: tuple[float, float], form: str = "ridge") -> pd.DataFrame:
    """A table of levels with these shares of grouping and approximation error."""
    grouping, approximation = zip(*errors, strict=True)
    names = [f"layer{index}" for index in range(len(errors))]
    return pd.DataFrame(
        {"level": names, "form": form, "grouping share": grouping, "approximation share": approximation}
    )


THREE = levels((0.02, 0.0), (0.10, 0.05), (0.20, 0.0))


def test_a_clear_loss_is_told_with_its_interval_and_its_cause():
    text = diagnosis(THREE, [90.0, 89.0, 70.0, 70.0], 1000).replace("\N{NO-BREAK SPACE}", " ")
    margin = 196 * ((0.89 * 0.11 + 0.7 * 0.3) / 1000) ** 0.5
    assert text.startswith(f"Level 2 (layer1) loses 19.0 ± {margin:.1f} points of accuracy. Its error is 15.0 %")
    assert "67 % of it from grouping" in text
    missed, accuracy = ((0.0, 0.1), (0.0, 0.0)), [90.0, 50.0, 50.0]
    assert "all of it from approximation" in diagnosis(levels(*missed), accuracy, 1000)
    assert "the fit" not in diagnosis(levels(*missed, form=AVERAGED), accuracy, 1000)
    assert "Its own error is small" in diagnosis(THREE, [90.0, 60.0, 60.0, 60.0], 1000)  # it does not lose by that


@each_case(("after", "says"), [(75.0, "regains 5.0"), (95.0, "regains all"), (60.0, "of accuracy. Its")])
def test_what_the_next_level_regains_is_told(after, says):
    assert says in diagnosis(THREE, [90.0, 90.0, 70.0, after], 1000)


def test_a_loss_within_chance_is_none():
    accuracy = [96.0, 95.0, 93.0, 93.0]
    text = diagnosis(THREE, accuracy, 300)
    assert text.startswith("No level clearly loses accuracy") and "Level 3 (layer2) has the largest error" in text
    assert diagnosis(THREE, accuracy, 100_000).startswith("Level 2 (layer1) loses 2.0")
    assert not largest_loss(accuracy, 0).clear  # nobody noted on how many images


def test_without_a_loss_or_a_measurement_the_errors_are_told():
    assert diagnosis(THREE, [80.0, 80.0, 81.0, 81.0], 1000).startswith("No level loses accuracy. Level 3 (layer2)")
    assert diagnosis(THREE, [], 0).startswith("Level 3 (layer2) has the largest error: 20.0")
    assert "all of it from grouping" in diagnosis(levels((0.1, 0.0), form="aligned"), [], 0)


@each_case("accuracy", [[], [80.0] * 4, [96.0, 95.0, 93.0, 93.0], [90.0, 60.0, 60.0, 60.0]])
@each_case("images", [0, 300, 100_000])
def test_the_level_that_is_opened_is_the_one_that_is_named(accuracy, images):
    named = worst_level(THREE, accuracy, images)
    text = diagnosis(THREE, accuracy, images)
    assert (
        f"evel {named + 1} (layer{named}) loses" in text or f"Level {named + 1} (layer{named}) has the largest" in text
    )
