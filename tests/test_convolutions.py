"""Convolutions in one and three dimensions, beside their twins in two: a kernel of height 1 does the same."""

import pytest
import torch
from torch import nn

from retrofit_core.networks.levels import partition
from tests.networks import normal


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv1d(2, 3, 4, stride=3, padding=2, dilation=2), (2, 11)),
        (nn.Conv1d(2, 3, 3, padding="same", padding_mode="reflect"), (2, 6)),
        (nn.Conv1d(3, 3, 3, groups=3), (3, 6)),
        (nn.Conv1d(4, 6, 3, groups=2), (4, 6)),
        (nn.Conv3d(2, 3, (1, 2, 3), stride=(1, 2, 1), padding=(0, 1, 1)), (2, 3, 4, 5)),
    ],
)
def test_input_rows_times_weights_are_the_outputs(layer, shape):
    model, x = nn.Sequential(layer).double(), normal(7, *shape)
    (level,) = partition(model, x)
    V, outputs = level.weights(), model(x).movedim(1, -1).flatten(0, -2)
    if level.form.parts:
        of_parts = level.form.rows([x], ones=level.form.bias)
        rows = torch.einsum("ngp,pgb->ngb", of_parts, V.unflatten(1, (level.form.parts, -1))).flatten(1)
    else:
        rows = level.inputs(x, ones=True) @ V
    assert torch.allclose(rows, outputs, atol=1e-12)
    assert level.kind == type(layer).__name__
