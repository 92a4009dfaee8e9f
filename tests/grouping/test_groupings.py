"""What holds for every grouping of the table, on ordinary and on hard inputs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrofit_core.fusion.grouping import (
    GROUPINGS,
    Hungarian,
    pairwise_costs,
)
from tests import reference
from tests.grouping.points import HARD, generator, gram, numpy, points, positive
from tests.marks import each_case
from tests.properties import as_groups, assert_is_grouping

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


@pytest.mark.parametrize("name", ["kmeans", "random"])
def test_more_groups_than_neurons_are_refused(name):
    with pytest.raises(ValueError, match="6 fused neurons for 4 parents' neurons"):
        GROUPINGS[name]()(gram(points(4)), positive(4), (2, 2), 6)
