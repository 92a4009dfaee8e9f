"""Aligning baselines: a shuffled copy is found again, transport is transport, and averages are what they should be."""

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from retrofit_core import METHODS, evaluate
from retrofit_core.baselines import average
from retrofit_core.baselines.otfusion import transport
from retrofit_core.baselines.scores import group_scores
from retrofit_core.data import load
from retrofit_core.fusion.importance import Conductance, DeepLift, Uniform
from retrofit_core.fusion.importance.scoring import importance_scores
from retrofit_core.networks.checkpoints import load_model
from retrofit_core.system.monitor import Monitor
from tests.families import NETWORKS
from tests.flat import averaging
from tests.marks import each_case, spread
from tests.networks import (
    CNN_SHAPE,
    affine_layers,
    batchnorm_cnn,
    cnn,
    labels,
    mlp,
    normal,
    residual,
    rewired,
    shuffled,
)
from tests.properties import assert_close, assert_same_function, net_of, untouched
from tests.test_twins import twins

otfusion, rebasin, zipit = (METHODS[name] for name in ("OTFusion", "Git-Re-Basin", "ZipIt"))

ot = pytest.importorskip("ot", reason="POT is not installed")
MODES = ("activations", "weights")


@pytest.mark.slow
@each_case("case, mode", spread([(mlp, (6,)), (cnn, CNN_SHAPE), (batchnorm_cnn, CNN_SHAPE)], MODES, 1))
def test_duplicated_neurons_of_a_wider_parent_are_joined(case, mode):
    """C28."""
    make, shape = case
    model, x = make(), normal(40, *shape)
    assert_same_function(otfusion([model, rewired_twice(model)], x, mode=mode).model, model, x, 1e-8)


def rewired_twice(model):
    """Every hidden neuron twice, outgoing weights halved."""
    layer_widths = [layer.weight.shape[0] for layer in affine_layers(model)[:-1]]
    members = [torch.arange(width).repeat(2) for width in layer_widths]
    return rewired(model, members, [torch.full((2 * width,), 0.5).double() for width in layer_widths])


@pytest.mark.parametrize("mode", MODES)
def test_exact_transport_at_equal_widths_is_the_best_matching(mode):
    """C38, brute force over all permutations; the first group sees the raw costs in both modes."""
    first, second, x = mlp((4, 5, 3)), mlp((4, 5, 3), seed=2), normal(20, 4)
    level = otfusion([first, second], x, mode=mode).levels[0]
    if mode == "activations":
        a, b = first[0](x).T, second[0](x).T
    else:
        a, b = (torch.cat([m[0].weight, m[0].bias[:, None]], 1) for m in (first, second))
    cost = torch.cdist(b.detach(), a.detach())
    totals = {order: sum(cost[i, j] for i, j in enumerate(order)).item() for order in itertools.permutations(range(5))}
    best = min(totals, key=totals.__getitem__)
    assert level.labels[5:].tolist() == list(best)
    assert level.grouping["cost"] == pytest.approx(totals[best] / 5, rel=1e-9)  # each has a fifth


@pytest.mark.parametrize("seed", range(5))
def test_plans_have_their_marginals_and_the_least_cost(seed):
    generator = torch.Generator().manual_seed(seed)
    cost = torch.rand(4, 3, generator=generator).double()
    mu, nu = (torch.rand(n, generator=generator).double() + 0.1 for n in (4, 3))
    mu, nu = mu / mu.sum(), nu / nu.sum()
    exact, converged = transport(cost, mu, nu, "exact", 1.0)
    assert converged
    assert_close(exact.sum(1), mu, 1e-12)
    assert_close(exact.sum(0), nu, 1e-12)
    assert_close((exact * cost).sum(), torch.tensor(ot.emd2(mu.numpy(), nu.numpy(), cost.numpy())), 1e-7)
    gaps = []
    for strength in (1.0, 0.1, 0.02):
        soft, _ = transport(cost, mu, nu, "sinkhorn", strength)
        assert_close(soft.sum(0), nu, 1e-4)
        gaps.append(((soft - exact) * cost).sum().item())
    assert gaps[0] > gaps[1] > gaps[2] > -1e-6 and gaps[2] < 0.02


def test_uniform_squared_matching_is_the_largest_inner_product():
    """C39, by brute force over all permutations, behind the ReLU; of samples in several batches."""
    first, second, x = mlp((4, 5, 3)), mlp((4, 5, 3), seed=2), normal(250, 4)
    result = rebasin([first, second], x)
    gram = (first[0](x).relu().T @ second[0](x).relu()).detach()
    best = max(itertools.permutations(range(5)), key=lambda order: sum(gram[i, j] for i, j in enumerate(order)).item())
    assert result.levels[0].labels[5:].tolist() == torch.tensor(best).argsort().tolist()


def test_scores_weigh_the_parents():
    first, second, x = mlp((6, 8, 7, 4)), mlp((6, 8, 7, 4), seed=2), normal(40, 6)
    assert_same_function(
        rebasin([first, second], x).model,
        rebasin([first, second], x, importance=constant, importance_data=rows_of_each(x)).model,
        x,
    )
    # what a parent never uses has next to no say: parent 1's head knows class 0 only
    result = rebasin([first, second], x, importance=only_first_class, importance_data=rows_of_each(x))
    assert_close(result.model[4].bias[1:], first[4].bias[1:], 1e-6)
    assert_close(result.model[4].bias[0], (first[4].bias[0] / 4 + second[4].bias[0]) / (1 / 4 + 1), 1e-6)


def rows_of_each(x):
    return [(x, labels(len(x), 4)), (x + 1, labels(len(x), 4))]


def constant(neurons, x, y):
    return [torch.full((place.width,), 3.0) for place in neurons]


def only_first_class(neurons, x, y):
    scores = constant(neurons, x, y)
    if x[0, 0] == rows_of_each(x - 1)[1][0][0, 0] and x.mean() > 0.5:  # parent 1
        scores[-1] = torch.tensor([1.0, 0, 0, 0])
    return scores


def scores_of_groups(model, x, y, importance):
    net, groups = net_of(model, x)
    return group_scores([net], [groups], importance, [(x, y)], Monitor())[0]


@pytest.mark.slow
def test_group_scores_are_the_levels_scores_where_groups_are_levels():
    model, x, y = batchnorm_cnn(), normal(12, *CNN_SHAPE), labels(12, 3)
    for importance in (Conductance(), DeepLift(), Uniform()):
        grouped, wanted = scores_of_groups(model, x, y, importance), importance_scores(model, x, y, importance)
        for ours, theirs in zip(grouped.values, wanted.values, strict=True):
            assert_close(ours, theirs, 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet", "vit", "residual"])
def test_neurons_inside_of_blocks_have_conductances(name):
    """A shuffled copy's scores are the shuffled scores; so are those of every head."""
    make, shape = NETWORKS[name]
    model, x, y = make(), normal(6, *shape), labels(6, 3)
    scores = scores_of_groups(model, x, y, Conductance()).values
    assert all(abs(values.sum().item() - 1) < 1e-9 and values.std() > 0 for values in scores)
    twin = shuffled(model, x, 3)
    for ours, theirs in zip(scores, scores_of_groups(twin, x, y, Conductance()).values, strict=True):
        assert_close(ours.sort().values, theirs.sort().values, 1e-8)
    with pytest.raises(ValueError, match="'deeplift' is defined only where all that is alive is one layer's output"):
        otfusion([model, twin], (x, y), importance="deeplift", importance_data="fusion")


def test_averages():
    """C40: linear, the same for copies, by shares; a shuffled copy is not found again."""
    model, other, x = mlp(), mlp(seed=2), normal(20, 6)
    assert_same_function(averaging([model, model], x).model, model, x, 1e-12)
    first, second = mlp((6, 4)), mlp((6, 4), seed=2)
    assert_close(average([first, second], [1, 3])(x), (first(x) + 3 * second(x)) / 4, 1e-12)
    _, twin, x = twins("mlp")
    with pytest.raises(AssertionError):
        assert_same_function(average([model, twin]), model, x, 1e-2)
    for weights in ([1.0], [-1.0, 2.0], [0.0, 0.0], [float("nan"), 1.0]):
        with pytest.raises(ValueError, match="2 parents need as many weights"):
            average([model, other], weights)


def test_what_only_a_deeper_parent_has_is_no_average():
    shallow = mlp()
    deep = nn.Sequential(*mlp(seed=2), nn.ReLU(), nn.Linear(4, 4).double())  # it has all of the other's tensors
    with pytest.raises(ValueError, match=r"cannot be averaged: '6.weight' has the shapes \[None, \(4, 4\)\]"):
        average([shallow, deep])


@pytest.mark.slow
def test_published_checkpoints_give_the_published_number(shared):
    models = [load_model(shared / "models" / f"mnist-mlp-otfusion-{k}.safetensors")[0] for k in (0, 1)]
    test = load(str(shared / "data" / "mnist"), "test")
    result = otfusion(models, test.inputs(torch.arange(2)), mode="weights")
    assert evaluate(result.model, test)["accuracy"] == pytest.approx(95.58, abs=0.02)


# --- averages and ensembles ------------------------------------------------------------------------------------------


@pytest.mark.slow
@each_case("method", ["Average", "OTFusion", "ZipIt", "RegMean"])
def test_integer_buffers_are_not_averaged(method):
    """BatchNorm's counter stays parent 0's, whole; its statistics do not."""
    models, x = [batchnorm_cnn(bias=True), batchnorm_cnn(bias=True, seed=2)], normal(30, *CNN_SHAPE)
    for model, count in zip(models, (3, 1001), strict=True):
        for name, buffer in model.named_buffers():
            if name.endswith("num_batches_tracked"):
                buffer.fill_(count)
    fused = METHODS[method](models, (x, torch.zeros(30).long()), device="cpu").model
    counters = [buffer for name, buffer in fused.named_buffers() if name.endswith("num_batches_tracked")]
    assert [(counter.dtype, counter.item()) for counter in counters] == [(torch.int64, 3)] * 3
    if method == "Average":
        first, second = (model[1].running_var for model in models)
        assert_close(fused[1].running_var, (first + second) / 2, 1e-12)


# --- where two methods meet ------------------------------------------------------------------------------------------


def test_first_level_of_hf_linear_is_that_of_the_aligned_averages():
    """C39: full rank, no ridge, uniform scores. Git Re-Basin and PLeaS look behind the activation function; here is none."""
    models, x = [mlp(activation=nn.Identity, seed=seed) for seed in (0, 2)], normal(60, 6)
    ours = METHODS["HF-Linear"](models, x, ridge=0.0, device="cpu")
    results = {
        "Git-Re-Basin": rebasin(models, x, device="cpu"),
        "PLeaS": METHODS["PLeaS"](models, x, ridge=0.0, device="cpu"),
    }
    for name, theirs in results.items():
        assert torch.equal(theirs.levels[0].labels, ours.levels[0].labels), name
        assert_close(theirs.model[0].weight, ours.model[0].weight, 1e-8)
        assert_close(theirs.model[0].bias, ours.model[0].bias, 1e-8)


# --- regMean: the closed form, its limits, and its meeting point with HF-Linear ---------------------------------------


regmean = METHODS["RegMean"]


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


def unfolded(conv, h):
    """(rows, inputs) of a convolution."""
    patches = F.unfold(h, conv.kernel_size, padding=conv.padding, stride=conv.stride, dilation=conv.dilation)
    return patches.movedim(1, -1).flatten(0, -2)


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
                h = model[:index](x)
                if isinstance(model[index], nn.Conv2d):
                    h = unfolded(model[index], h)
            gram = h.T @ h / len(h)
            gram = ratio * gram + (1 - ratio) * torch.diag(gram.diagonal())
            total, right = total + gram, right + gram @ model[index].weight.flatten(1).T
        expected = torch.linalg.solve(total, right).T
        assert_close(result.model[index].weight.flatten(1), expected, 1e-6)
        assert_close(result.model[index].bias, (models[0][index].bias + models[1][index].bias) / 2, 1e-12)


@pytest.mark.slow
def test_layers_inside_an_attention_module_are_solved_too():
    make, shape = NETWORKS["torchvision vit"]
    model, x = make(), normal(6, *shape)
    other = copy.deepcopy(model)
    for parameter in other.parameters():
        parameter.data += 0.1
    result = regmean([model, other], x)
    assert any("self_attention.in_proj" in name for name in result.config["layers"])
    assert_same_function(regmean([model, model], x).model, model, x, 1e-8)
