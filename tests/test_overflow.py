"""Sums that overflow are refused in a sentence of ours that names the place, whichever method makes them."""

import pytest
import torch

from retrofit_core.fusion.grouping.assignment import assigned
from retrofit_core.methods import METHODS
from tests.marks import each_case
from tests.networks import mlp, normal

METHODS_WITH_SUMS = (
    *("HF-Linear", "KF-Linear", "HF-Gradient", "KF-Gradient", "Same-Index-Linear", "OTFusion", "Transformer-OTFusion"),
    *("Git-Re-Basin", "ZipIt", "PLeaS"),
)


@each_case("dtype, scale", [(torch.float32, 1e22), (torch.float64, 1e170)])
@each_case("method", METHODS_WITH_SUMS)
def test_overflowing_sums_are_refused(method, dtype, scale):
    parents = [mlp(seed=seed).to(dtype) for seed in (0, 1)]
    options = {"epochs": 1} if method.endswith("Gradient") else {}
    with pytest.raises(ValueError, match="at '.*' sums over the fusion data overflow or hold NaN"):
        METHODS[method](parents, (normal(40, 6) * scale).to(dtype), device="cpu", **options)


def test_costs_that_are_not_finite_are_refused():
    for wrong in (float("inf"), float("nan")):
        with pytest.raises(ValueError, match="costs of matching neurons overflow"):
            assigned(torch.tensor([[0.0, wrong], [1.0, 2.0]]))
