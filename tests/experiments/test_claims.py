"""Orders of methods and signs of differences, worked out by hand."""

import pytest
import torch

from retrofit_core.experiments.cells import Cell
from retrofit_core.experiments.claims import claims, rank_correlation
from retrofit_core.experiments.paper import Value
from retrofit_core.runs.leaderboard import difference
from tests.experiments.made_up import cells_of, knowing, made


def value(row: str, mean: float, deviation: float | None = None) -> Value:
    return Value("vgg11-noniid", "tab:none", "2-way", row, mean, deviation, 5)


def printed(**means: float) -> dict[str, Value]:
    """Rows by name, with "__" for a comma: KF_Linear__uniform is "KF-Linear, uniform"."""
    rows = {
        name.replace("__", ", ").replace("_", "-").replace("Parent-", "Parent "): mean for name, mean in means.items()
    }
    return {row: value(row, mean) for row, mean in rows.items()}


def unit_of(row: str, seed: int = 0):
    cells: list[Cell] = cells_of("vgg11-noniid", seeds=seed + 1)
    return next(cell.units[0] for cell in cells if (cell.column, cell.row, cell.seed) == ("2-way", row, seed))


def result_of(row: str, share: int, seed: int = 0):
    """A network that knows the first images."""
    return made(unit_of(row, seed), known=knowing(share))


def by_name(paper, measured):
    return {(claim.left, claim.right): claim for claim in claims(paper, measured)}


def test_ranks_are_spearmans():
    paper = {"KF-Linear": 90.0, "KD": 30.0, "LP": 60.0, "Average": 10.0}
    ours = {"KF-Linear": 80.0, "KD": 50.0, "LP": 40.0, "Average": 20.0}
    # ranks 4 2 3 1 and 4 3 2 1: 1 - 6 (0 + 1 + 1 + 0) / (4 (16 - 1)) = 0.8
    assert rank_correlation(paper, ours) == (4, pytest.approx(0.8))
    assert rank_correlation(paper, {row: -number for row, number in paper.items()}) == (4, pytest.approx(-1.0))


def test_parents_and_repeated_rows_are_not_ranked():
    paper = {"Parent 0": 99.0, "KD, best": 1.0, "KF-Linear, best": 9.0, "KF-Linear, uniform": 8.0, "LP": 5.0, "KD": 2.0}
    # Parent 0 is no method, the best of KF-Linear is among its scores; KD, best stands for none that is there.
    assert rank_correlation(paper, paper)[0] == 4


def test_an_order_needs_three_methods_that_differ():
    assert rank_correlation({"KD": 1.0, "LP": 2.0}, {"KD": 1.0, "LP": 2.0}) == (2, None)
    assert rank_correlation({"KD": 1.0, "LP": 1.0, "Average": 1.0}, {"KD": 1.0, "LP": 2.0, "Average": 3.0}) == (3, None)


def test_signs_of_differences():
    paper = printed(Parent_0=80, Parent_1=70, Ensemble=90, KD=40, KF_Linear__uniform=85, KF_Linear__conductance=86)
    rows = {
        "Parent 0": 40,
        "Parent 1": 60,
        "Ensemble": 50,
        "KD": 75,
        "KF-Linear, uniform": 80,
        "KF-Linear, conductance": 78,
    }
    measured = {row: {0: result_of(row, share)} for row, share in rows.items()}
    claimed = by_name(paper, measured)
    # The paper's best score is conductance, ours uniform; its best parent is 0, ours is 1.
    assert {names: (claim.paper, claim.ours) for names, claim in claimed.items()} == {
        ("KF-Linear", "best parent"): (6, pytest.approx(20)),
        ("KF-Linear", "Ensemble"): (-4, pytest.approx(30)),
        ("KF-Linear", "KD"): (46, pytest.approx(5)),
        ("KF-Linear, conductance", "KF-Linear, uniform"): (1, pytest.approx(-2)),
    }
    assert {names: claim.verdict for names, claim in claimed.items()} == {
        ("KF-Linear", "best parent"): "agreed",
        ("KF-Linear", "Ensemble"): "not agreed",
        ("KF-Linear", "KD"): "agreed",
        # Two of a hundred images: the interval ends at 0.
        ("KF-Linear, conductance", "KF-Linear, uniform"): "undecided",
    }
    assert claimed["KF-Linear", "best parent"].rows == ("KF-Linear, uniform", "Parent 1")


def test_the_interval_is_the_paired_one_of_comparisons():
    paper = printed(KF_Linear__uniform=85, KD=40)
    # Paired, the networks differ in five images alone; unpaired, five points of 75 are nothing.
    left, right = result_of("KF-Linear, uniform", 80), result_of("KD", 75)
    claim = by_name(paper, {"KF-Linear, uniform": {0: left}, "KD": {0: right}})["KF-Linear", "KD"]
    mean, interval = difference(torch.from_numpy(left.knows()), torch.from_numpy(right.knows()))
    assert (claim.ours, claim.interval, claim.paired) == (mean, interval, True)
    assert claim.verdict == "agreed"


def test_without_images_the_interval_is_that_of_two_shares():
    paper = printed(KF_Linear__uniform=85, KD=40)
    left, right = made(unit_of("KF-Linear, uniform"), accuracy=80.0), result_of("KD", 75)
    claim = by_name(paper, {"KF-Linear, uniform": {0: left}, "KD": {0: right}})["KF-Linear", "KD"]
    # 1.96 sqrt(0.8 * 0.2 / 100 + 0.75 * 0.25 / 100) = 11.554 points
    assert claim.interval == pytest.approx((5 - 11.554, 5 + 11.554), abs=1e-3)
    assert not claim.paired and claim.verdict == "undecided"


def test_seeds_are_compared_with_their_like():
    paper = printed(Ensemble=90, KD=40, KF_Linear__uniform=85)
    measured = {
        "KF-Linear, uniform": {0: result_of("KF-Linear, uniform", 80), 1: result_of("KF-Linear, uniform", 60, seed=1)},
        "Ensemble": {0: result_of("Ensemble", 50)},
        "KD": {1: result_of("KD", 10, seed=1), 2: result_of("KD", 0, seed=2)},
    }
    claimed = by_name(paper, measured)
    assert claimed["KF-Linear", "Ensemble"].ours == pytest.approx((30 + 10) / 2)  # it has no seed, so it serves for all
    assert claimed["KF-Linear", "KD"].ours == pytest.approx(60 - 10)  # seed 1 is the only one of both


def test_what_is_not_measured_is_claimed_all_the_same():
    paper = printed(KD=40, KF_Linear__uniform=85, HF_Linear__best=90)
    claimed = by_name(paper, {"KD": {0: result_of("KD", 10)}})
    assert {names: claim.verdict for names, claim in claimed.items()} == {
        ("KF-Linear", "KD"): "not measured",
        ("HF-Linear", "KD"): "not measured",
    }


def test_a_best_row_of_the_paper_stands_beside_our_best_score():
    paper = printed(KD=40, HF_Linear__best=90)
    rows = {"HF-Linear, uniform": 30, "HF-Linear, deeplift": 70, "KD": 10}
    claim = by_name(paper, {row: {0: result_of(row, share)} for row, share in rows.items()})["HF-Linear", "KD"]
    assert (claim.rows, claim.ours) == (("HF-Linear, deeplift", "KD"), pytest.approx(60))


def test_equal_numbers_claim_nothing():
    paper = printed(KD=85, KF_Linear__uniform=85)
    rows = {"KF-Linear, uniform": 80, "KD": 10}
    claim = by_name(paper, {row: {0: result_of(row, share)} for row, share in rows.items()})["KF-Linear", "KD"]
    assert claim.verdict == "no claim"


def test_deviations_of_a_difference_add_in_squares():
    paper = {"KD": value("KD", 40, 3.0), "KF-Linear, uniform": value("KF-Linear, uniform", 85, 4.0)}
    assert claims(paper, {})[0].deviation == pytest.approx(5.0)
    assert claims({**paper, "KD": value("KD", 40)}, {})[0].deviation is None
