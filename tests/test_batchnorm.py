"""BatchNorm in evaluation mode as part of the affine layer before it."""

import pytest
import torch
from torch import nn

from retrofit_core.networks import batchnorm
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
def test_folded_layer_is_layer_then_norm(kind, bias, affine):
    layer, norm, x = PAIRS[kind](bias, affine)
    both = initialised(nn.Sequential(layer, norm), 3)
    before = layer.weight.detach().clone()
    assert_close(batchnorm.folded(layer, norm)(x), both(x), 1e-12)
    assert torch.equal(layer.weight, before), "folding must not touch the layer that it was asked about"


@each_case("bias, affine", [(True, True), (True, False), (False, True)])
@each_case("kind", PAIRS)
def test_put_back_gives_the_folded_function_with_the_norm_in_place(kind, bias, affine):
    layer, norm, x = PAIRS[kind](bias, affine)
    both = initialised(nn.Sequential(layer, norm), 3)
    fused = batchnorm.folded(layer, norm)
    with torch.no_grad():
        fused.weight.mul_(1.7).add_(0.1)
        fused.bias.sub_(0.4)
    batchnorm.put_back(fused, layer, norm)
    assert_close(both(x), fused(x), 1e-12)


def test_a_bias_without_a_place_is_refused():
    layer, norm, _ = PAIRS["conv"](False, False)
    fused = batchnorm.folded(*initialised(nn.Sequential(layer, norm), 3))
    with pytest.raises(ValueError, match="there is no place for the fused bias.*affine=True"):
        batchnorm.put_back(fused, layer, norm)
