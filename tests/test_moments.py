"""The moment form against the rows themselves, the solve against least squares, Theorems 1 and 2."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from retrofit_core.fusion.moments import (
    MomentSums,
    Rows,
    approximation_error,
    cholesky,
    cross_error,
    grouping_error,
    product_dtype,
    solve,
)
from retrofit_core.fusion.moments import sums as products
from retrofit_core.fusion.moments.lags import LagSums
from retrofit_core.fusion.targets import Targets, excess, weighted_means
from tests import reference
from tests.marks import each_case
from tests.networks import normal
from tests.properties import as_groups, assert_close

M, D = 6, 4
LABELS = torch.tensor([0, 1, 2, 3, 1, 0])


def problem(rows: int = 40, inputs: int = 5, *, bias: bool = True, seed: int = 0, device: str = "cpu"):
    """Rows x (with ones), z that x explains in part, and scores."""
    x, noise = normal(rows, inputs, seed=seed), normal(rows, M, seed=seed + 1)
    z = x @ normal(inputs, M, seed=seed + 2) + 0.7 * noise + 0.5
    x = torch.cat([x, torch.ones(rows, 1).double()], 1) if bias else x
    scores = normal(M, seed=seed + 3).abs() + 0.1
    return Rows(x.to(device), z.to(device), bias), scores.to(device)


HARD = {
    "plain": lambda: problem(),
    "without bias": lambda: problem(bias=False),
    "fewer rows than inputs": lambda: problem(rows=4, inputs=9),
    "fewer rows, no bias": lambda: problem(rows=4, inputs=9, bias=False),
    "dead input": lambda: _changed(lambda x, z: x[:, 1].zero_()),
    "twin inputs": lambda: _changed(lambda x, z: x[:, 2].copy_(x[:, 3])),
    "dead output": lambda: _changed(lambda x, z: z[:, 2].zero_()),
    "all inputs dead": lambda: _changed(lambda x, z: x[:, :-1].zero_()),
    "zero scores": lambda: (problem()[0], torch.tensor([0.0, 1.0, 0.0, 2.0, 0.0, 0.0]).double()),
}


def _changed(change):
    sums, scores = problem()
    change(sums.x, sums.z)
    return sums, scores


# --- sums ------------------------------------------------------------------------------------------------------------


def test_sums_are_products_of_the_rows(device):
    rows, _ = problem(device=device)
    sums = rows.moments()
    x, z = rows.x, rows.z
    for total, expected in ((sums.zz, z.T @ z), (sums.sz, z.sum(0)), (sums.xx, x.T @ x), (sums.xz, x.T @ z)):
        assert_close(total, expected, 1e-13)
    assert (sums.rows, rows.rows) == (40, 40)
    assert_close(rows.zz, sums.zz, 1e-13)
    assert_close(rows.sz, sums.sz, 1e-13)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_any_split_in_any_order_gives_the_same_sums(sizes, random):
    rows, _ = problem(rows=max(1, sum(sizes)))
    whole = rows.moments()
    spans = list(zip(np.cumsum([0, *sizes[:-1]]), np.cumsum(sizes), strict=True)) if sum(sizes) else [(0, 1)]
    random.shuffle(spans)
    parts = MomentSums(M, 6, bias=True)
    for start, stop in spans:
        parts.add(rows.z[start:stop], rows.x[start:stop])
    sums = parts.finish()
    assert sums.rows == whole.rows
    for name in ("zz", "sz", "xx", "xz"):
        assert_close(getattr(sums, name), getattr(whole, name), 1e-12)


@each_case("rows", [1, 255, 256, 257, 1000])
def test_sums_of_columns_have_every_row(rows, device):
    z = normal(rows, 5).to(device)
    assert_close(products.column_sums(z), z.double().sum(0), 1e-14)


def test_blocks_of_rows_are_added_in_float64(device):
    """Forty blocks of ones behind one large number, which float32 would swallow one by one."""
    z = torch.ones(40 * products.BLOCK, 1, device=device)
    z[: products.BLOCK] = 0
    z[0] = 2.0**34
    assert products.column_sums(z).item() == 2.0**34 + 39 * products.BLOCK


# --- the solve -------------------------------------------------------------------------------------------------------


@each_case("ridge", [0.0, 1e-3, 2.0, "auto"])
@each_case("name", HARD)
def test_weights_are_least_squares_on_the_rows(name, ridge):
    """C16, C17, C20: the moments give what lstsq gives on the stacked rows, whatever the scores."""
    rows, scores = HARD[name]()
    solution = solve(rows.moments(), ridge)
    A = weighted_means(LABELS, scores, D).A
    x, z = rows.x.numpy(), rows.z.numpy()
    V = solution.weights(A).numpy()
    for k, group in enumerate(as_groups(LABELS, D)):
        t = reference.target(z, scores.numpy(), group)
        v = reference.ridge(x, t, solution.strength, bias=rows.bias)
        assert np.abs(x @ v - x @ V[:, k]).max() < 1e-7
        assert np.abs(v - V[:, k]).max() < 1e-6


@pytest.mark.slow
@each_case("toward", [False, True])
@each_case("ridge", [0.0, 1e-3, 2.0, "auto"])
@each_case("name", HARD)
def test_dual_form_is_the_primal_solution(name, ridge, toward, device):
    rows, scores = HARD[name]()
    rows, scores = Rows(rows.x.to(device), rows.z.to(device), rows.bias), scores.to(device)
    W0 = normal(rows.x.shape[1], M, seed=9).to(device) if toward else None
    primal, dual = solve(rows.moments(), ridge, toward=W0), solve(rows, ridge, toward=W0)
    targets = weighted_means(LABELS.to(device), scores, D)
    A = targets.A
    assert_close(dual.gram, primal.gram, 1e-7)
    assert_close(dual.weights(A), primal.weights(A), 1e-6)
    assert dual.strength == pytest.approx(primal.strength)
    errors = [approximation_error(sums, targets, primal.weights(A)) for sums in (rows.moments(), rows)]
    assert errors[0] == pytest.approx(errors[1], rel=1e-7, abs=1e-7)


def test_auto_is_relative_to_the_weight_columns_dead_ones_counted():
    rows, _ = problem()
    rows.x[:, 1] = 0
    expected = rows.x[:, :-1].square().sum(0).mean().item()
    assert solve(rows.moments(), "auto").strength == pytest.approx(1e-2 * expected)
    assert solve(rows, "auto", toward=torch.zeros(6, M).double()).strength == pytest.approx(1e-2 * expected)
    assert solve(rows, "0.25x").strength == pytest.approx(0.25 * expected)
    assert solve(rows, 5.0).strength == 5.0


def test_a_matrix_that_rounding_makes_indefinite_raises_the_ridge():
    rows, _ = problem()
    sums = rows.moments()
    sums.xx[0, 0] -= sums.xx[0, 0] * 1.0001  # what cancellation does, exaggerated
    solution = solve(sums, 1e-9)
    assert solution.strength > 1e-9
    assert torch.isfinite(solution.weights(torch.eye(M).double())).all()


def test_no_ridge_drops_the_directions_that_float32_products_invent():
    """Rank 30 of 60: what rounding leaves in the other 30 is no direction of the data."""
    x = (normal(400, 30) @ normal(30, 60, seed=1)).float()
    z = (x.double() @ normal(60, M, seed=2) + normal(400, M, seed=3)).float()
    sums = MomentSums(M, 60)
    sums.add(z, x)
    V = solve(sums.finish(), 0.0).weights(torch.eye(M).double())
    expected = torch.linalg.lstsq(x.double(), z.double(), rcond=1e-6, driver="gelsd").solution
    assert V.norm() < 1.05 * expected.norm()
    assert_close(x.double() @ V, x.double() @ expected, 1e-2)


def test_what_cannot_be_solved_is_refused():
    rows, _ = problem()
    for ridge in (-2.0, float("nan"), "much", "-1x"):
        with pytest.raises(ValueError, match=f"ridge must be 'auto', a number from 0, .* Found {ridge!r}"):
            solve(rows, ridge)
    for name in ("sz", "xx"):
        sums = rows.moments()
        getattr(sums, name).fill_(float("nan"))
        with pytest.raises(ValueError, match="sums over the fusion data are not finite"):
            solve(sums, "auto")
    rows.z[0, 0] = float("inf")
    with pytest.raises(ValueError, match="not finite"):
        solve(rows, 1.0)


# --- errors ----------------------------------------------------------------------------------------------------------


def other_targets(labels: torch.Tensor, scores: torch.Tensor, width: int) -> Targets:
    """Any weighting at all, across groups too."""
    return Targets(normal(len(labels), width, seed=6), weighted_means(labels, scores, width).totals)


@each_case("rule", [weighted_means, other_targets])
@each_case("name", HARD)
def test_errors_of_any_targets_add_up_to_the_cost(name, rule):
    """Theorem 1: J = grouping + approximation, each by its definition in loops; + cross where targets are no weighted means."""
    rows, scores = HARD[name]()
    targets = rule(LABELS, scores, D)
    V = normal(rows.x.shape[1], D, seed=4)
    x, z, s = rows.x.numpy(), rows.z.numpy(), scores.numpy()
    f, T = x @ V.numpy(), z @ targets.A.numpy()
    J = grouping = approximation = cross = 0.0
    for j, k in enumerate(LABELS.tolist()):
        J += s[j] * np.sum((f[:, k] - z[:, j]) ** 2)
        grouping += s[j] * np.sum((T[:, k] - z[:, j]) ** 2)
        approximation += s[j] * np.sum((f[:, k] - T[:, k]) ** 2)
        cross += 2 * s[j] * np.sum((f[:, k] - T[:, k]) * (T[:, k] - z[:, j]))
    for sums in (rows, rows.moments()):
        errors = (
            grouping_error(sums.zz, scores, LABELS, targets),
            approximation_error(sums, targets, V),
            cross_error(sums, scores, LABELS, targets, V),
        )
        assert errors == pytest.approx((grouping, approximation, cross), rel=1e-10, abs=1e-9 * J)
        assert sum(errors) == pytest.approx(J, rel=1e-10)
    if rule is weighted_means:
        assert cross_error(rows, scores, LABELS, targets, V) == 0
    else:
        assert abs(cross) > 1e-3 * J and excess(targets, LABELS, scores) is not None


def test_weighted_means_are_known_however_their_weights_were_rounded():
    """Then the cross term is 0 and not the rounding of large numbers."""
    labels = torch.arange(500) % 7
    for dtype in (torch.float32, torch.float64):
        scores = normal(500).abs().to(dtype)
        assert excess(weighted_means(labels, scores, 7), labels, scores) is None
        assert excess(weighted_means(labels, 3 * scores, 7), labels, scores) is not None  # totals of other scores


# --- moments by lags against the unfolded rows ------------------------------------------------------------------------


def unfolded(h, bias):
    """Input rows of a 3 x 3 convolution that keeps the size."""
    rows = F.unfold(h, 3, padding=1).mT.flatten(0, 1)
    return torch.cat([rows, torch.ones_like(rows[:, :1])], 1) if bias else rows


@each_case("shape", [(3, 4, 5, 6), (2, 3, 1, 1), (2, 3, 1, 4), (2, 2, 2, 2), (1, 5, 3, 2)])
@each_case("bias", [True, False])
def test_lags_give_the_moments_of_the_unfolded_rows(shape, bias, device):
    draw = torch.Generator().manual_seed(0)
    h = torch.randn(shape, generator=draw, dtype=torch.float64)
    z = torch.randn(shape[0] * shape[2] * shape[3], 11, generator=draw, dtype=torch.float64)
    p = 9 * shape[1] + bias
    unfolding = MomentSums(11, p, bias=bias)
    unfolding.add(z, unfolded(h, bias))
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


@pytest.mark.slow
@each_case("which", ["plain", "borders", "one corner"])
@each_case("height, width", SMALL_MAPS)
def test_float32_products_stay_near_those_of_float64_rows(height, width, which, device):
    """Every entry within eps of |x_i| |x_j|, as if unfolded: the border is never a difference of large numbers. Diagonals are
    not negative, and the factor exists at the weakest ridge that float32 products are used for, with fewer rows than columns."""
    channels, samples = 16, 12
    h = images(channels, height, width, samples, which)
    z = torch.randn(samples * height * width, 5, generator=torch.Generator().manual_seed(2))
    sums = LagSums(channels, 5, bias=True, device=device)
    sums.add(z[: 7 * height * width].to(device), h[:7].to(device))
    sums.add(z[7 * height * width :].to(device), h[7:].to(device))
    moments = sums.finish()
    x = unfolded(h.double(), True)
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
