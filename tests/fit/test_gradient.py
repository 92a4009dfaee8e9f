"""The gradient fit: bounded below by the closed form, the best epoch restored, reproducible, cancellable."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from retrofit_core.fusion.fit.gradient import perturb
from retrofit_core.system.monitor import Cancelled, Monitor
from retrofit_core.training.descent import Descent, batches, descend
from tests.flat import fuse
from tests.networks import CNN_SHAPE, cnn, labels, mlp, normal
from tests.properties import assert_close


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


class Reading(nn.Module):
    """A layer that reads a function of the inputs."""

    def __init__(self, function, seed):
        super().__init__()
        self.function, self.layer = function, mlp((6, 3), seed=seed)[0]

    def forward(self, x):
        return self.layer(self.function(x))


PARENTS, X, Y = [Reading(torch.square, 0), Reading(torch.tanh, 1)], normal(60, 6), labels(60, 3)


def one_layer(fit="gradient", **options):
    """Parents that one layer of the inputs cannot copy, fused into one; its report and the network."""
    result = fuse(PARENTS, (X, Y), target=Reading(torch.clone, 2), fit=fit, grouping="hungarian", **options)
    (level,) = result.levels
    return level, result.model


@pytest.mark.slow
def test_never_beats_least_squares_and_comes_to_it():
    """C23."""
    steps = {"learning_rate": 0.03, "weight_decay": 0.0, "epochs": 150, "patience": 150, "validation": 0.1}
    level, best = one_layer(**steps)[0], one_layer("ridge", ridge=0.0)[0].approximation_error
    assert best <= level.approximation_error <= 1.15 * best
    assert level.curve[0]["loss"] > 1.5 * min(point["loss"] for point in level.curve)


def test_a_sample_is_left_to_train_on():
    parents = [mlp((6, 3), seed=k) for k in range(2)]
    (level,) = fuse(parents, normal(10, 6), fit="gradient", validation=0.99, epochs=1).levels
    assert all(np.isfinite(point["loss"]) for point in level.curve)


def test_perturbation_moves_towards_fresh_weights():
    layer, moved = nn.Linear(6, 3).double(), {}
    unmoved = layer.weight.detach().clone()
    for amount in (0.0, 0.25, 1.0):
        other = copy.deepcopy(layer)
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
    """After few steps, the error of the output that counts is smaller; only relative weights matter."""
    missed = []
    for weights in ([1.0, 1e-3, 1.0], [1e-3, 1.0, 1.0], [7e-3, 7.0, 7.0]):

        def scores(neurons, x, y, weights=weights):
            return [
                torch.tensor(weights)[: place.width] if place.width == 3 else torch.ones(place.width)
                for place in neurons
            ]

        level, model = one_layer(
            epochs=5,
            learning_rate=0.02,
            weighted_loss=True,
            importance=scores,
            normalise_scores=False,
            importance_data="fusion",
        )
        targets = sum(parent(X) for parent in PARENTS) / 2
        errors = (model(X) - targets).square().mean(0).tolist()
        missed.append([*errors, level.curve[0]["loss"]])
    assert missed[0][0] < missed[1][0] and missed[1][1] < missed[0][1]
    assert missed[2] == pytest.approx(missed[1])


@pytest.mark.slow
def test_convolutions_are_fitted_position_by_position(device):
    parents = [cnn().to(device)] * 2
    fit = {"learning_rate": 0.03, "weight_decay": 0.0, "epochs": 40, "perturbation": 1.0}
    level = fuse(parents, normal(30, *CNN_SHAPE).to(device), fit="gradient", grouping="same_index", **fit).levels[0]
    assert level.curve[-1]["loss"] < 0.02 * level.curve[0]["loss"]


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
