"""Signs of differences, worked out by hand."""

import dataclasses

import numpy as np
import pytest

from retrofit_core.experiments.claims import claims
from retrofit_core.experiments.paper import Value
from retrofit_core.runs.answers import difference, mean_and_interval
from tests.experiments.made_up import made


def value(row: str, mean: float, deviation: float | None = None) -> Value:
    return Value("vgg11-noniid", "tab:none", "2-way", row, mean, deviation, 5)


def printed(**means: float) -> dict[str, Value]:
    """Rows by name, with "__" for a comma: KF_Linear__uniform is "KF-Linear, uniform"."""
    rows = {
        name.replace("__", ", ").replace("_", "-").replace("Parent-", "Parent "): mean for name, mean in means.items()
    }
    return {row: value(row, mean) for row, mean in rows.items()}


def by_name(paper, measured):
    return {(claim.left, claim.right): claim for claim in claims(paper, measured)}


def test_the_best_score_does_not_hang_on_which_parents_were_fused_more_often():
    """Uniform is ahead on both sets; of all four fusions it has the lower mean, for three are of the hard set."""
    paper = printed(Parent_0=80, KF_Linear__uniform=85, KF_Linear__conductance=86)
    measured = {
        "Parent 0": {(0, 0): made("Parent 0", 40), (1, 0): made("Parent 0", 60)},
        "KF-Linear, uniform": {
            run: made("KF-Linear, uniform", share)
            for run, share in {(0, 0): 50, (0, 1): 50, (0, 2): 50, (1, 0): 80}.items()
        },
        "KF-Linear, conductance": {
            run: made("KF-Linear, conductance", share) for run, share in {(0, 0): 45, (1, 0): 75}.items()
        },
    }
    assert by_name(paper, measured)["KF-Linear", "best parent"].rows == ("KF-Linear, uniform", "best parent")


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
    measured = {row: {(0, 0): made(row, share)} for row, share in rows.items()}
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
        ("KF-Linear", "Ensemble"): "contradicted",
        ("KF-Linear", "KD"): "agreed",
        # Two of a hundred images: the interval ends at 0.
        ("KF-Linear, conductance", "KF-Linear, uniform"): "undecided",
    }
    paired = claimed["KF-Linear", "best parent"]
    assert paired.rows == ("KF-Linear, uniform", "Parent 1")
    sides = (measured[row][0, 0].knows() for row in paired.rows)
    assert (paired.ours, paired.interval) == difference(*sides)
    assert dataclasses.replace(paired, paper=0.0).verdict == "no claim"


def test_seeds_are_compared_with_their_like():
    paper = printed(Ensemble=90, KD=40, KF_Linear__uniform=85)
    measured = {
        "KF-Linear, uniform": {
            (0, 0): made("KF-Linear, uniform", 80),
            (0, 1): made("KF-Linear, uniform", 60),
        },
        "Ensemble": {(0, 0): made("Ensemble", 50)},
        "KD": {(0, 1): made("KD", 10), (0, 2): made("KD", 0)},
    }
    claimed = by_name(paper, measured)
    assert claimed["KF-Linear", "Ensemble"].ours == pytest.approx((30 + 10) / 2)  # it has no seed, so it serves for all
    assert claimed["KF-Linear", "KD"].ours == pytest.approx(60 - 10)  # seed 1 is the only one of both


def test_opponents_are_easy_or_informative_and_differences_clear_or_noise():
    paper = {
        "Parent 0": value("Parent 0", 80, 1.0),
        "KD": value("KD", 84, 3.0),
        "LP": value("LP", 70),
        "KF-Linear, uniform": value("KF-Linear, uniform", 85, 4.0),
        "KF-Linear, conductance": value("KF-Linear, conductance", 96, 3.0),
    }
    claimed = claims(paper, {})
    assert {(claim.right, claim.group, claim.is_noise) for claim in claimed} == {
        ("best parent", "informative", False),  # 16 of sqrt(9 + 1)
        ("KD", "easy", False),  # 12 of sqrt(9 + 9)
        ("LP", "informative", False),  # without a deviation nothing tells
        ("KF-Linear, uniform", "informative", False),  # 11 of sqrt(9 + 16) = 5: two are 10
    }
    near = claims({**paper, "KF-Linear, conductance": value("KF-Linear, conductance", 95, 3.0)}, {})
    assert [claim.is_noise for claim in near if claim.right == "KF-Linear, uniform"] == [True]


def answers(generator, seeds: int, images: int, moves: float) -> np.ndarray:
    """Which images networks of the same accuracy know: images differ in how hard they are, seeds in how good."""
    hard = generator.normal(size=images)
    seed = generator.normal(size=(seeds, 1))
    return hard + moves * seed + generator.normal(size=(seeds, images)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("moves", [0.0, 0.5])
@pytest.mark.parametrize("seeds", [1, 3])
def test_the_interval_covers_the_truth(seeds, moves):
    """Both sides are drawn alike, so the true difference is 0. One seed says nothing of other seeds."""
    generator = np.random.default_rng(3)
    covered = []
    for _ in range(120):
        low, high = difference(answers(generator, seeds, 400, moves), answers(generator, seeds, 400, moves))[1]
        covered.append(low <= 0 <= high)
    if seeds == 1 and moves == 0.5:
        assert np.mean(covered) < 0.5
    else:
        assert np.mean(covered) >= 0.92


@pytest.mark.long
def test_the_interval_over_parents_covers_the_truth():
    """Fusion seeds share their parents, so three sets with three seeds each are three runs, not nine."""
    generator = np.random.default_rng(4)
    covered, as_nine = [], []
    for _ in range(60):
        sets = [answers(generator, 3, 300, 0.1).astype(float) - answers(generator, 3, 300, 0.1) for _ in range(3)]
        sets = [each + 0.3 * generator.normal() for each in sets]  # what a set of parents brings or costs its fusions
        for runs, where in ((np.stack([each.mean(0) for each in sets]), covered), (np.concatenate(sets), as_nine)):
            low, high = mean_and_interval(runs)[1]
            where.append(low <= 0 <= high)
    assert np.mean(covered) >= 0.92 > 0.85 > np.mean(as_nine)


@pytest.mark.parametrize(("sets", "verdict"), [((20, 40), "agreed"), ((-2, 40), "undecided"), ((20, 30, 40), "agreed")])
def test_parents_with_several_seeds_count_once(sets, verdict):
    """Each set of parents has three seeds that agree: as many runs as sets. Two do not say how far sets differ."""
    paper = printed(KF_Linear__uniform=85, KD=40)
    runs = [(parents, seed) for parents in range(len(sets)) for seed in range(3)]
    ours = {run: made("KF-Linear, uniform", 40 + sets[run[0]]) for run in runs}
    others = {run: made("KD", 40) for run in runs}
    claim = by_name(paper, {"KF-Linear, uniform": ours, "KD": others})["KF-Linear", "KD"]
    assert claim.ours == pytest.approx(np.mean(sets)) and claim.seeds == len(runs) and claim.verdict == verdict
    if len(sets) == 2:
        assert claim.interval[0] <= min(sets) and claim.interval[1] >= max(sets)
    else:  # Student's t with two degrees of freedom reaches 24.8 points to either side
        assert 0 < claim.interval[0] < 30 - 24.8
