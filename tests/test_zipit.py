"""ZipIt! and PLeaS: which neurons merge, and what their weights are."""

import copy
import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrofit_core import METHODS, ensemble
from retrofit_core.baselines.pleas import paired
from retrofit_core.baselines.zipit import zip_neurons
from retrofit_core.networks.architectures import build
from tests.networks import VGG_SHAPE, initialised, mlp, normal
from tests.properties import assert_close, assert_same_function, renew_norms
from tests.test_twins import twins

pleas, zipit = METHODS["PLeaS"], METHODS["ZipIt"]


def reference(similarity, origins, width, a, b):
    """The greedy merging with sets in loops, all pairs looked at in every step."""
    m, n = len(similarity), int(max(origins)) + 1
    groups = {i: {i} for i in range(m)}
    sims = {(i, j): similarity[i][j] for i in range(m) for j in range(m) if i < j}
    budget, within = [int((m - width) // n * b + 1e-4)] * n, [0] * n
    while len(groups) > width:

        def parents(i):
            return {int(origins[k]) for k in groups[i]}

        open_pairs = {
            pair: value
            for pair, value in sims.items()
            if value > -1e9 and all(budget[k] > 0 for k in parents(pair[0]) & parents(pair[1]))
        }
        i, j = max(open_pairs or sims, key=lambda pair: (sims[pair], -pair[0], -pair[1]))
        for k in parents(i) & parents(j):
            budget[k] -= 1
            within[k] += 1
        groups[i] |= groups.pop(j)
        merged = {}
        for (p, q), value in sims.items():
            if {p, q} == {i, j}:
                continue
            merged.setdefault(tuple(sorted(i if k == j else k for k in (p, q))), []).append(value)
        sims = {
            pair: (min(values) if i not in pair else (min(values) * a if a > 0 and min(values) > -1e9 else -1e9))
            for pair, values in merged.items()
        }
    order = sorted(groups)
    return [next(number for number, i in enumerate(order) if k in groups[i]) for k in range(m)], within


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([0.0, 0.5, 1.0]), st.integers(2, 3))
def test_greedy_merging_equals_the_loops(seed, a, b, n):
    generator = torch.Generator().manual_seed(seed)
    widths = torch.randint(1, 5, (n,), generator=generator).tolist()
    m = sum(widths)
    x = torch.randn(30, m, generator=generator, dtype=torch.float64)
    similarity = torch.corrcoef(x.T)
    similarity = (similarity + similarity.T) / 2
    origins = torch.repeat_interleave(torch.arange(n), torch.tensor(widths))
    width = int(torch.randint(1, m + 1, (1,), generator=generator))
    labels, facts = zip_neurons(similarity, origins, width, a=a, b=b)
    assert sorted(set(labels.tolist())) == list(range(width))
    assert (labels.tolist(), facts["within"]) == reference(similarity.tolist(), origins.tolist(), width, a, b)
    assert 0 <= facts["forced"] <= m - width


@pytest.mark.slow
@pytest.mark.parametrize("method", [zipit, pleas])
@pytest.mark.parametrize("name", ["vgg with BatchNorm", "resnet"])
def test_batchnorm_gets_new_statistics(name, method):
    model, twin, x = twins(name)
    fused, expected = method([model, twin], x).model, copy.deepcopy(model)
    renew_norms(expected, x)
    assert_same_function(fused, expected, x, 1e-7)


DOUBLE = {
    "mlp": ({"architecture": "mlp", "sizes": [6, 5, 4, 3]}, {"architecture": "mlp", "sizes": [6, 10, 8, 3]}, (6,)),
    "vgg": (
        {"architecture": "vgg", "plan": [3, "M", 4, 5], "classes": 4, "size": 8, "batch_norm": True},
        {"architecture": "vgg", "plan": [6, "M", 8, 10], "classes": 4, "size": 8, "batch_norm": True},
        VGG_SHAPE,
    ),
    "resnet": (
        {"architecture": "resnet", "layers": [1, 1], "width": 3, "classes": 4, "size": 8},
        {"architecture": "resnet", "layers": [1, 1], "width": 6, "classes": 4, "size": 8},
        VGG_SHAPE,
    ),
}


@pytest.mark.parametrize("name", DOUBLE)
def test_where_nothing_merges_it_is_the_mean_of_logits(name):
    spec, wide, shape = DOUBLE[name]
    models = [initialised(build(spec), seed) for seed in (1, 2)]
    x = normal(20, *shape)
    result = zipit(models, x, target=build(wide).double(), reset_norms=False)
    assert_close(result.model(x), ensemble(models, "logits")(x), 1e-6)
    assert [level.width for level in result.levels[:-1]] == [sum(level.widths) for level in result.levels[:-1]]


def test_zip_by_hand():
    """An MLP: members' rows are averaged, and the head's columns are added up."""
    models, x = [mlp(), mlp(seed=2)], normal(40, 6)
    full = zipit(models, x)
    rows = torch.cat([torch.cat([model[0].weight, model[0].bias[:, None]], 1) for model in models])
    fused = torch.stack([rows[full.levels[0].labels == k].mean(0) for k in range(8)])
    assert_close(full.model[0].weight, fused[:, :-1], 1e-10)
    # head: W = mean of W_k U_k
    second = full.levels[1].labels.split([7, 7])
    head = sum(
        torch.zeros(4, 7).double().index_add(1, fused_neurons, m[4].weight)
        for m, fused_neurons in zip(models, second, strict=True)
    )
    assert_close(full.model[4].weight, head / 2, 1e-10)


# --- PLeaS: the pairing is the best, the weights are least squares ----------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_pairs_are_the_best_of_all(seed):
    similarity = normal(5, 5, seed=seed)
    best = max(
        itertools.permutations(range(5)), key=lambda order: sum(similarity[i, j] for i, j in enumerate(order)).item()
    )
    assert [paired(similarity)[5 + j].item() for j in best] == list(range(5))


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
