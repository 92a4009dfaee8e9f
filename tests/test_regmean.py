"""RegMean: the closed form, its limits, and its meeting point with HF-Linear."""

import copy

import pytest
import torch

from retrofit_core import METHODS
from retrofit_core.baselines import average
from retrofit_core.baselines.regmean import solution
from retrofit_core.networks.levels.forms import unfolded
from tests.flat import fuse
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


def test_layers_inside_an_attention_module_are_averaged():
    make, shape = NETWORKS["torchvision vit"]
    model, x = make(), normal(6, *shape)
    other = copy.deepcopy(model)
    for parameter in other.parameters():
        parameter.data += 0.1
    result = regmean([model, other], x)
    assert result.config["layers"] and not any("self_attention" in name for name in result.config["layers"])
    assert_same_function(regmean([model, model], x).model, model, x, 1e-8)
