"""REPAIR: the goal statistics are met exactly, and nothing changes where nothing was lost."""

import copy

import pytest
import torch
from torch import nn

from retrofit_core.baselines import average
from retrofit_core.baselines.repair import statistics as statistics_of
from retrofit_core.graph.graph import load, weights_of
from retrofit_core.methods import METHODS
from tests.families import NETWORKS
from tests.marks import each_case, spread
from tests.networks import CNN_SHAPE, batchnorm_cnn, cnn, labels, mlp, normal, residual, shuffled
from tests.properties import (
    assert_close,
    assert_same_function,
    kept_norms,
    net_of,
    renew_norms,
    reordered,
    repair,
    untouched,
)

PLAIN = {"mlp": (mlp, (6,)), "cnn": (cnn, CNN_SHAPE), "residual": (residual, CNN_SHAPE), "vit": NETWORKS["vit"]}


def statistics(model, x):
    """Layer -> mean and deviation of its outputs."""
    net, _ = net_of(model, x)
    return {name.removesuffix(".weight"): facts for name, facts in statistics_of(net, [x]).items()}


def parents_of(name):
    make, shape = PLAIN[name]
    first = make()
    second = make(seed=2) if name != "vit" else copy.deepcopy(first)
    if name == "vit":
        for parameter in second.parameters():
            parameter.data += 0.1 * normal(*parameter.shape, seed=4)
    return [first, second], normal(130, *shape)  # more than one batch


@pytest.mark.parametrize("name", PLAIN)
def test_every_layer_but_the_head_has_the_parents_mean_statistics(name):
    """C40, on the calibration set and through every layer at once."""
    models, x = parents_of(name)
    fused = average(models)
    head = {list(statistics(fused, x))[-1]}  # in the order of running
    before = weights_of(copy.deepcopy(fused))
    with untouched(*models):
        facts = repair(fused, models, x)
    measured, (first, second) = statistics(fused, x), (statistics(model, x) for model in models)
    assert len(head) == 1 and facts == {"kind": "rescale", "layers": len(measured) - 1, "dead": 0}
    for layer in measured.keys() - head:
        for part in (0, 1):
            assert_close(measured[layer][part], (first[layer][part] + second[layer][part]) / 2, 1e-9)
    for layer in head:
        assert_close(weights_of(fused)[f"{layer}.weight"], before[f"{layer}.weight"], 0)


def test_statistics_are_set_with_and_without_keeping_the_function():
    """Kept: every BatchNorm normalises what it reads, at one place and for all rows, and the outputs stay."""
    model, x = batchnorm_cnn(), normal(230, *CNN_SHAPE)
    kept, changed = copy.deepcopy(model), copy.deepcopy(model)
    kept_norms(kept, x)
    assert renew_norms(changed, x) == {"kind": "reset", "layers": 3, "dead": 0}
    assert_same_function(kept, model, normal(9, *CNN_SHAPE, seed=7), 1e-9)
    assert (changed(x) - model(x)).abs().max() > 0.1
    for network in (kept, changed):  # the first layer reads the same in both
        expected = renewed(network, x)
        for index in (1, 5):
            assert_close(network[index].running_mean, expected[index].running_mean, 1e-10)
            assert_close(network[index].running_var, expected[index].running_var, 1e-10)
    assert torch.equal(changed[1].weight, model[1].weight) and not torch.equal(kept[1].weight, model[1].weight)


def test_dead_neurons_and_layers_without_a_bias():
    models, x = [mlp(), mlp(seed=2)], normal(50, 6)
    fused = average(models)
    fused[0].weight.data[3] = 0
    facts = repair(fused, models, x)
    assert facts["dead"] == 1 and all(torch.isfinite(tensor).all() for tensor in weights_of(fused).values())
    wanted = (models[0][0](x).mean(0) + models[1][0](x).mean(0)) / 2
    assert_close(fused[0](x).mean(0), wanted, 1e-10)
    models = [mlp(bias=False), mlp(bias=False, seed=2)]
    fused = average(models)
    repair(fused, models, x)
    assert fused[0].bias is None
    wanted = (models[0][0](x).std(0) + models[1][0](x).std(0)) / 2
    assert_close(fused[0](x).std(0), wanted, 1e-10)


def test_layers_that_run_twice_stay():
    make, shape = NETWORKS["shared"]
    model, x = make(), normal(20, *shape)
    assert "again" not in statistics(model, x)
    fused = copy.deepcopy(model)
    fused.first.weight.data.mul_(0.5)
    repair(fused, [model], x)
    assert torch.equal(fused.again.weight, model.again.weight)


@pytest.mark.slow
@each_case(
    "method, name",
    spread(["OTFusion", "Git-Re-Basin"], ["mlp", "cnn", "residual"], 2),
)
def test_every_aligning_method_composes_with_it(name, method):
    """The same goals as from parents that are put into the fused order by hand; a shuffled copy stays."""
    (first, second), x = parents_of(name)
    result = METHODS[method]([first, second], x, repair=True)
    orders = {level.name: level.labels[level.width :].argsort() for level in result.levels}
    twin = load(copy.deepcopy(second), reordered(weights_of(second), net_of(second, x)[1], orders))
    expected = average([first, twin])
    repair(expected, [first, twin], x)
    assert_same_function(result.model, expected, x, 1e-9)
    assert result.config["repaired"]["layers"] == len(statistics(first, x)) - 1
    copied = shuffled(first, x, 4)
    assert_same_function(METHODS[method]([first, copied], x, repair=True).model, first, x, 1e-8)


def test_goals_of_a_weighted_average_are_weighted():
    """Scores say how much of each parent's statistics; different widths are mapped by the transport."""
    models, x = [mlp(), mlp(seed=2)], normal(50, 6)
    y = torch.arange(50) % 4
    options = {"importance": "conductance", "importance_data": "fusion"}
    result = METHODS["Git-Re-Basin"](models, (x, y), repair=True, **options)
    level = result.levels[0]
    order, (s, t) = level.labels[8:].argsort(), level.scores.split(8)
    (_, first), (_, second) = (statistics(model, x)["0"] for model in models)
    share = s / (s + t[order])
    assert_close(statistics(result.model, x)["0"][1], share * first + (1 - share) * second[order], 1e-8)
    narrow = METHODS["OTFusion"]([mlp(), mlp((6, 5, 7, 4))], x, repair=True)
    assert all(torch.isfinite(tensor).all() for tensor in weights_of(narrow.model).values())


# --- reset_norms of methods that average weights: statistics are those of the fusion data, computed here --------------


AVERAGING = ("Average", "RegMean")
X, Y = normal(40, *CNN_SHAPE), labels(40, 3)


def parents():
    models = [batchnorm_cnn(seed=seed) for seed in (1, 2)]
    models[1].load_state_dict({name: value.clone() for name, value in models[0].state_dict().items()})
    with torch.no_grad():
        for parameter in models[1].parameters():
            parameter.add_(0.01 * normal(*parameter.shape, seed=7))
    return models


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


@pytest.mark.slow
@pytest.mark.parametrize("name", AVERAGING)
def test_statistics_are_those_of_the_merged_network(name):
    plain = METHODS[name](parents(), (X, Y), device="cpu").model
    result = METHODS[name](parents(), (X, Y), device="cpu", reset_norms=True)
    expected = renewed(plain, X)
    for key, tensor in expected.state_dict().items():
        assert torch.allclose(tensor.double(), result.model.state_dict()[key].double(), rtol=1e-9, atol=1e-12), key
    assert not torch.equal(*(model.state_dict()["1.running_mean"] for model in (plain, result.model)))
