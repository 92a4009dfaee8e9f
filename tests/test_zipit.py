"""ZipIt!: the greedy merging is the paper's, copies are found again, and nothing merged is an ensemble."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrofit_core import FusionResult, ensemble
from retrofit_core.baselines import average
from retrofit_core.baselines.repair import statistics
from retrofit_core.baselines.zipit import zip_neurons
from retrofit_core.fusion.alignment import AlignedGroup
from retrofit_core.networks.architectures import build
from retrofit_core.networks.norm_statistics import reset_statistics
from retrofit_core.networks.symmetry import tensors
from retrofit_core.system.monitor import Cancelled, Monitor
from tests.networks import CNN_SHAPE, VGG_SHAPE, batchnorm_cnn, initialised, mlp, normal
from tests.properties import assert_close, assert_same_function, untouched
from tests.test_twins import twins
from tests.unfixed import zipit


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


@given(st.integers(0, 10_000))
def test_merging_and_handing_back_is_the_identity(seed):
    """C40: M U = I; members' shares add up to one."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.cat([torch.arange(4), torch.randint(4, (6,), generator=generator)])
    group = AlignedGroup("", 4, labels.split([5, 2, 3]))
    T, U = (torch.cat(parts) for parts in zip(*map(group.maps, range(3)), strict=True))
    assert_close(T.T @ U / 3, torch.eye(4, dtype=torch.float64), 1e-12)
    assert_close(T.sum(0) / 3, torch.ones(4), 1e-12)
    assert_close(U.sum(1), torch.ones(10), 0)


@pytest.mark.parametrize("name", ["mlp", "resnet", "vit"])
def test_all_merges_of_copies_are_across_the_parents(name):
    model, twin, x = twins(name)
    assert all(sum(level.grouping.get("within", [0])) == 0 for level in zipit([model, twin], x).levels)


@pytest.mark.parametrize("name", ["vgg with BatchNorm", "resnet"])
def test_batchnorm_gets_new_statistics(name):
    model, twin, x = twins(name)
    fused = zipit([model, twin], x).model
    expected = copy.deepcopy(model)
    reset_statistics(expected, x, keep_function=False)
    assert_same_function(fused, expected, x, 1e-8)


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


def test_repair_gives_members_their_mean_statistics():
    models, x = [mlp(), mlp(seed=2)], normal(60, 6)
    result = zipit(models, x, repair=True)
    measured = statistics(result.model, x)
    labels = result.levels[0].labels
    for part in (0, 1):
        statistic = torch.cat([statistics(model, x)["0"][part] for model in models])
        assert_close(measured["0"][part], torch.stack([statistic[labels == k].mean() for k in range(8)]), 1e-9)
    assert result.config["repaired"]["kind"] == "rescale"


def test_different_widths_and_a_small_target():
    models, x = [mlp((6, 8, 7, 4)), mlp((6, 5, 9, 4), seed=2)], normal(30, 6)
    result = zipit(models, x, target=mlp((6, 4, 10, 4)))
    assert [level.widths for level in result.levels] == [(8, 5), (7, 9), (4, 4)]
    assert [level.width for level in result.levels] == [4, 10, 4]
    assert all(torch.isfinite(tensor).all() for tensor in tensors(result.model).values())


def test_saved_and_read(tmp_path):
    models, x = [batchnorm_cnn(), batchnorm_cnn(seed=2)], normal(30, *CNN_SHAPE)
    result = zipit(models, x)
    result.save(tmp_path)
    again = FusionResult.load(tmp_path, batchnorm_cnn())
    assert_same_function(again.model, result.model, x, 1e-12)
    assert [level.labels.tolist() for level in again.levels] == [level.labels.tolist() for level in result.levels]
    assert again.config["a"] == 0.3


def test_refusals_progress_and_cancelling():
    models, x = [mlp(), mlp(seed=2)], normal(20, 6)
    cases = [
        (models, {"a": 2}, "a is 2. Use a number from 0 to 1"),
        (models, {"b": -1}, "b is -1. Use a number from 0 to 1"),
        (models, {"target": mlp((6, 30, 7, 4))}, "level '0': 30 fused neurons for 16 parents' neurons"),
        ([mlp(), mlp((6, 8, 4))], {}, "parent 1"),
        ([], {}, "there is no parent to fuse"),
    ]
    for parents, options, message in cases:
        with untouched(*parents), pytest.raises(ValueError, match=message):
            zipit(parents, x, **options)
    with pytest.raises(Cancelled):
        zipit(models, x, monitor=Monitor(cancelled=lambda: True))
    events = []
    zipit(models, x, monitor=Monitor(events.append))
    assert [event["name"] for event in events if event["kind"] == "level"] == ["0", "2", "4"]
    assert not torch.allclose(zipit(models, x).model(x), average(models)(x))
