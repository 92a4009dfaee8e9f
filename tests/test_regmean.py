"""RegMean: the closed form, its limits, and its meeting point with HF-Linear."""

import copy

import pytest
import torch
from torch import nn

from retrofit_core import METHODS
from retrofit_core.baselines import average
from retrofit_core.baselines.layers import form_of
from retrofit_core.baselines.regmean import solution
from retrofit_core.fusion.moments.layersums import LayerSums
from retrofit_core.networks.levels.forms import unfolded
from retrofit_core.system.monitor import Cancelled, Monitor
from tests.flat import fuse
from tests.marks import each_case
from tests.networks import CNN_SHAPE, affine_layers, batchnorm_cnn, cnn, labels, mlp, normal, residual
from tests.properties import assert_close, assert_same_function, untouched
from tests.test_symmetry import NETWORKS

regmean = METHODS["RegMean"]


@pytest.mark.parametrize("ratio", [0.0, 0.5, 0.9, 1.0])
def test_weights_minimise_the_regression_loss(ratio):
    """The gradient of sum_k tr (W - W_k)' a(G_k) (W - W_k) vanishes, by autograd; at ratio 1 it is least squares."""
    xs, weights = [normal(30, 5, seed=k) for k in (1, 2)], [normal(5, 3, seed=k) for k in (3, 4)]
    grams = [x.T @ x / len(x) for x in xs]
    W = solution(grams, weights, ratio, 1e-14).requires_grad_()
    loss = torch.zeros(())
    for gram, own_weights in zip(grams, weights, strict=True):
        scaled = gram * ratio + torch.diag(gram.diagonal()) * (1 - ratio)
        loss = loss + torch.trace((W - own_weights).T @ scaled @ (W - own_weights))
    (slope,) = torch.autograd.grad(loss, W)
    assert slope.abs().max() < 1e-9
    if ratio == 1.0:
        stacked = torch.linalg.lstsq(torch.cat(xs), torch.cat([x @ w for x, w in zip(xs, weights, strict=True)]))
        assert_close(W, stacked.solution, 1e-9)


@pytest.mark.parametrize(
    "make, shape", [(mlp, (6,)), (cnn, CNN_SHAPE), (residual, CNN_SHAPE), (batchnorm_cnn, CNN_SHAPE)]
)
def test_common_inputs_give_the_average_and_copies_themselves(make, shape):
    models, x = [make(), make(seed=2)], normal(60, *shape)
    with untouched(*models):
        assert_same_function(regmean([models[0]] * 3, x).model, models[0], x, 1e-9)
        fused = regmean(models, x).model
    first, plain = affine_layers(fused)[0], affine_layers(average(models))[0]
    assert_close(first.weight, plain.weight, 1e-10)  # the inputs of the first layer are common
    second, plain = affine_layers(fused)[1], affine_layers(average(models))[1]
    assert not torch.allclose(second.weight, plain.weight)


def test_first_level_of_hf_linear_with_equal_indices():
    """Identity matching, uniform scores and no ridge: both are the plain average there."""
    models, x = [mlp(), mlp(seed=2)], normal(60, 6)
    ours = fuse(models, x, grouping="same_index", ridge=0.0).model
    assert_close(regmean(models, x, ratio=1.0).model[0].weight, ours[0].weight, 1e-9)


@pytest.mark.parametrize("ratio", [0.9, 1.0])
def test_each_parents_own_data_decide(ratio):
    """Against the formula, layer by layer, on hooked inputs; and a parent's own directions stay its own."""
    models, sets = [cnn(), cnn(seed=2)], [normal(20, *CNN_SHAPE, seed=k) * (k + 1) for k in (1, 2)]
    result = regmean(models, sets[0], ratio=ratio, importance_data=[(x, labels(20, 3)) for x in sets])
    assert result.config["own_data"] and result.config["samples"] == [20, 20]
    for index in (0, 3, 7):
        right, total = 0, 0
        for model, x in zip(models, sets, strict=True):
            with torch.no_grad():
                h = unfolded(model[index], model[:index](x))
            gram = h.T @ h / len(h)
            gram = ratio * gram + (1 - ratio) * torch.diag(gram.diagonal())
            total, right = total + gram, right + gram @ model[index].weight.flatten(1).T
        expected = torch.linalg.solve(total, right).T
        assert_close(result.model[index].weight.flatten(1), expected, 1e-6)
        assert_close(result.model[index].bias, (models[0][index].bias + models[1][index].bias) / 2, 1e-12)


def test_parents_on_disjoint_inputs_keep_their_functions():
    first, second = mlp((6, 3), bias=False), mlp((6, 3), bias=False, seed=2)
    x, y = normal(30, 6, seed=1), normal(30, 6, seed=2)
    x[:, 3:], y[:, :3] = 0, 0
    fused = regmean([first, second], x, ratio=1.0, importance_data=[(x, labels(30, 3)), (y, labels(30, 3))]).model
    assert_close(fused(x), first(x), 1e-8)
    assert_close(fused(y), second(y), 1e-8)


def test_inputs_that_nobody_sees_leave_the_average():
    models, x = [mlp(), mlp(seed=2)], normal(30, 6)
    x[:, 2] = 0
    fused = regmean(models, x).model
    assert_close(fused[0].weight[:, 2], (models[0][0].weight + models[1][0].weight)[:, 2] / 2, 1e-8)
    assert_same_function(regmean(models, torch.zeros(5, 6).double()).model[0], average(models)[0], x, 1e-10)


@each_case("bias", [True, False])
@each_case("layer", [nn.Conv2d(96, 4, 3, padding=1), nn.Conv2d(3, 4, 3, stride=2), nn.Linear(5, 4)])
def test_layer_sums_are_those_of_the_rows(layer, bias):
    layer = layer.double()
    h = normal(7, 5) if isinstance(layer, nn.Linear) else normal(7, layer.in_channels, 6, 6)
    with torch.no_grad():
        z = layer(h).movedim(1, -1).reshape(-1, 4)
    sums = LayerSums(form_of(layer), 4, dtype=torch.float64, ones=bias)
    for part, rows in zip(h.split(3), z.split(3 * (len(z) // 7)), strict=True):
        sums.add([part], rows)
    moments, x = sums.finish(), unfolded(layer, h, ones=bias)
    pairs = ((moments.xx, x.T @ x), (moments.xz, x.T @ z), (moments.zz, z.T @ z), (moments.sz, z.sum(0)))
    for ours, theirs in pairs:
        assert_close(ours, theirs, 1e-10)
    assert moments.rows == len(x)
    alone = LayerSums(form_of(layer), 1, dtype=torch.float64, ones=bias)
    alone.add([h])
    assert_close(alone.finish().xx, x.T @ x, 1e-10)


def test_layers_inside_an_attention_module_are_averaged():
    make, shape = NETWORKS["torchvision vit"]
    model, x = make(), normal(6, *shape)
    other = copy.deepcopy(model)
    for parameter in other.parameters():
        parameter.data += 0.1
    result = regmean([model, other], x)
    assert result.config["layers"] and not any("self_attention" in name for name in result.config["layers"])
    assert_same_function(regmean([model, model], x).model, model, x, 1e-8)


def test_refusals_progress_and_cancelling():
    models, x = [mlp(), mlp(seed=2)], normal(20, 6)
    cases = [
        (models, {"ratio": 1.5}, "ratio is 1.5. Use a number from 0 to 1"),
        (models, {"importance_data": [x]}, "importance_data holds 1 sets for 2 parents"),
        (models, {"target": mlp((6, 5, 7, 4))}, "weights cannot be averaged"),
        ([mlp(), mlp((6, 5, 7, 4))], {}, "weights cannot be averaged: '0.weight' has the shapes"),
        ([], {}, "there is no parent to fuse"),
        (models, {"importance": "uniform"}, "RegMean has no setting 'importance'"),
    ]
    for parents, options, message in cases:
        with untouched(*parents), pytest.raises(ValueError, match=message):
            regmean(parents, x, **options)
    with pytest.raises(Cancelled):
        regmean(models, x, monitor=Monitor(cancelled=lambda: True))
    events = []
    regmean(models, x, monitor=Monitor(events.append))
    assert [event["name"] for event in events if event["kind"] == "level"] == ["0", "2", "4"]
