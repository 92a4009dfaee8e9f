"""Convolutions in one and three dimensions, beside their twins in two: a kernel of height 1 does the same."""

import pytest
import torch
from torch import nn

from retrofit_core import METHODS
from retrofit_core.networks.levels import partition
from tests.marks import each_case
from tests.networks import initialised, labels, normal

X, Y = normal(60, 2, 12), labels(60, 3)


def convolution(dimensions: int, *channels: int, kernel: int, **facts):
    """A convolution in one dimension, or the same in two of which the first is one pixel high."""
    if dimensions == 1:
        return nn.Conv1d(*channels, kernel, **facts)
    facts = {
        name: value if name in ("groups", "padding_mode") else (int(name != "padding"), value)
        for name, value in facts.items()
    }
    return nn.Conv2d(*channels, (1, kernel), **facts)


class Block(nn.Module):
    """A residual block with BatchNorms, its second layer one channel at a time."""

    def __init__(self, dimensions: int, width: int) -> None:
        super().__init__()
        norm = nn.BatchNorm1d if dimensions == 1 else nn.BatchNorm2d
        self.conv1, self.norm1 = convolution(dimensions, width, width, kernel=3, padding=1), norm(width)
        self.conv2 = convolution(dimensions, width, width, kernel=3, padding=1, groups=width)
        self.norm2 = norm(width)

    def forward(self, x):
        return (x + self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))).relu()


class Signals(nn.Module):
    """A strided stem with circular padding, a block, a norm in front of a dilated layer, a mean over positions."""

    def __init__(self, dimensions: int, width: int = 5) -> None:
        super().__init__()
        self.dimensions = dimensions
        self.stem = convolution(dimensions, 2, width, kernel=5, stride=2, padding=2, padding_mode="circular")
        self.block = Block(dimensions, width)
        self.norm = nn.BatchNorm1d(width) if dimensions == 1 else nn.BatchNorm2d(width)
        self.last = convolution(dimensions, width, 4, kernel=2, dilation=2)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = x if self.dimensions == 1 else x[:, :, None]
        x = self.last(self.norm(self.block(self.stem(x).relu())))
        return self.head(x.relu().flatten(2).mean(2))


def twins(seed):
    one = initialised(Signals(1), seed)
    two = Signals(2).double().eval()
    two.load_state_dict({name: value.view_as(two.state_dict()[name]) for name, value in one.state_dict().items()})
    assert torch.allclose(one(X), two(X), atol=1e-12)
    return one, two


@pytest.mark.slow
@each_case("name", ["KF-Linear", "HF-Linear", "OTFusion", "Git-Re-Basin", "ZipIt", "RegMean", "PLeaS"])
def test_one_dimension_is_two_of_which_one_is_a_pixel_high(name):
    pairs = zip(twins(0), twins(1), strict=True)
    score = {"importance": "conductance", "importance_data": "fusion"} if METHODS[name].takes.importance else {}
    one, two = (METHODS[name](list(parents), (X, Y), **score).model for parents in pairs)
    assert torch.allclose(one(X), two(X), atol=1e-8)
    assert not torch.allclose(one(X), twins(0)[0](X), atol=1e-2)


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
