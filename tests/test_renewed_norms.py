"""reset_norms of methods that average weights: statistics are those of the fusion data, computed here layer by layer."""

import copy

import pytest
import torch
from torch import nn

from retrofit_core import METHODS, compare
from tests.networks import CNN_SHAPE, batchnorm_cnn, labels, normal

AVERAGING = ("Average", "FedAvg", "Greedy-Soup", "Fisher", "SLERP", "Task-Arithmetic", "TIES", "DARE", "RegMean")
X, Y = normal(40, *CNN_SHAPE), labels(40, 3)


def parents():
    models = [batchnorm_cnn(seed=seed) for seed in (1, 2)]
    models[1].load_state_dict({name: value.clone() for name, value in models[0].state_dict().items()})
    with torch.no_grad():
        for parameter in models[1].parameters():
            parameter.add_(0.01 * normal(*parameter.shape, seed=7))
    return models


def given(name):
    base = {"base": parents()[0]} if name in ("Task-Arithmetic", "TIES", "DARE") else {}
    return base | ({"sample_counts": [1, 3]} if name == "FedAvg" else {})


@torch.no_grad()
def renewed(model, x):
    """A copy of a sequence of layers, each BatchNorm with the mean and variance of what it reads."""
    model = copy.deepcopy(model)
    for layer in model:
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            axes = [axis for axis in range(x.dim()) if axis != 1]
            layer.running_mean, layer.running_var = x.mean(axes), x.var(axes, correction=0)
        x = layer(x)
    return model


@pytest.mark.parametrize("name", AVERAGING)
def test_statistics_are_those_of_the_merged_network(name):
    plain = METHODS[name](parents(), (X, Y), device="cpu", **given(name)).model
    result = METHODS[name](parents(), (X, Y), device="cpu", reset_norms=True, **given(name))
    expected = renewed(plain, X)
    if name == "Greedy-Soup":
        assert result.config["reset_norms"] is True
        return  # which parents it takes depends on the statistics
    for key, tensor in expected.state_dict().items():
        assert torch.allclose(tensor.double(), result.model.state_dict()[key].double(), rtol=1e-9, atol=1e-12), key
    assert not torch.equal(*(model.state_dict()["1.running_mean"] for model in (plain, result.model)))


def test_a_network_that_cannot_be_traced_is_refused_before_any_work():
    class Branching(nn.Sequential):
        def forward(self, input):
            return super().forward(input if input.sum() > 0 else -input)

    models = [Branching(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).double().eval() for _ in range(2)]
    METHODS["Average"](models, normal(10, 4))
    with pytest.raises(ValueError):
        METHODS["Average"](models, normal(10, 4), reset_norms=True)


def test_compare_shows_both_rows_for_networks_with_batchnorm():
    methods = "average,otfusion,git-re-basin,zipit,ensemble"
    board = compare(parents(), (X, Y), (X, Y), methods, device="cpu")
    names = {row["name"] for row in board.rows if row["method"]}
    assert {"Average", "Average, reset_norms", "ZipIt", "Ensemble"} <= names
    assert any(name.startswith("Git-Re-Basin") and name.endswith("repair") for name in names)
    asked = compare(parents(), (X, Y), (X, Y), "average+reset_norms=true", device="cpu")
    assert [row["method"] for row in asked.rows].count("Average") == 1
    plain = [nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).double() for _ in range(2)]
    rows = compare(plain, normal(10, 4), (normal(10, 4), labels(10, 3)), "average", device="cpu").rows
    assert [row["method"] for row in rows].count("Average") == 1
