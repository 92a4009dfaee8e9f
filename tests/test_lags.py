"""Moments by lags against the unfolded rows."""

import torch
from torch import nn

from retrofit_core.fusion.moments import MomentSums, cholesky, product_dtype
from retrofit_core.fusion.moments.lags import LagSums
from retrofit_core.networks.levels import unfolded
from tests.marks import each_case
from tests.properties import assert_close


@each_case("shape", [(3, 4, 5, 6), (2, 3, 1, 1), (2, 3, 1, 4), (2, 2, 2, 2), (1, 5, 3, 2)])
@each_case("bias", [True, False])
def test_lags_give_the_moments_of_the_unfolded_rows(shape, bias, device):
    draw = torch.Generator().manual_seed(0)
    conv = nn.Conv2d(shape[1], 7, 3, padding=1, bias=bias).double()
    h = torch.randn(shape, generator=draw, dtype=torch.float64)
    z = torch.randn(shape[0] * shape[2] * shape[3], 11, generator=draw, dtype=torch.float64)
    p = 9 * shape[1] + bias
    unfolding = MomentSums(11, p, bias=bias)
    unfolding.add(z, unfolded(conv, h, ones=bias))
    sums = LagSums(shape[1], 11, bias=bias, device=device)
    half = shape[0] // 2
    rows = half * shape[2] * shape[3]
    for part, outputs in ((h[:half], z[:rows]), (h[half:], z[rows:])):  # two batches
        if len(part):
            sums.add(outputs.to(device), part.to(device))
    moments, expected = sums.finish(), unfolding.finish()
    assert_close(moments.xx.cpu(), expected.xx, 1e-12)
    assert_close(moments.xz.cpu(), expected.xz, 1e-12)
    assert_close(moments.zz.cpu(), expected.zz, 1e-12)


SMALL_MAPS = [(size, size) for size in range(1, 9)] + [(1, 2), (1, 7), (5, 1), (2, 8)]


def images(channels: int, height: int, width: int, samples: int, which: str) -> torch.Tensor:
    """float32 inputs of a convolution, as they stand behind a ReLU; "borders" are nearly dark but for the outermost pixels,
    so that what a corner of the kernel reads is a small part of the whole."""
    draw = torch.Generator().manual_seed(1)
    h = torch.randn(samples, channels, height, width, generator=draw).relu()
    if which == "borders" and min(height, width) > 2:
        h[:, :, 1:-1, 1:-1] *= 1e-4
    if which == "one corner":
        h[:, :, 1:, :] *= 1e-5
        h[:, :, :, 1:] *= 1e-5
    return h


@each_case("which", ["plain", "borders", "one corner"])
@each_case("height, width", SMALL_MAPS)
def test_float32_products_stay_near_those_of_float64_rows(height, width, which, device):
    """Every entry within eps of |x_i| |x_j|, as if unfolded: the border is never a difference of large numbers. Diagonals are
    not negative, and the factor exists at the weakest ridge that float32 products are used for, with fewer rows than columns."""
    channels, samples = 16, 12
    conv = nn.Conv2d(channels, 3, 3, padding=1)
    h = images(channels, height, width, samples, which)
    z = torch.randn(samples * height * width, 5, generator=torch.Generator().manual_seed(2))
    sums = LagSums(channels, 5, bias=True, device=device)
    sums.add(z[: 7 * height * width].to(device), h[:7].to(device))
    sums.add(z[7 * height * width :].to(device), h[7:].to(device))
    moments = sums.finish()
    x = unfolded(conv, h, torch.float64, ones=True)
    xx, xz = moments.xx.cpu(), moments.xz.cpu()
    assert (xx.diagonal() >= 0).all()
    assert torch.equal(xx, xx.T)
    lengths = x.norm(dim=0)
    bound = 4 * torch.finfo(torch.float32).eps
    assert ((xx - x.T @ x).abs() <= bound * lengths[:, None] * lengths).all()
    assert ((xz - x.T @ z.double()).abs() <= bound * lengths[:, None] * z.double().norm(dim=0)).all()
    strength = 1e-3 * moments.energy
    assert cholesky(moments.matrices, strength, True)[1] == strength  # not raised


def test_products_are_float32_only_where_the_ridge_outweighs_their_rounding():
    cpu = torch.device("cpu")
    assert product_dtype("auto", torch.float32, cpu) == torch.float32
    assert product_dtype("0.1x", torch.float32, cpu) == torch.float32
    assert product_dtype(None, torch.float32, cpu) == torch.float32  # no ridge: a gradient fit
    for ridge in (0, 10.0, 1e-3, "0.0001x"):  # numbers are on sums: how large they are is not known beforehand
        assert product_dtype(ridge, torch.float32, cpu) == torch.float64
    assert product_dtype("auto", torch.float64, cpu) == torch.float64
