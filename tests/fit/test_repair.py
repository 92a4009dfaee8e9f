"""`Ridge(repair=True)`: fused neurons are fitted to targets that vary as much as the neurons they stand for."""

import pytest
import torch
from torch import nn

from retrofit_core import fuse
from retrofit_core.fusion.fit import Ridge
from retrofit_core.networks.symmetry import shuffled
from tests.networks import CNN_SHAPE, batchnorm_cnn, cnn, mlp, normal, residual
from tests.properties import assert_close, assert_same_function, assert_same_tensors

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


@torch.no_grad()
def test_the_first_level_varies_as_much_as_the_parents_do():
    parents = [cnn(), cnn(seed=1)]
    x = normal(40, *CNN_SHAPE)
    for repair, least, most in ((True, 1 - 1e-6, 1 + 1e-6), (False, 0.0, 0.9)):
        fused = fuse(parents, x, grouping="hungarian", fit=Ridge(ridge=0.0, repair=repair)).model
        goal, made = (
            [next(m for m in model.modules() if isinstance(m, nn.Conv2d))(x) for model in models]
            for models in (parents, [fused])
        )
        share = made[0].std((0, 2, 3)).mean() / torch.stack([h.std((0, 2, 3)) for h in goal]).mean()
        assert least <= share <= most


@pytest.mark.slow
@pytest.mark.parametrize("make, shape", [(cnn, CNN_SHAPE), (batchnorm_cnn, CNN_SHAPE), (residual, CNN_SHAPE)])
def test_a_shuffled_copy_is_found_again(make, shape):
    model, x = make(), normal(60, *shape)
    twin = shuffled(model, x, torch.Generator().manual_seed(5))
    fused = fuse([model, twin], x, grouping="hungarian", fit=Ridge(ridge=0.0, repair=True)).model
    assert_same_function(fused, model, x, 1e-6)


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
