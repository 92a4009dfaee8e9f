"""The assignment is optimal, and a rule decides where several are, whatever rounding says."""

import itertools

import pytest
import torch

from retrofit_core.fusion.grouping import assigned
from tests.networks import normal


def total(costs, pairs):
    return sum(costs[row, column].item() for row, column in pairs)


def found(costs, **options):
    rows, columns = assigned(costs, **options)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def with_silent_and_equal_neurons(n, seed):
    """Squared distances of two layers: silent neurons on both sides, duplicates, neurons that never fire together."""
    left, right = normal(6, n, seed=seed).relu(), normal(6, n, seed=seed + 100).relu()
    left[:, [1, 2]], right[:, [0, 3]] = 0, 0
    left[:, 4], right[:, 5] = left[:, 3], right[:, 4]
    left[:, 0], right[:, 1] = torch.eye(6)[0], torch.eye(6)[1]
    left[0, 1:] = right[1, 2:] = 0
    return left.square().sum(0)[:, None] + right.square().sum(0) - 2 * left.T @ right


def by_the_rule(costs):
    """Of all optimal permutations that of most equal numbers, then of the nearest ones."""
    n = len(costs)
    orders = list(itertools.permutations(range(n)))
    least = min(total(costs, enumerate(order)) for order in orders)
    best = [order for order in orders if total(costs, enumerate(order)) <= least + 1e-9]
    distances = [[(i - j) ** 2 for i, j in enumerate(order)] for order in best]
    weights = [n * n * sum(one > 0 for one in each) + sum(each) for each in distances]
    return len(best), [order for order, weight in zip(best, weights, strict=True) if weight == min(weights)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("maximize", [False, True])
def test_among_optimal_assignments_the_nearest_numbers_win(seed, maximize):
    costs = with_silent_and_equal_neurons(7, seed)
    count, chosen = by_the_rule(costs)
    assert count > 1
    pairs = found(-costs if maximize else costs, maximize=maximize)
    assert tuple(column for _, column in pairs) in chosen


@pytest.mark.parametrize("seed", range(20))
def test_rounding_decides_nothing(seed):
    costs = with_silent_and_equal_neurons(40, seed)
    noise = 1e-15 * costs.max() * normal(40, 40, seed=seed)
    assert found(costs + noise) == found(costs)


def test_equal_neurons_keep_their_numbers():
    assert found(torch.zeros(5, 5)) == [(k, k) for k in range(5)]
    assert found(torch.zeros(2, 4)) == [(0, 0), (1, 1)]
    assert found(torch.zeros(4, 2)) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (5, 5), (1, 3), (0, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_the_shorter_side_is_assigned_at_least_cost(shape, seed):
    costs = normal(*shape, seed=seed)
    rows, columns = shape
    pairs = found(costs)
    assert len(pairs) == min(shape) == len({row for row, _ in pairs}) == len({column for _, column in pairs})
    if rows <= columns:
        options = (list(enumerate(order)) for order in itertools.permutations(range(columns), rows))
    else:
        options = ([(row, k) for k, row in enumerate(order)] for order in itertools.permutations(range(rows), columns))
    assert total(costs, pairs) == pytest.approx(min(total(costs, option) for option in options), abs=1e-12)
