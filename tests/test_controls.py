"""The controls: the fit of KF-Linear to groups that nobody searched, against plain loops."""

import pytest
import torch

from retrofit_core import METHODS
from retrofit_core.fusion.grouping import Random
from retrofit_core.fusion.walk import level_generator
from tests import reference
from tests.networks import mlp, normal
from tests.properties import as_groups, as_sets, assert_close

#: Leaky enough that no input of a level is dead on the fusion data.
WIDTHS = {"Random-Linear": [(6, 8, 7, 4), (6, 5, 9, 4), (6, 4, 4, 4)], "Same-Index-Linear": [(6, 8, 7, 4)] * 3}


def fused(name, **options):
    parents = [mlp(widths, seed=k) for k, widths in enumerate(WIDTHS[name])]
    x = normal(60, 6)
    return parents, x, METHODS[name](parents, x, device="cpu", **options)


def groups_of(result):
    return [as_groups(level.labels, level.width) for level in result.levels]


@pytest.mark.parametrize("ridge", [0.0, "auto"])
@pytest.mark.parametrize("name", WIDTHS)
def test_given_its_groups_it_is_algorithm_1_in_plain_loops(name, ridge):
    parents, x, result = fused(name, ridge=ridge, seed=5)
    scores = [level.scores.numpy() for level in result.levels]
    steps, _ = reference.fuse(parents, x.numpy(), scores, groups_of(result), ridge_strength=ridge)
    new = normal(9, 6, seed=3)
    with torch.no_grad():
        assert_close(result.model(new), torch.from_numpy(reference.run(steps, new.numpy())), 1e-6)


def test_the_groups_of_random_linear_are_those_that_each_levels_generator_draws():
    _, _, result = fused("Random-Linear", seed=5)
    for index, level in enumerate(result.levels[:-1]):
        m = sum(level.widths)
        drawn = Random()(
            torch.eye(m), torch.ones(m), level.widths, level.width, generator=level_generator(5, index)
        ).labels
        assert as_sets(level.labels) == as_sets(drawn)
    assert groups_of(result)[-1] == [[c, 4 + c, 8 + c] for c in range(4)]  # class c stays class c


def test_the_groups_of_same_index_linear_are_the_neurons_of_one_number():
    _, _, result = fused("Same-Index-Linear")
    for level in result.levels:
        assert as_sets(level.labels) == {frozenset(k + level.width * n for n in range(3)) for k in range(level.width)}
