"""Hungarian matching against all matchings, on the true cost of the refitted level."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrofit_core.fusion.grouping import Hungarian
from retrofit_core.fusion.moments import Rows, solve
from tests import reference
from tests.grouping.points import gram, numpy, points, positive
from tests.marks import each_case
from tests.networks import normal
from tests.properties import as_sets


@pytest.mark.slow
@given(st.integers(1, 6), st.integers(0, 99))
def test_equals_brute_force_over_all_matchings(width, seed):
    phi, scores = points(2 * width, seed=seed), positive(2 * width, seed)
    grouping = Hungarian()(gram(phi), scores, (width, width), width)
    best = min(reference.cluster_cost(*numpy(phi, scores), groups) for groups in reference.matchings(width))
    assert grouping.cost == pytest.approx(best, rel=1e-9, abs=1e-12)


@each_case("toward", [False, True])
@each_case("ridge", [0.0, 0.5, 20.0])
@each_case("seed", range(3))
def test_is_optimal_for_the_refitted_level(seed, ridge, toward):
    """C6, Theorem 2a: no matching gives a lower representation cost (plus penalty) once the level is fitted."""
    width = 4
    x, noise = normal(20, 3, seed=seed), normal(20, 2 * width, seed=seed + 50)
    z = x @ normal(3, 2 * width, seed=seed + 90) + noise
    x = torch.cat([x, torch.ones(20, 1).double()], 1)
    parent_weights = normal(4, 2 * width, seed=seed + 70) if toward and ridge else None
    scores = positive(2 * width, seed)
    solution = solve(Rows(x, z, True).moments(), ridge, toward=parent_weights)
    grouping = Hungarian()(solution.gram, scores, (width, width), width)
    pull = None if parent_weights is None else parent_weights.numpy()
    cost = {
        frozenset(map(frozenset, groups)): reference.fitted_cost(*numpy(x, z, scores), groups, ridge, pull)
        for groups in map(list, reference.matchings(width))
    }
    assert cost[frozenset(as_sets(grouping.labels))] == pytest.approx(min(cost.values()), rel=1e-10)


@pytest.mark.parametrize("widths, width", [((5, 5, 5), 5), ((5, 4), 5), ((5, 5), 4), ((5,), 5)])
def test_other_than_two_equal_parents_are_refused(widths, width):
    m = sum(widths)
    with pytest.raises(ValueError, match=r"hungarian pairs exactly two parents.*Use grouping='kmeans'"):
        Hungarian()(gram(points(m)), positive(m), widths, width)
