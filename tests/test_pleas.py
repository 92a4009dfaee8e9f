"""PLeaS: the pairing is the best, the weights are least squares, and neurons that stay apart stay apart."""

import copy
import itertools

import pytest
import torch

from retrofit_core import ensemble
from retrofit_core.baselines.pleas import paired
from retrofit_core.baselines.repair import statistics
from retrofit_core.networks.architectures import build
from retrofit_core.networks.levels.forms import unfolded
from retrofit_core.networks.norm_statistics import reset_statistics
from retrofit_core.networks.symmetry import neuron_groups, tensors
from retrofit_core.system.monitor import Cancelled, Monitor
from tests.networks import CNN_SHAPE, cnn, initialised, mlp, normal
from tests.properties import assert_close, assert_same_function, untouched
from tests.test_twins import twins
from tests.test_zipit import DOUBLE
from tests.unfixed import pleas, rebasin


@pytest.mark.parametrize("seed", range(4))
def test_pairs_are_the_best_of_all_and_the_least_similar_stay_apart(seed):
    similarity = normal(5, 5, seed=seed)
    best = max(
        itertools.permutations(range(5)), key=lambda order: sum(similarity[i, j] for i, j in enumerate(order)).item()
    )
    labels = paired(similarity, 5)
    assert [labels[5 + j].item() for j in best] == list(range(5))
    wide = paired(similarity, 7)
    assert sorted(set(wide.tolist())) == list(range(7)) and wide[:5].tolist() == list(range(5))
    kept = [i for i in range(5) if wide[5 + best[i]] == i]
    values = [similarity[i, best[i]].item() for i in range(5)]
    assert sorted(kept) == sorted(sorted(range(5), key=lambda i: -values[i])[:3])
    assert sorted(paired(similarity, 10).tolist()) == list(range(10))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vgg with BatchNorm", "resnet", "bottleneck"])
def test_batchnorm_gets_new_statistics(name):
    model, twin, x = twins(name)
    fused, expected = pleas([model, twin], x).model, copy.deepcopy(model)
    reset_statistics(expected, x, keep_function=False)
    assert_same_function(fused, expected, x, 1e-7)


def test_weights_are_least_squares_on_mean_features():
    """Against numpy's normal equations, level by level, with the pairing of the report."""
    models, x = [mlp(), mlp(seed=2)], normal(60, 6)
    result = pleas(models, x, ridge=0.0)
    orders = [level.labels[level.width :].argsort() for level in result.levels]
    inputs, outputs = [[x], [x]], [[], []]
    with torch.no_grad():
        for model, read, made in zip(models, inputs, outputs, strict=True):
            for index in (0, 2, 4):
                made.append(model[index](read[-1]))
                read.append(made[-1].relu())
    order = torch.arange(6)
    for number, index in enumerate((0, 2, 4)):
        h = inputs[0][number] / 2 + inputs[1][number][:, order] / 2
        order = orders[number] if number < 2 else torch.arange(4)
        z = outputs[0][number] / 2 + outputs[1][number][:, order] / 2
        expected = torch.linalg.lstsq(torch.cat([h, torch.ones(60, 1)], 1), z).solution
        assert_close(result.model[index].weight.T, expected[:-1], 1e-8)
        assert_close(result.model[index].bias, expected[-1], 1e-8)


def test_ridge_pulls_towards_the_aligned_mean():
    """A strong ridge is Git Re-Basin's average of the same pairs; convolutions that are flattened too."""
    models, x = [cnn(), cnn(seed=2)], normal(40, *CNN_SHAPE)
    strong, aligned = pleas(models, x, ridge="1e9x").model, rebasin(models, x).model
    for name, tensor in tensors(strong).items():
        if name.endswith("weight"):
            assert_close(tensor, tensors(aligned)[name], 1e-6)
    weak = pleas(models, x, ridge="1e-9x")
    with torch.no_grad():  # the last layer, read behind a flatten
        h = [model[:7](x) for model in models]
    order = weak.levels[1].labels[5:].argsort()
    columns = (order[:, None] * 4 + torch.arange(4)).flatten()
    mean = torch.cat([(h[0] + h[1][:, columns]) / 2, torch.ones(40, 1)], 1)
    wanted = (models[0](x) + models[1](x)) / 2
    expected = torch.linalg.lstsq(mean, wanted).solution
    assert_close(mean @ torch.cat([weak.model[7].weight.T, weak.model[7].bias[None]]), mean @ expected, 1e-5)


def test_convolutions_against_unfolded_rows():
    models, x = [cnn(), cnn(seed=2)], normal(40, *CNN_SHAPE)
    fused = pleas(models, x, ridge=0.0)
    order = fused.levels[0].labels[4:].argsort()
    with torch.no_grad():
        h = unfolded(models[0][0], x, ones=True)
        z = [model[0](x).movedim(1, -1).flatten(0, 2) for model in models]
    expected = torch.linalg.lstsq(h, (z[0] + z[1][:, order]) / 2).solution
    assert_close(fused.model[0].weight.flatten(1).T, expected[:-1], 1e-8)


@pytest.mark.parametrize("name", DOUBLE)
def test_all_neurons_apart_are_both_networks_side_by_side(name):
    """Then the head's least squares have an exact solution, the mean of the logits; so have all other layers."""
    spec, wide, shape = DOUBLE[name]
    models = [initialised(build(spec), seed) for seed in (1, 2)]
    x = normal(60, *shape)
    result = pleas(models, x, target=build(wide).double(), reset_norms=False)
    assert_close(result.model(x), ensemble(models, "logits")(x), 1e-6)
    for group in neuron_groups(result.model, x):
        for part in group.parts if not group.fixed else ():
            assert torch.isfinite(tensors(result.model)[part.name]).all()
    if name == "mlp":
        second = result.model.state_dict()["fc2.weight"]
        assert not second[:4, 5:].any() and not second[4:, :5].any()  # no way from one parent to the other


def test_partial_merging_by_least_squares_on_what_is_shared():
    """One hidden layer: rows of a parent's own neurons read pixels, the head reads all."""
    models, x = [mlp((6, 5, 3)), mlp((6, 5, 3), seed=2)], normal(60, 6)
    result = pleas(models, x, target=mlp((6, 7, 3)), ridge=0.0)
    labels = result.levels[0].labels.split(5)
    with torch.no_grad():
        hidden = torch.zeros(60, 7).double()
        counts = torch.bincount(result.levels[0].labels, minlength=7)
        for model, fused_neurons in zip(models, labels, strict=True):
            hidden.index_add_(1, fused_neurons, model[:2](x) / counts[fused_neurons])
    wanted = (models[0](x) + models[1](x)) / 2
    expected = torch.linalg.lstsq(torch.cat([hidden, torch.ones(60, 1)], 1), wanted).solution
    assert_close(result.model[2].weight.T, expected[:-1], 1e-8)
    alone = labels[1] >= 5
    assert_close(result.model[0].weight[labels[1][alone]], models[1][0].weight[alone], 1e-8)


def test_repair_follows_the_fit():
    models, x = [mlp(), mlp(seed=2)], normal(60, 6)
    result = pleas(models, x, repair=True)
    first, second = (statistics(model, x)["0"][1] for model in models)
    order = result.levels[0].labels[8:].argsort()
    assert_close(statistics(result.model, x)["0"][1], (first + second[order]) / 2, 1e-9)


def test_refusals_progress_and_cancelling():
    models, x = [mlp(), mlp(seed=2)], normal(20, 6)
    cases = [
        ([*models, mlp(seed=3)], {}, "pairs exactly two parents; found 3. Use ZipIt"),
        ([mlp(), mlp((6, 5, 7, 4))], {}, r"level '0': PLeaS pairs parents of equal widths .* found widths \(8, 5\)"),
        (models, {"target": mlp((6, 17, 7, 4))}, r"level '0': .* fused width 17"),
        (models, {"target": mlp((6, 7, 7, 4))}, r"level '0': .* fused width 7"),
        (models, {"ridge": "strong"}, "ridge is 'strong'. Use 'auto'"),
    ]
    for parents, options, message in cases:
        with untouched(*parents), pytest.raises(ValueError, match=message):
            pleas(parents, x, **options)
    with pytest.raises(Cancelled):
        pleas(models, x, monitor=Monitor(cancelled=lambda: True))
    events = []
    pleas(models, x, monitor=Monitor(events.append))
    assert [event["name"] for event in events if event["kind"] == "level"] == ["0", "2", "4"]
