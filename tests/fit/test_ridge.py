"""The closed form writes what it solved into the level."""

import numpy as np
import pytest
import torch

from retrofit_core.fusion.moments import Rows, solve
from retrofit_core.networks.levels import partition, rows
from retrofit_core.system.device import Stopwatch
from tests.networks import CNN_SHAPE, cnn, mlp, normal
from tests.properties import assert_close


def ridge(level, solution, A):
    V = solution.weights(A)
    level.write(V)
    return V


def rows_of(level, boundary):
    x = level.inputs(boundary).detach()
    x = torch.cat([x, torch.ones(len(x), 1).double()], 1) if level.affine.bias is not None else x
    return Rows(x, rows(level.module(boundary), level.axis).detach(), level.affine.bias is not None)


@pytest.mark.parametrize("make, shape", [(mlp, (6,)), (cnn, CNN_SHAPE)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_level_fitted_to_itself_keeps_its_weights(make, shape, bias):
    """C22: own inputs, own outputs, full rank, lambda = 0; convolutions by unfolded rows."""
    parent, blank = make(bias=bias), make(bias=bias, seed=9)
    h = normal(120, *shape)
    for source, level in zip(partition(parent, h[:2]), partition(blank, h[:2]), strict=True):
        sums = rows_of(source, h)
        V = ridge(level, solve(sums.moments(), 0.0), torch.eye(source.width).double())
        assert_close(level.affine.weight, source.affine.weight, 1e-7)
        if bias:
            assert_close(level.affine.bias, source.affine.bias, 1e-7)
        assert_close(sums.x @ V, rows(level.module(h), level.axis), 1e-9)
        h = source.module(h)


def test_more_ridge_means_smaller_weights_and_a_free_bias():
    model, x = mlp((6, 3)), normal(50, 6)
    level = partition(model, x)[0]
    sums = rows_of(level, x)
    norms = []
    for strength in (0.0, 10.0, 1e3, 1e9):
        ridge(level, solve(sums, strength), torch.eye(3).double())
        norms.append(level.affine.weight.norm().item())
    assert norms == sorted(norms, reverse=True)
    assert norms[-1] < 1e-6
    assert_close(level.affine.bias, sums.z.mean(0), 1e-5)  # not penalised: the mean of the targets is left


def test_float32_levels_take_the_rounded_solution():
    model, x = mlp((6, 3)).float(), normal(50, 6)
    level = partition(model, x[:2].float())[0]
    z = x @ normal(6, 4, seed=1)
    sums = Rows(torch.cat([x, torch.ones(50, 1).double()], 1), z, True)
    A = torch.full((4, 3), 0.25).double()
    V = ridge(level, solve(sums, 0.1), A)
    assert level.affine.weight.dtype == torch.float32
    assert np.abs(level.affine.weight.detach().numpy() - V[:-1].T.numpy()).max() < 1e-6


def test_phases_add_up():
    clock = Stopwatch(torch.device("cpu"))
    for _ in range(2):
        with clock.phase("solve"):
            pass
    with pytest.raises(KeyError), clock.phase("fit"):
        raise KeyError
    seconds = clock.read()
    assert seconds.keys() == {"solve", "fit"} and min(seconds.values()) >= 0
    assert clock.read() == {}
