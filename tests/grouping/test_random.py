"""Groups that know nothing of the neurons."""

import pytest
import torch

from retrofit_core.fusion.grouping import Random
from tests.grouping.points import generator, gram, points, positive
from tests.properties import as_sets


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
