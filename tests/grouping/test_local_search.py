"""Local search by single swaps: never worse than its start, far within the bound that is claimed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrofit_core.fusion.grouping import KMeans, LocalSearch
from retrofit_core.fusion.grouping.base import squared_distances
from retrofit_core.fusion.grouping.local_search import _best_swap
from tests import reference
from tests.grouping.points import generator, gram, numpy, points, positive


@given(st.integers(2, 8), st.integers(1, 7), st.integers(0, 99))
def test_stays_within_25_times_the_optimum(m, width, seed):
    """C14: the bound of single swaps; in practice within 1.3."""
    width = min(width, m)
    phi, scores = points(m, 2, seed), positive(m, seed)
    best = min(reference.cluster_cost(*numpy(phi, scores), groups) for groups in reference.partitions(m, width))
    grouping = LocalSearch(restarts=1)(gram(phi), scores, (m // 2, m - m // 2), width, generator=generator())
    assert best - 1e-10 <= grouping.cost <= 25 * best + 1e-10
    assert grouping.cost <= 1.3 * best + 1e-10


def test_swaps_help_where_lloyd_is_stuck():
    """Three far pairs and a start with two centres in one of them: Lloyd cannot leave, a swap can."""
    phi = torch.tensor([[0.0, 1.0, 100.0, 101.0, 200.0, 201.0]]).double()
    scores = torch.ones(6).double()
    stuck = KMeans(restarts=0)(gram(phi), scores, (3, 3), 3)  # starts at neurons 0, 1, 2
    grouping = LocalSearch(restarts=0)(gram(phi), scores, (3, 3), 3, generator=generator())
    assert stuck.cost > 1000
    assert grouping.cost == pytest.approx(1.5)
    assert grouping.report["swaps"] >= 1


@given(st.integers(1, 4), st.integers(0, 60))
def test_the_swap_made_is_the_best_single_swap(width, seed):
    """The change read off all pairs at once against every swap evaluated on its own."""
    phi, scores = points(9, 2, seed), positive(9, seed)
    distances = squared_distances(gram(phi))
    centres = torch.randperm(9, generator=generator(seed))[:width]

    def cost(chosen):
        return (scores * distances[torch.tensor(chosen)].min(0).values).sum().item()

    before = cost(centres.tolist())
    swaps = [[*centres[:i].tolist(), c, *centres[i + 1 :].tolist()] for i in range(width) for c in range(9)]
    best = min(map(cost, swaps))
    improved = _best_swap(distances, scores, centres)
    assert improved == (best < before * (1 - 1e-12))
    assert cost(centres.tolist()) == pytest.approx(min(best, before))
