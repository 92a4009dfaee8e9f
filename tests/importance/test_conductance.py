"""Conductance in one pass against Captum level by level, and what the paper of the score proves."""

import pytest
import torch
from torch import nn

from retrofit_core.fusion.importance import Conductance
from retrofit_core.networks.levels import partition
from tests.marks import each_case
from tests.networks import CNN_SHAPE, cnn, labels, mlp, normal, residual
from tests.properties import assert_close

NETWORKS = {"mlp": (mlp, (6,)), "cnn": (cnn, CNN_SHAPE), "residual": (residual, CNN_SHAPE)}


@pytest.mark.slow
@each_case("steps", [1, 10])
@each_case("name", NETWORKS)
def test_equals_captum_level_by_level(name, steps):
    """C37: LayerConductance with its Gauss-Legendre rule, |.| before the sums."""
    from captum.attr import LayerConductance

    make, shape = NETWORKS[name]
    model, x = make(), normal(7, *shape)
    levels = partition(model, x)
    y = labels(7, levels[-1].width)
    scores = Conductance(steps=steps).scores(levels, x, y)
    for index, level in enumerate(levels):
        network = nn.Sequential(*(part.module for part in levels))
        captum = LayerConductance(network, network[index]).attribute(
            x, torch.zeros_like(x), target=y, n_steps=steps, method="gausslegendre"
        )
        expected = captum.detach().movedim(level.axis, -1).abs().reshape(-1, level.width).sum(0) / len(x)
        assert_close(scores.values[index], expected, 1e-5 if name == "residual" else 1e-9)


def test_batches_do_not_matter(monkeypatch, device):
    model, x = cnn().to(device), normal(9, *CNN_SHAPE).to(device)
    y = labels(9, 3).to(device)
    levels = partition(model, x)
    whole = Conductance().scores(levels, x, y)
    module = __import__("retrofit_core.fusion.importance.conductance", fromlist=["x"])
    monkeypatch.setattr(module, "samples_per_batch", lambda *_, **__: 2)
    parts = Conductance().scores(levels, x, y)
    for left, right in zip(whole.values, parts.values, strict=True):
        assert_close(left, right, 1e-12)
    assert whole.report["completeness_gap"] == pytest.approx(parts.report["completeness_gap"])


@pytest.mark.slow
def test_completeness_gap_shrinks_with_the_steps():
    """C34: signed attributions of a level that cuts the network sum to f_y(x) - f_y(0) as the steps grow."""
    model, x = cnn(), normal(20, *CNN_SHAPE)
    levels, y = partition(model, x), labels(20, 3)
    gaps = {steps: Conductance(steps=steps).scores(levels, x, y).report["completeness_gap"] for steps in (2, 20, 400)}
    for level in range(len(levels)):
        assert gaps[400][level] < 0.3 * gaps[20][level] < 0.3 * gaps[2][level]
    assert max(gaps[400]) < 5e-3


def test_mixed_precision_keeps_the_ranks():
    model, x, y = mlp((6, 12, 9, 4)).float(), normal(50, 6).float(), labels(50, 4)
    levels = partition(model, x)
    full, half = Conductance().scores(levels, x, y), Conductance(mixed_precision=True).scores(levels, x, y)
    assert half.values[0].dtype == torch.float64
    for left, right in zip(full.values[:-1], half.values[:-1], strict=True):
        assert torch.corrcoef(torch.stack([left.argsort().argsort(), right.argsort().argsort()]).double())[0, 1] > 0.97
