"""Scores are computed once for the same networks and data, and again for all that differs."""

import pytest
import torch

from retrofit_core.fusion.importance import as_importance, importance_scores, shared
from retrofit_core.fusion.importance.parents import parents_scores
from retrofit_core.networks.architectures import build
from retrofit_core.networks.levels import partition
from retrofit_core.system.monitor import Monitor

MLP = {"architecture": "mlp", "sizes": [5, 4, 3]}


@pytest.fixture
def computed(monkeypatch):
    """The scores that were computed: the levels' number, one entry each."""
    seen = []

    def counting(levels, *rest, **options):
        seen.append(len(levels))
        return importance_scores(levels, *rest, **options)

    monkeypatch.setattr("retrofit_core.fusion.importance.parents.importance_scores", counting)
    monkeypatch.setattr(shared, "_kept", type(shared._kept)())
    return seen


def scored(networks, x, y, importance):
    levels = [partition(network, x[:2]) for network in networks]
    return parents_scores(levels, importance, [(x, y)] * len(levels), torch.device("cpu"), Monitor())


def test_scores_are_computed_once(computed, generator):
    networks = [build(MLP, seed=seed).eval() for seed in (0, 1)]
    x, y = torch.randn(6, 5, generator=generator), torch.tensor([0, 1, 2, 0, 1, 2])
    conductance = as_importance("conductance")
    alone = scored(networks, x, y, conductance)
    with shared.sharing("ours") as first:
        before = scored(networks, x, y, conductance)
    with shared.sharing("ours") as second:
        after = scored(networks, x, y, conductance)
    assert len(computed) == 4 and not first.seconds and second.seconds > 0
    for one, other, third in zip(alone, before, after, strict=True):
        assert all(map(torch.equal, one.values, other.values)) and all(map(torch.equal, one.values, third.values))
        assert one.report == third.report
    after[0].values[0].zero_()  # no one else's

    def again(networks=networks, x=x, y=y, importance=conductance, name="ours"):
        count = len(computed)
        with shared.sharing(name):
            scored(networks, x, y, importance)
        return len(computed) - count

    assert again() == 0
    assert again(name="others") == again(x=x + 1) == again(y=y.flip(0)) == 2
    assert again(importance=as_importance("conductance", normalise_scores=False)) == 2
    with torch.no_grad():
        networks[1].get_parameter(next(name for name, _ in networks[1].named_parameters())).add_(1)
    assert again() == 1
    scored(networks, x, y, conductance)
    assert again() == 0
