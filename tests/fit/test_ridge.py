"""The closed form writes what it solved into the level."""

import pytest
import torch

from retrofit_core.fusion.moments import Rows, solve
from retrofit_core.networks.levels import partition, rows
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
