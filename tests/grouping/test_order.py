"""Numbering groups like a reference, class heads, and the agreement of groupings."""

from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrofit_core.fusion.grouping import Grouping, SameIndex, ordered_like
from tests import reference
from tests.grouping.points import gram, numpy, points, positive
from tests.properties import as_groups, as_sets


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


def test_groups_of_one_parent_take_its_order():
    phi = points(6)
    shuffled = torch.tensor([4, 2, 0, 1, 5, 3])
    grouping = ordered_like(Grouping(shuffled, 6, 0.0), gram(phi), positive(6), torch.arange(6))
    assert grouping.labels.tolist() == list(range(6))


def test_class_c_goes_with_class_c():
    phi, scores = points(12), positive(12)
    grouping = SameIndex()(gram(phi), scores, (4, 4, 4), 4)
    assert as_groups(grouping.labels, 4) == [[k, 4 + k, 8 + k] for k in range(4)]
    assert grouping.cost == pytest.approx(reference.cluster_cost(*numpy(phi, scores), as_groups(grouping.labels, 4)))
    with pytest.raises(ValueError, match="same_index needs equal widths"):
        SameIndex()(gram(phi), scores, (6, 6), 5)
