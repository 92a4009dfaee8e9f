"""The gradient fit: bounded below by the closed form, the best epoch restored, reproducible, cancellable."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from retrofit_core.fusion.fit import Gradient
from retrofit_core.fusion.fit.gradient import perturb
from retrofit_core.networks.levels import partition
from tests.networks import CNN_SHAPE, cnn, mlp, normal
from tests.properties import assert_close


def gradient(level, inputs, targets, *, generator, weights=None, monitor=None, **settings):
    fit = Gradient(**settings)
    return fit.descend(level, inputs, targets, generator=generator, weights=weights, monitor=monitor)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def affine_problem(n=60):
    model, x = mlp((6, 3)), normal(n, 6)
    targets = x @ normal(6, 3, seed=4) + 0.3 * normal(n, 3, seed=5)
    return partition(model, x)[0], x, targets[:, None]


def test_never_beats_least_squares_and_comes_to_it():
    """C23."""
    level, x, targets = affine_problem()
    curve = gradient(
        level,
        x,
        targets,
        generator=generator(),
        learning_rate=0.03,
        weight_decay=0.0,
        epochs=150,
        patience=150,
        validation=0.1,
    )
    ones = torch.cat([x, torch.ones(60, 1).double()], 1)
    best = (ones @ torch.linalg.lstsq(ones, targets[:, 0]).solution - targets[:, 0]).square().mean().item()
    loss = (level.module(x) - targets[:, 0]).square().mean().item()
    assert best <= loss <= 1.15 * best
    assert curve[0]["loss"] > 5 * best


def test_a_sample_is_left_to_train_on():
    level, x, targets = affine_problem(10)
    curve = gradient(level, x, targets, generator=generator(), validation=0.99, epochs=1)
    assert all(np.isfinite(point["loss"]) for point in curve)


def test_perturbation_moves_towards_fresh_weights():
    level, _, _ = affine_problem()
    unmoved = level.affine.weight.detach().clone()
    moved = {}
    for amount in (0.0, 0.25, 1.0):
        other = copy.deepcopy(level.module)
        perturb(other, amount, generator())
        moved[amount] = next(other.parameters()).detach()
    assert_close(moved[0.0], unmoved, 0)
    assert (moved[1.0] - unmoved).abs().max() > 0.1
    assert_close(moved[0.25], 0.75 * unmoved + 0.25 * moved[1.0], 1e-12)


def test_a_fresh_start_keeps_nothing_of_an_attention():
    """Whatever the weights were, a start afresh is the same; class tokens and the like are drawn at their own scale."""
    starts = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        module = nn.Sequential(nn.Linear(6, 6), nn.MultiheadAttention(6, 2), nn.TransformerEncoderLayer(6, 2, 8))
        perturb(module, 1.0, generator())
        starts.append(module.state_dict())
    for name, tensor in starts[0].items():
        assert torch.equal(tensor, starts[1][name]), name
    token = nn.ParameterList([torch.linspace(0, 1, 8)])
    perturb(token, 1.0, generator())
    assert (token[0] - torch.linspace(0, 1, 8)).abs().min() > 1e-4


def test_weights_weigh_the_outputs():
    """A network that cannot serve both outputs serves the heavy one."""
    losses = []
    for weights in ([1.0, 1e-3], [1e-3, 1.0]):
        level, x, _ = affine_problem()
        torch.nn.init.zeros_(level.affine.weight)
        targets = torch.cat([x[:, :1] * 3, x[:, 1:2] * 3, torch.zeros(60, 1).double()], 1)[:, None]
        gradient(
            level,
            x,
            targets,
            generator=generator(),
            epochs=5,
            learning_rate=0.02,
            weights=torch.tensor([*weights, 1.0]).double(),
        )
        losses.append((level.module(x) - targets[:, 0]).square().mean(0).tolist())
    plain, _, targets = affine_problem()
    curve = gradient(plain, normal(60, 6), targets, generator=generator(), epochs=0, weights=torch.ones(3).double() * 7)
    level, _, _ = affine_problem()
    again = gradient(level, normal(60, 6), targets, generator=generator(), epochs=0)
    assert curve[0]["loss"] == pytest.approx(again[0]["loss"])  # only relative weights matter
    assert losses[0] != losses[1]


def test_convolutions_are_fitted_position_by_position(device):
    model, other = cnn().to(device), cnn(seed=1).to(device)
    x = normal(30, *CNN_SHAPE).to(device)
    level = partition(model, x[:2])[0]
    targets = other[0](x).detach().movedim(1, -1).flatten(1, 2)  # (B, positions, channels)
    curve = gradient(level, x, targets, generator=generator(), learning_rate=0.03, weight_decay=0.0, epochs=40)
    assert curve[-1]["loss"] < 0.02 * curve[0]["loss"]
    assert_close(level.module(x), other[0](x), 0.2)
