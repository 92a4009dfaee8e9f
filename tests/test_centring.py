"""Centred logits, against plain loops and parents that are centred by hand."""

import copy

import pytest
import torch
from torch import nn

from retrofit_core import METHODS, centred
from tests.marks import each_case
from tests.networks import cnn, labels, mlp, normal
from tests.properties import assert_same_tensors

X, Y = normal(60, 6), labels(60, 4)
IMAGES = normal(30, 2, 7, 7)
OWN = [(normal(30, 6, seed=3), labels(30, 4)), (X[:20], Y[:20])]


def means_by_loop(model, inputs):
    """The mean of each logit, a sample at a time."""
    with torch.no_grad():
        return torch.stack([model(x[None])[0].double() for x in inputs]).mean(0)


def by_hand(model, inputs, head):
    """A copy whose bias at the head is less by the means."""
    model = copy.deepcopy(model).eval()
    layer = model.get_submodule(head)
    with torch.no_grad():
        layer.bias.sub_(means_by_loop(model, inputs))
    return model


def with_norm():
    """A network whose logits come out of a BatchNorm."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4), nn.BatchNorm1d(4)).double()
    model(3 + normal(50, 6))  # statistics
    return model.eval()


def pooled():
    """A network whose logits are means over positions."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    ).double()


@each_case("make, inputs", [(mlp, X), (cnn, IMAGES), (with_norm, X), (pooled, IMAGES)])
def test_the_logits_of_a_centred_network_have_mean_zero_and_nothing_else_changes(make, inputs):
    model = make().eval()
    before, means = copy.deepcopy(model), means_by_loop(model, inputs)
    moved = centred(model, inputs)
    with torch.no_grad():
        torch.testing.assert_close(moved(inputs).double(), model(inputs).double() - means, atol=1e-5, rtol=1e-5)
    assert_same_tensors(model, before)


def without_bias():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4, bias=False)).double()


def log_probabilities():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4), nn.LogSoftmax(1)).double()


class Scaled(nn.Module):
    """Its logits are multiplied after its last layer."""

    def __init__(self):
        super().__init__()
        self.net = mlp()

    def forward(self, x):
        return 3 * self.net(x)


@each_case("make", [without_bias, Scaled, log_probabilities])
def test_a_network_whose_bias_does_not_add_to_its_logits_is_refused_before_any_work(make):
    with pytest.raises(ValueError, match="no bias of the network adds to its logits"):
        centred(make(), X)
    if make is not log_probabilities:  # of which only differences count
        with pytest.raises(ValueError, match="no bias of parent 0 adds to its logits"):
            METHODS["KF-Gradient"]([make(), make()], X, centre=True, device="cpu")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["KF-Linear", "HF-Linear", "KF-Gradient"])
def test_centring_fuses_copies_centred_over_all_samples(method):
    parents = [mlp(), mlp(seed=2)]
    before = copy.deepcopy(parents)
    samples = torch.cat([X, OWN[0][0]])  # those of parent 1 are fusion samples
    hand = [by_hand(parent, samples, head_of(parent)) for parent in parents]
    options = {"importance": "conductance", "importance_data": OWN, "device": "cpu", "seed": 1}
    options |= {"epochs": 3} if method == "KF-Gradient" else {}
    fused = METHODS[method](parents, (X, Y), centre=True, **options)
    expected = METHODS[method](hand, (X, Y), **options)
    with torch.no_grad():
        torch.testing.assert_close(fused.model(X), expected.model(X), atol=1e-4, rtol=1e-4)
        plain = METHODS[method](parents, (X, Y), **options)
        assert not torch.allclose(fused.model(X), plain.model(X), atol=1e-2)
    found = torch.tensor(fused.config["mean_logits"], dtype=torch.float64)
    means = torch.stack([means_by_loop(parent, samples) for parent in parents])
    torch.testing.assert_close(found, means, atol=1e-5, rtol=1e-4)
    for parent, unchanged in zip(parents, before, strict=True):
        assert_same_tensors(parent, unchanged)


def head_of(model):
    return [name for name, layer in model.named_modules() if isinstance(layer, nn.Linear)][-1]
