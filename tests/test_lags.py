"""Moments by lags against the unfolded rows."""

import pytest
import torch
from torch import nn

from retrofit_core import lags
from retrofit_core.lags import LagSums, applies
from retrofit_core.levels import unfolded
from retrofit_core.moments import Moments, product_dtype
from tests.properties import assert_close


@pytest.mark.parametrize("shape", [(3, 4, 5, 6), (2, 3, 1, 1), (2, 3, 1, 4), (2, 2, 2, 2), (1, 5, 3, 2)])
@pytest.mark.parametrize("bias", [True, False])
def test_lags_give_the_moments_of_the_unfolded_rows(shape, bias, device):
    draw = torch.Generator().manual_seed(0)
    conv = nn.Conv2d(shape[1], 7, 3, padding=1, bias=bias).double()
    h = torch.randn(shape, generator=draw, dtype=torch.float64)
    z = torch.randn(shape[0] * shape[2] * shape[3], 11, generator=draw, dtype=torch.float64)
    p = 9 * shape[1] + bias
    expected = Moments.zeros(11, p, bias=bias)
    expected.accumulate(z, unfolded(conv, h, ones=bias))
    found = Moments.zeros(11, p, bias=bias, device=device)
    sums = LagSums(shape[1], 11, device)
    half = shape[0] // 2
    rows = half * shape[2] * shape[3]
    for part, outputs in ((h[:half], z[:rows]), (h[half:], z[rows:])):  # two batches
        if len(part):
            found.accumulate(outputs.to(device))
            sums.add(part.to(device), outputs.to(device))
    sums.write(found.symmetric())
    expected.symmetric()
    assert_close(found.xx.cpu(), expected.xx, 1e-12)
    assert_close(found.xz.cpu(), expected.xz, 1e-12)
    assert_close(found.zz.cpu(), expected.zz, 1e-12)


def test_only_plain_3x3_convolutions_take_it(monkeypatch):
    monkeypatch.setattr(lags, "MIN_CHANNELS", 4)
    assert applies(nn.Conv2d(4, 2, 3, padding=1)) and applies(nn.Conv2d(4, 2, 3, padding="same", bias=False))
    for other in (
        nn.Conv2d(4, 2, 3),
        nn.Conv2d(4, 2, 3, padding=1, stride=2),
        nn.Conv2d(4, 2, 3, padding=2, dilation=2),
        nn.Conv2d(4, 2, 5, padding=2),
        nn.Conv2d(4, 4, 3, padding=1, groups=2),
        nn.Conv2d(4, 2, 3, padding=1, padding_mode="reflect"),
        nn.Conv2d(3, 2, 3, padding=1),
        nn.Linear(4, 2),
        None,
    ):
        assert not applies(other)


def test_products_are_float32_only_where_the_ridge_outweighs_their_rounding():
    cpu = torch.device("cpu")
    assert product_dtype("auto", torch.float32, cpu) == torch.float32
    assert product_dtype("0.1x", torch.float32, cpu) == torch.float32
    assert product_dtype(None, torch.float32, cpu) == torch.float32  # no ridge: a gradient fit
    for ridge in (0, 10.0, 1e-3, "0.0001x"):  # numbers are on sums: how large they are is not known beforehand
        assert product_dtype(ridge, torch.float32, cpu) == torch.float64
    assert product_dtype("auto", torch.float64, cpu) == torch.float64
