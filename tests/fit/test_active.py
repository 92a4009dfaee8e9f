"""`Ridge(active=True)`: neurons are grouped by what they hand on behind the activation function."""

import pytest
import torch
from torch import nn

from retrofit_core import fuse
from retrofit_core.fit import Ridge
from retrofit_core.grouping import Hungarian
from retrofit_core.methods import METHODS
from retrofit_core.symmetry import shuffled
from tests.networks import CNN_SHAPE, batchnorm_cnn, cnn, initialised, mlp, normal, residual
from tests.properties import assert_close, assert_same_function

DATA = normal(50, *CNN_SHAPE)


class Watching:
    """Hungarian groups that keep the Gram matrices which they were given."""

    def __init__(self):
        self.grams = []

    def __call__(self, gram, scores, widths, width, *, generator=None):
        self.grams.append(gram)
        return Hungarian()(gram, scores, widths, width, generator=generator)


def pooled(seed=0):
    return initialised(
        nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 5, 3),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(5, 3),
        ),
        seed,
    )


@torch.no_grad()
def test_neurons_are_compared_behind_function_and_pooling_about_their_means():
    parents, x, watching = [pooled(1), pooled(2)], normal(30, 2, 7, 7), Watching()
    fuse(parents, x, grouping=watching, fit=Ridge(active=True))
    for gram, stop in zip(watching.grams, (3, 6), strict=True):
        read = [parent[:stop](x) for parent in parents]
        read = torch.cat([h.reshape(len(x), -1, 1) if stop == 6 else h.flatten(2) for h in read], 1)
        by_hand = read.movedim(1, -1).flatten(0, 1)
        by_hand = by_hand - by_hand.mean(0)
        assert_close(gram, by_hand.T @ by_hand, 1e-10)


def test_neurons_that_differ_where_they_are_silent_belong_together():
    """What a neuron says below zero is nothing to the next layer."""
    parents = [initialised(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)), 1) for _ in range(2)]
    with torch.no_grad():
        for model, order in zip(parents, ([0, 1], [1, 0]), strict=True):
            model[0].weight.copy_(torch.eye(2)[order])
            model[0].bias.zero_()
    x = normal(200, 2)
    x = torch.where(x > 0, x, 30 * x)  # far below zero
    labels = fuse(parents, x, grouping="hungarian", fit=Ridge(active=True)).levels[0].labels
    assert labels.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("make", [cnn, batchnorm_cnn])
@pytest.mark.parametrize("method", ["HF-Linear", "KF-Linear"])
def test_a_shuffled_copy_is_found_again(make, method):
    model = make()
    twin = shuffled(model, DATA, torch.Generator().manual_seed(5))
    fused = METHODS[method]([model, twin], DATA, active=True, repair=True, ridge=0.0, device="cpu").model
    assert_same_function(fused, model, DATA, 1e-6)


def test_three_networks_and_other_widths():
    parents = [mlp(), mlp((6, 9, 7, 4), seed=1), mlp(seed=2)]
    fused = METHODS["KF-Linear"](parents, normal(40, 6), target=mlp((6, 10, 8, 4)), active=True, device="cpu")
    assert [level.width for level in fused.levels] == [10, 8, 4]


def test_networks_with_blocks_are_refused():
    parents = [residual(), residual(seed=1)]
    with pytest.raises(ValueError, match="active=True compares neurons by what the next layer reads of them"):
        METHODS["KF-Linear"](parents, DATA, active=True, device="cpu")
