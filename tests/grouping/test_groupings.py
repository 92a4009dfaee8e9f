"""What holds for every grouping of the table, on ordinary and on hard inputs."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrofit_core.fusion.grouping import GROUPINGS, pairwise_costs
from retrofit_core.fusion.grouping.base import squared_distances
from retrofit_core.fusion.targets import weighted_means
from tests import reference
from tests.grouping.points import HARD, generator, gram, numpy, points, positive
from tests.marks import each_case
from tests.properties import as_groups, as_sets, assert_close, assert_is_grouping

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


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPINGS)
@given(factor=st.floats(1e-5, 1e5), seed=st.integers(0, 5))
def test_scaling_all_scores_changes_no_group(name, factor, seed):
    """C10."""
    phi, scores = points(10, seed=seed), positive(10, seed)
    plain, scaled = (
        GROUPINGS[name]()(gram(phi), s, (5, 5), WIDTHS[name], generator=generator()) for s in (scores, scores * factor)
    )
    assert as_sets(plain.labels) == as_sets(scaled.labels)  # of equal starts another may win by rounding
    assert scaled.cost == pytest.approx(factor * plain.cost)


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


@pytest.mark.parametrize("name", ["hungarian", "kmeans", "local_search"])
def test_the_order_of_a_parents_neurons_does_not_matter(name):
    """C9: groups and cost move along with the neurons."""
    phi, scores = points(10, seed=2), positive(10, 2)
    order = torch.cat([torch.randperm(5, generator=generator(1)), 5 + torch.randperm(5, generator=generator(2))])
    plain = GROUPINGS[name]()(gram(phi), scores, (5, 5), 5, generator=generator())
    moved = GROUPINGS[name]()(gram(phi[:, order]), scores[order], (5, 5), 5, generator=generator())
    assert moved.cost == pytest.approx(plain.cost)
    assert {frozenset(int(order[j]) for j in group) for group in as_sets(moved.labels)} == as_sets(plain.labels)


@given(st.lists(st.integers(0, 3), min_size=4, max_size=12), st.integers(0, 9))
def test_columns_of_the_averaging_matrix_are_weighted_means(labels, seed):
    used = sorted(set(labels))
    labels = torch.tensor([used.index(label) for label in labels])
    scores = positive(len(labels), seed) * (torch.arange(len(labels)) % 3 > 0)  # a third of the scores is zero
    A = weighted_means(labels, scores, len(used)).A
    z = points(len(labels), 5, seed)
    for k, group in enumerate(as_groups(labels, len(used))):
        expected = reference.target(*numpy(z, scores), group)
        assert_close((z @ A)[:, k], torch.from_numpy(expected), 1e-12)


@given(st.integers(0, 30))
def test_pairwise_costs_are_the_costs_of_joining(seed):
    """C4: s_i s_j / (s_i + s_j) |phi_i - phi_j|^2 is what two neurons cost around their weighted mean."""
    phi, scores = points(7, seed=seed), positive(7, seed)
    costs = pairwise_costs(gram(phi), scores, 3)
    for i in range(3):
        for j in range(4):
            expected = reference.cluster_cost(*numpy(phi, scores), [[i, 3 + j]])
            assert costs[i, j].item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_distances_come_from_inner_products_and_are_never_negative():
    phi = points(6)
    expected = (phi[:, :, None] - phi[:, None, :]).square().sum(0)
    assert_close(squared_distances(gram(phi)), expected, 1e-12)
    assert (squared_distances(gram(points(1, seed=3).repeat(1, 6) * 1e5)) >= 0).all()
