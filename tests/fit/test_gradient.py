"""The gradient fit: bounded below by the closed form, the best epoch restored, reproducible, cancellable."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from retrofit_core.fusion.fit import Gradient
from retrofit_core.fusion.fit.gradient import perturb
from retrofit_core.networks.levels import partition
from retrofit_core.system.monitor import Cancelled, Monitor
from retrofit_core.training.descent import Best, Descent, batches, descend
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


@pytest.mark.slow
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
    """A network that cannot serve both outputs serves the heavy one; only relative weights matter."""
    losses = []
    for weights in ([1.0, 1e-3, 1.0], [1e-3, 1.0, 1.0], [7e-3, 7.0, 7.0]):
        level, x, _ = affine_problem()
        torch.nn.init.zeros_(level.affine.weight)
        targets = torch.cat([x[:, :2] * 3, torch.zeros(60, 1).double()], 1)[:, None]
        options = {"epochs": 5, "learning_rate": 0.02, "weights": torch.tensor(weights).double()}
        curve = gradient(level, x, targets, generator=generator(), **options)
        losses.append([*(level.module(x) - targets[:, 0]).square().mean(0).tolist(), curve[0]["loss"]])
    assert losses[0] != losses[1] and losses[2] == pytest.approx(losses[1])


def test_convolutions_are_fitted_position_by_position(device):
    model, other = cnn().to(device), cnn(seed=1).to(device)
    x = normal(30, *CNN_SHAPE).to(device)
    level = partition(model, x[:2])[0]
    targets = other[0](x).detach().movedim(1, -1).flatten(1, 2)  # (B, positions, channels)
    curve = gradient(level, x, targets, generator=generator(), learning_rate=0.03, weight_decay=0.0, epochs=40)
    assert curve[-1]["loss"] < 0.02 * curve[0]["loss"]
    assert_close(level.module(x), other[0](x), 0.2)


# --- the loop behind fits to fixed data: which samples, which epoch, when it ends, what it leaves behind --------------


class Scalar(nn.Module):
    """One parameter and one buffer; the loss of sample i is (weight - i)^2."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.register_buffer("steps", torch.zeros(1))
        self.modes = []

    def loss(self, samples):
        self.modes.append(self.training)
        if self.training and torch.is_grad_enabled():
            self.steps += 1
        return (self.weight - samples.double()).square().mean()


SETTINGS = {
    "learning_rate": 0.1,
    "weight_decay": 0.0,
    "epochs": 5,
    "batch_size": 3,
    "validation": 0.2,
    "patience": None,
}


MODES = ("training_mode", "smallest_batch", "monitor")


def fitted(module, **settings):
    generator = torch.Generator().manual_seed(0)
    measure = lambda samples: module.loss(samples).item()  # noqa: E731
    descent = Descent(**{**SETTINGS, **{name: value for name, value in settings.items() if name not in MODES}})
    modes = {name: value for name, value in settings.items() if name in MODES}
    return descend(module, 10, module.loss, measure, descent, generator=generator, **modes)


def test_the_curve_is_that_of_adamw_by_hand():
    module, order = Scalar(), torch.Generator().manual_seed(0)
    curve = fitted(module, epochs=2)
    held_out, others = torch.randperm(10, generator=order).split([2, 8])
    weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimiser = torch.optim.AdamW([weight], lr=0.1, weight_decay=0.0)
    measured = lambda numbers: (weight - numbers).square().mean().item()  # noqa: E731
    expected = [{"epoch": 0, "loss": measured(others), "validation": measured(held_out)}]
    for epoch in (1, 2):
        total = 0.0
        for batch in others[torch.randperm(8, generator=order)].split(3):
            optimiser.zero_grad()
            loss = (weight - batch).square().mean()
            loss.backward()
            optimiser.step()
            total += loss.item() * len(batch)
        expected.append({"epoch": epoch, "loss": pytest.approx(total / 8), "validation": measured(held_out)})
    assert curve == expected
    assert torch.equal(module.weight, weight)  # the last epoch is the best


def test_patience_counts_epochs_without_improvement_and_none_means_never():
    far = {"learning_rate": 1e6}  # every epoch is worse than the start
    assert len(fitted(Scalar(), epochs=12, patience=3, **far)) == 1 + 3
    assert len(fitted(Scalar(), epochs=12, patience=None, **far)) == 1 + 12
    assert len(fitted(Scalar(), epochs=5, patience=0)) == 1 + 5  # every epoch is an improvement


def test_the_start_comes_back_with_its_buffers_where_no_epoch_is_better():
    module = Scalar()
    fitted(module, learning_rate=1e6, training_mode=True)
    assert module.weight.item() == 0 and module.steps.item() == 0
    assert module.modes[:2] == [False, False] and True in module.modes and not module.training
    fitted(module, training_mode=True)
    assert module.weight.item() > 0 and module.steps.item() > 0


def test_the_mode_is_not_touched_unless_asked():
    for training in (True, False):
        module = Scalar().train(training)
        fitted(module)
        assert set(module.modes) == {training} == {module.training}


def test_frozen_parameters_are_fitted_and_frozen_again_whatever_happens():
    module = Scalar().requires_grad_(False)
    with torch.no_grad():
        fitted(module)
    assert module.weight.item() > 0 and not module.weight.requires_grad and module.weight.grad is None
    events = []
    with pytest.raises(Cancelled):
        fitted(module, monitor=Monitor(events.append, cancelled=lambda: len(events) == 2))
    assert [(event["kind"], event["index"], event["total"]) for event in events] == [("epoch", 1, 5), ("epoch", 2, 5)]
    assert not module.weight.requires_grad and module.weight.grad is None


def test_a_short_last_batch_joins_the_one_before():
    order = torch.arange(9)
    assert [len(part) for part in batches(order, 4, 2)] == [4, 5]
    assert [len(part) for part in batches(order, 4)] == [4, 4, 1]
    assert [len(part) for part in batches(order[:1], 4, 2)] == [1]
    assert torch.equal(torch.cat(batches(order, 4, 2)), order)


def test_the_best_state_is_a_copy_and_equal_quality_is_not_better():
    module = nn.Linear(2, 1)
    best, first = Best(module), module.weight.detach().clone()
    best.offer(0, (50.0, -1.0))
    nn.init.zeros_(module.weight)
    best.offer(1, (50.0, -1.0))
    assert best.epoch == 0
    best.restore()
    assert torch.equal(module.weight, first)
    nn.init.ones_(module.weight)
    best.offer(2, (50.0, -0.5))
    assert best.epoch == 2 and (best.state["weight"] == 1).all()
