"""What holds for every grouping of the table, on ordinary and on hard inputs."""

import itertools
from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrofit_core.fusion.grouping import (
    GROUPINGS,
    Grouping,
    Hungarian,
    KMeans,
    LocalSearch,
    Random,
    SameIndex,
    assigned,
    ordered_like,
    pairwise_costs,
)
from retrofit_core.fusion.grouping.base import squared_distances
from retrofit_core.fusion.grouping.local_search import _best_swap
from tests import reference
from tests.grouping.points import HARD, generator, gram, numpy, points, positive
from tests.marks import each_case
from tests.networks import normal
from tests.properties import as_groups, as_sets, assert_is_grouping

WIDTHS = {name: 5 if grouping.equal_widths else 4 for name, grouping in GROUPINGS.items()}


@pytest.mark.slow
@each_case("inputs", HARD)
@each_case("name", GROUPINGS)
def test_groups_cover_all_neurons_and_cost_what_they_say(name, inputs, device):
    phi, scores = (tensor.to(device) for tensor in HARD[inputs])
    grouping = GROUPINGS[name]()(gram(phi), scores, (5, 5), WIDTHS[name], generator=generator())
    assert grouping.labels.device.type == device.type
    assert_is_grouping(grouping, 10, WIDTHS[name], scores)
    expected = reference.cluster_cost(*numpy(phi, scores), as_groups(grouping.labels, grouping.width))
    size = (scores @ phi.square().sum(0)).item()
    assert grouping.cost == pytest.approx(expected, rel=1e-8, abs=1e-9 * size)


@each_case("name", GROUPINGS)
def test_the_same_generator_gives_the_same_groups(name, device):
    phi, scores = points(10).to(device), positive(10).to(device)
    first, second = (GROUPINGS[name]()(gram(phi), scores, (5, 5), WIDTHS[name], generator=generator(3)) for _ in "ab")
    assert first.labels.tolist() == second.labels.tolist()


@pytest.mark.parametrize("name", ["hungarian", "kmeans", "local_search"])
def test_permuted_twins_find_each_other(name):
    """C13: as many groups as distinct neurons leave no error, in whatever order the twins come."""
    phi = points(6, dims=5)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    grouping = GROUPINGS[name]()(
        gram(torch.cat([phi, phi[:, order]], 1)), positive(12), (6, 6), 6, generator=generator()
    )
    assert grouping.cost < 1e-12
    assert as_sets(grouping.labels) == {frozenset({int(order[j]), 6 + j}) for j in range(6)}


@given(st.integers(0, 30))
def test_pairwise_costs_are_the_costs_of_joining(seed):
    """C4: s_i s_j / (s_i + s_j) |phi_i - phi_j|^2 is what two neurons cost around their weighted mean."""
    phi, scores = points(7, seed=seed), positive(7, seed)
    costs = pairwise_costs(gram(phi), scores, 3)
    for i in range(3):
        for j in range(4):
            expected = reference.cluster_cost(*numpy(phi, scores), [[i, 3 + j]])
            assert costs[i, j].item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


# --- hungarian matching against all matchings, on the true cost of the refitted level ---------------------------------


@pytest.mark.slow
@given(st.integers(1, 6), st.integers(0, 99))
def test_equals_brute_force_over_all_matchings(width, seed):
    phi, scores = points(2 * width, seed=seed), positive(2 * width, seed)
    grouping = Hungarian()(gram(phi), scores, (width, width), width)
    best = min(reference.cluster_cost(*numpy(phi, scores), groups) for groups in reference.matchings(width))
    assert grouping.cost == pytest.approx(best, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("widths, width", [((5, 5, 5), 5), ((5, 4), 5), ((5, 5), 4), ((5,), 5)])
def test_other_than_two_equal_parents_are_refused(widths, width):
    m = sum(widths)
    with pytest.raises(ValueError, match=r"hungarian pairs exactly two parents.*Use grouping='kmeans'"):
        Hungarian()(gram(points(m)), positive(m), widths, width)


# --- local search by single swaps: never worse than its start, far within the bound that is claimed -------------------


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


# --- numbering groups like a reference, class heads, and the agreement of groupings -----------------------------------


@pytest.mark.parametrize("references", [3, 4, 6])
@given(seed=st.integers(0, 40))
def test_groups_are_numbered_like_the_nearest_references(references, seed):
    phi, scores = points(10, seed=seed), positive(10, seed)
    labels = torch.arange(10) % 4
    grouping = ordered_like(Grouping(labels, 4, 1.0), gram(phi), scores, torch.arange(references))
    assert as_sets(grouping.labels) == as_sets(labels)
    centroids = [reference.target(*numpy(phi, scores), group) for group in as_groups(labels, 4)]
    distance = [[((c - phi[:, r].numpy()) ** 2).sum() for r in range(references)] for c in centroids]
    size = max(4, references)
    padded = [[distance[k][r] if k < 4 and r < references else 0.0 for r in range(size)] for k in range(size)]
    best = min(permutations(range(size)), key=lambda order: sum(padded[k][order[k]] for k in range(size)))
    placed = [k for r in range(references) for k in range(4) if best[k] == r]  # groups with a reference, in its order
    if references >= 4:
        assert [as_groups(grouping.labels, 4).index(as_groups(labels, 4)[k]) for k in placed] == [0, 1, 2, 3]
    else:
        for position, k in enumerate(placed):
            assert as_groups(grouping.labels, 4)[position] == as_groups(labels, 4)[k]


def test_class_c_goes_with_class_c():
    phi, scores = points(12), positive(12)
    grouping = SameIndex()(gram(phi), scores, (4, 4, 4), 4)
    assert as_groups(grouping.labels, 4) == [[k, 4 + k, 8 + k] for k in range(4)]
    assert grouping.cost == pytest.approx(reference.cluster_cost(*numpy(phi, scores), as_groups(grouping.labels, 4)))
    with pytest.raises(ValueError, match="same_index needs equal widths"):
        SameIndex()(gram(phi), scores, (6, 6), 5)


# --- groups that know nothing of the neurons --------------------------------------------------------------------------


def test_neurons_and_scores_decide_nothing_and_the_seed_everything():
    drawn = [
        Random()(gram(points(9, seed=k)), positive(9, k), (5, 4), 4, generator=generator(seed)).labels
        for k, seed in ((0, 3), (1, 3), (0, 4))
    ]
    assert torch.equal(drawn[0], drawn[1])
    assert as_sets(drawn[0]) != as_sets(drawn[2])


@pytest.mark.slow
def test_every_neuron_falls_into_every_group_with_equal_chance():
    """Of 4,000 draws a third, within five standard deviations; groups of all possible sizes occur."""
    draws, source = 4000, generator()
    counts, sizes = torch.zeros(5, 3), set()
    for _ in range(draws):
        labels = Random()(torch.eye(5), torch.ones(5), (2, 3), 3, generator=source).labels
        counts[torch.arange(5), labels] += 1
        sizes.add(tuple(sorted(torch.bincount(labels, minlength=3).tolist())))
    assert ((counts / draws - 1 / 3).abs() < 5 * (2 / 9 / draws) ** 0.5).all()
    assert sizes == {(1, 1, 3), (1, 2, 2)}


def test_as_many_groups_as_neurons_leave_each_alone_and_more_are_refused():
    labels = Random()(gram(points(6)), positive(6), (2, 4), 6, generator=generator()).labels
    assert sorted(labels.tolist()) == list(range(6))
    with pytest.raises(ValueError, match="7 fused neurons for 6 parents' neurons.*at most 6"):
        Random().check((2, 4), 7)


# --- the assignment is optimal, and a rule decides where several are, whatever rounding says --------------------------


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
