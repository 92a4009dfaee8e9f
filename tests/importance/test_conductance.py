"""Conductance in one pass against Captum level by level, and what the paper of the score proves."""

import pytest
import torch
from torch import nn

from retrofit_core.fusion.importance import Conductance, importance_scores
from retrofit_core.networks.levels import partition
from tests.marks import each_case
from tests.networks import CNN_SHAPE, affine_layers, cnn, labels, mlp, normal, permuted, residual
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


def test_a_linear_network_gives_gradient_times_difference_at_any_number_of_steps():
    """C36, up to the share of [0, 1] between the outermost Gauss points."""
    model = mlp((5, 4, 3), activation=nn.Identity)
    x, y = normal(6, 5), labels(6, 3)
    levels = partition(model, x)
    outgoing = model[2].weight[y]  # (samples, hidden)
    difference = x @ model[0].weight.T
    expected = (outgoing * difference).abs().mean(0)
    for steps in (1, 7):
        values = Conductance(steps=steps).scores(levels, x, y).values[0]
        assert_close(values / values.sum(), expected / expected.sum(), 1e-12)
    assert_close(Conductance(steps=300).scores(levels, x, y).values[0], expected, 1e-4)


def test_scores_follow_the_neurons():
    """Permuting a network's neurons permutes its scores."""
    model, x, y = mlp(), normal(10, 6), labels(10, 4)
    twin = permuted(model)
    values, moved = (Conductance().scores(partition(m, x), x, y).values for m in (model, twin))
    for level in range(2):
        assert_close(moved[level].sort().values, values[level].sort().values, 1e-12)
    first, second = affine_layers(model)[0].weight, affine_layers(twin)[0].weight
    order = [(first == row).all(1).nonzero().item() for row in second]
    assert_close(moved[0], values[0][order], 1e-12)


def test_neurons_that_reach_nothing_score_nothing():
    model, x, y = mlp(), normal(10, 6), labels(10, 4)
    with torch.no_grad():
        model[2].weight[:, 3] = 0
    scores = importance_scores(model, x, y, "conductance", normalise_scores=False)
    assert scores.values[0][3].item() == 1e-8
    assert (scores.values[0][[0, 1, 2, 4, 5, 6, 7]] > 1e-6).sum() >= 6


def test_other_classes_score_nothing_at_the_head():
    model, x = mlp(), normal(10, 6)
    y = torch.full((10,), 2)
    values = Conductance().scores(partition(model, x), x, y).values[-1]
    assert (values[[0, 1, 3]] == 0).all()
    assert values[2] > 0


def test_mixed_precision_keeps_the_ranks():
    model, x, y = mlp((6, 12, 9, 4)).float(), normal(50, 6).float(), labels(50, 4)
    levels = partition(model, x)
    full, half = Conductance().scores(levels, x, y), Conductance(mixed_precision=True).scores(levels, x, y)
    assert half.values[0].dtype == torch.float64
    for left, right in zip(full.values[:-1], half.values[:-1], strict=True):
        assert torch.corrcoef(torch.stack([left.argsort().argsort(), right.argsort().argsort()]).double())[0, 1] > 0.97
