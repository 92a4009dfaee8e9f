"""BatchNorm in evaluation mode as part of the affine layer before it."""

import pytest
import torch
from torch import nn

from retrofit_core.networks.levels import partition
from tests.marks import each_case
from tests.networks import initialised, normal
from tests.properties import assert_close

PAIRS = {
    "linear": lambda bias, affine: (nn.Linear(5, 4, bias=bias), nn.BatchNorm1d(4, affine=affine), normal(9, 5)),
    "conv": lambda bias, affine: (
        nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=bias),
        nn.BatchNorm2d(4, affine=affine, eps=1e-2),
        normal(3, 2, 6, 6),
    ),
}


@each_case("bias", [True, False])
@each_case("affine", [True, False])
@each_case("kind", PAIRS)
def test_a_norm_is_part_of_its_layer_until_it_is_put_back(kind, bias, affine):
    layer, norm, x = PAIRS[kind](bias, affine)
    both = initialised(nn.Sequential(layer, norm), 3)
    expected, before = both(x), layer.weight.detach().clone()
    (level,) = partition(both, x)
    (fused,) = level.form.layers
    assert_close(fused(x), expected, 1e-12)
    assert torch.equal(layer.weight, before), "folding must not touch the layer that it was asked about"
    with torch.no_grad():
        fused.weight.mul_(1.7).add_(0.1)
        fused.bias.sub_(0.4)
    if bias or affine:
        level.put_back()
        assert_close(both(x), fused(x), 1e-12)
    else:
        with pytest.raises(ValueError, match="no place for the fused bias.*affine=True"):
            level.put_back()
