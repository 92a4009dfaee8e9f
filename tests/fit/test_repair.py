"""`Ridge(repair=True)`: fused neurons are fitted to targets that vary as much as the neurons they stand for."""

import pytest
import torch
from torch import nn

from retrofit_core import fuse
from retrofit_core.fusion.fit import Ridge
from tests.networks import CNN_SHAPE, mlp, normal, residual
from tests.properties import assert_close, assert_same_tensors

DATA = normal(50, 6)


def rows(h, bias):
    return torch.cat([h, torch.ones(len(h), 1).double()], 1) if bias else h


@pytest.mark.slow
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("grouping", ["kmeans", "hungarian"])
@torch.no_grad()
def test_equals_plain_least_squares_on_targets_that_vary_as_their_neurons(bias, grouping):
    parents = [mlp(bias=bias), mlp(bias=bias, seed=1)]
    result = fuse(parents, DATA, grouping=grouping, fit=Ridge(ridge=0.0, repair=True))
    own, fused = [DATA, DATA], DATA
    layers = [[layer for layer in model if isinstance(layer, nn.Linear)] for model in (*parents, result.model)]
    for level, (*theirs, made) in zip(result.levels, zip(*layers, strict=True), strict=True):
        z = [layer(h) for layer, h in zip(theirs, own, strict=True)]
        members = torch.cat(z, 1)
        columns = []
        for k in range(level.width):
            inside = (level.labels == k).nonzero()[:, 0]
            target = members[:, inside].mean(1)
            if level is not result.levels[-1]:
                centre = target.mean() if bias else 0.0
                spread = [
                    (member - (member.mean() if bias else 0.0)).square().mean().sqrt() for member in members.T[inside]
                ]
                spread = torch.stack(spread).mean() / (target - centre).square().mean().sqrt()
                target = centre + spread * (target - centre)
            columns.append(target)
        V = torch.linalg.lstsq(rows(fused, bias), torch.stack(columns, 1)).solution
        assert_close(torch.cat([made.weight.T, made.bias[None]]) if bias else made.weight.T, V, 1e-7)
        own, fused = [h.relu() for h in z], made(fused).relu()


@pytest.mark.slow
def test_levels_whose_outputs_are_added_to_a_stream_keep_their_targets():
    parents, x = [residual(), residual(seed=1)], normal(60, *CNN_SHAPE)
    plain, varied = (fuse(parents, x, fit=Ridge(repair=repair)) for repair in (False, True))
    assert [level.missing_error == level.missing_error for level in varied.levels].count(True)
    with pytest.raises(AssertionError):
        assert_same_tensors(varied.model, plain.model)


def test_errors_add_up_to_the_cost_of_what_comes_out():
    parents = [mlp(), mlp(seed=1)]
    result = fuse(parents, DATA, fit=Ridge(repair=True))
    level = result.levels[0]
    with torch.no_grad():
        z, made = torch.cat([parent[0](DATA) for parent in parents], 1), result.model[0](DATA)
    cost = ((made[:, level.labels] - z).square().sum(0) * level.scores).sum().item()
    assert level.cost == pytest.approx(cost, rel=1e-6)
