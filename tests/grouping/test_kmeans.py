"""Weighted k-means in Gram space against all partitions, scikit-learn and Lloyd's own promises."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrofit_core.fusion.grouping import KMeans
from retrofit_core.fusion.grouping.base import squared_distances
from retrofit_core.fusion.grouping.kmeans import (
    Centroids,
    _refill_empty_groups,
    distances_to_centroids,
    lloyd,
    seed_centres,
)
from tests import reference
from tests.grouping.points import generator, gram, numpy, points, positive
from tests.marks import each_case
from tests.properties import assert_close


def grouped(phi, scores, width, *, seed=0, first=None, **options):
    first = phi.shape[1] // 2 if first is None else first
    widths = (first, phi.shape[1] - first)
    return KMeans(**options)(gram(phi), scores, widths, width, generator=generator(seed))


@pytest.mark.slow
@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 99))
def test_never_beats_brute_force_and_comes_near(m, width, seed):
    """C14: all partitions are a bound from below; ten starts on seven points reach it (almost) always."""
    width = min(width, m)
    phi, scores = points(m, 2, seed), positive(m, seed)
    best = min(reference.cluster_cost(*numpy(phi, scores), groups) for groups in reference.partitions(m, width))
    grouping = grouped(phi, scores, width)
    assert best - 1e-10 <= grouping.cost <= 1.05 * best + 1e-10


@pytest.mark.slow
@each_case("m, width, seed", [(30, 10, 0), (40, 25, 1), (60, 8, 2), (60, 30, 3)])
def test_is_as_good_as_scikit_learn(m, width, seed, device):
    from sklearn.cluster import KMeans as ScikitKMeans

    phi, scores = points(m, 6, seed), positive(m, seed)
    reference_cost = (
        ScikitKMeans(width, n_init=10, random_state=0).fit(phi.T.numpy(), sample_weight=scores.numpy()).inertia_
    )
    widths = (m // 2, m - m // 2)
    grouping = KMeans()(gram(phi).to(device), scores.to(device), widths, width, generator=generator())
    assert grouping.cost <= 1.05 * reference_cost


@pytest.mark.slow
@given(st.integers(0, 99), st.booleans())
def test_centroids_that_move_little_by_little_equal_those_of_a_fresh_start(seed, twins):
    """Every bit of them: runs of other releases are repeated. Twins make ties, which the lowest group wins."""
    phi, scores = points(24, 3, seed), positive(24, seed)
    G = gram(phi.round() if twins else phi)
    centroids, labels = Centroids(G, scores, 7), torch.arange(24) % 7
    for _ in range(6):
        centroids.move_to(labels)
        distances, to_own = distances_to_centroids(G, scores, labels[None], 7)
        assert torch.equal(centroids.distances, distances[0])
        assert torch.equal(centroids.to_own, to_own[0])
        assert torch.equal(centroids.nearest, distances[0].argmin(0))
        labels = labels.clone()
        labels[torch.randperm(17, generator=generator(seed))[:3] + 7] = torch.randint(
            7, (3,), generator=generator(seed)
        )
        seed += 1


def test_the_start_at_parent_0_counts_among_the_starts():
    phi, scores = points(10), positive(10)
    with_it = grouped(phi, scores, 5)
    assert len(with_it.report["costs"]) == 11
    assert with_it.cost <= min(with_it.report["costs"][:-1])
    assert len(grouped(phi, scores, 6).report["costs"]) == 10  # parent 0 has only five neurons
    alone = grouped(phi, scores, 5, restarts=0)
    started, costs, _ = lloyd(gram(phi), scores, torch.arange(5)[None], squared_distances(gram(phi)))
    assert alone.labels.tolist() == started[0].tolist()
    assert alone.cost == pytest.approx(costs[0])


def test_seeds_are_drawn_by_score_and_distance():
    """The first centre in proportion to the scores, the next never on a twin of one while others are left."""
    phi = torch.tensor([[0.0, 0.0, 5.0, 9.0]]).double()
    scores = torch.tensor([1.0, 2.0, 0.0, 1.0]).double()
    distances = squared_distances(gram(phi))
    first = seed_centres(distances, scores, 1, 4000, generator())[:, 0]
    shares = torch.bincount(first, minlength=4) / 4000
    assert_close(shares, torch.tensor([0.25, 0.5, 0.0, 0.25]), 0.04)
    two = seed_centres(distances, scores, 2, 500, generator())
    assert (phi[0, two[:, 0]] != phi[0, two[:, 1]]).all()
    assert 2 not in two  # without weight nothing is gained there


def test_an_empty_group_takes_no_other_groups_only_neuron():
    """Neuron 0 is drawn as centre twice, so that a group starts empty; it is alone and first among equally bad ones."""
    phi = torch.tensor([[0.0, 9.0, 9.1, 9.2, 9.3]]).double()
    G, scores = gram(phi), torch.ones(5).double()
    for iterations in (0, 1, 300):
        labels, _, _ = lloyd(G, scores, torch.tensor([[0, 0, 1]]), squared_distances(G), iterations)
        assert set(labels[0].tolist()) == {0, 1, 2}


@given(st.integers(2, 12), st.integers(1, 12), st.integers(0, 99))
def test_empty_groups_are_filled_one_after_the_other(m, width, seed):
    """All at once, as if each took the worst-served neuron that is left: of equally bad ones the first."""
    width = min(m, width)
    draw = generator(seed)
    labels = torch.randint(width, (3, m), generator=draw)
    badness = torch.randint(4, (3, m), generator=draw).double()
    expected = labels.clone()
    for row, bad in zip(expected, badness, strict=True):
        for empty in sorted(set(range(width)) - set(row.tolist())):
            counts = torch.bincount(row, minlength=width)
            row[int(torch.where(counts[row] > 1, bad, -1.0).argmax())] = empty
    _refill_empty_groups(labels, badness, width)
    assert labels.tolist() == expected.tolist()
