"""The walk: rows of parents and fused prefix, whatever is cached, chunked or batched; what counts as fusion data."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, TensorDataset

from retrofit_core import METHODS
from retrofit_core.fusion import walk as walks
from retrofit_core.fusion.fit.gradient import inputs_and_targets
from retrofit_core.fusion.joint_spaces import Levels
from retrofit_core.fusion.moments import Rows, layersums
from retrofit_core.fusion.samples import as_inputs
from retrofit_core.fusion.walk import Walk
from retrofit_core.networks.levels import compose, each, partition, rows
from retrofit_core.system.runtime import Runtime
from tests.marks import each_case
from tests.networks import CNN_SHAPE, batchnorm_cnn, cnn, initialised, labels, normal, residual
from tests.properties import assert_close

SAMPLES = 23


def networks(device):
    x = normal(SAMPLES, *CNN_SHAPE)
    models = [cnn(seed=k).to(device) for k in range(3)]
    return x, [partition(model, x[:2].to(device)) for model in models]


def walked(device, **options):
    """Moments and gradient data of every level; the fused network is network 2 as it is."""
    x, (first, second, fused) = networks(device)
    walk = Walk(Levels([first, second], fused), x, Runtime(device=device, **options))
    levels = []
    for step in walk:
        sums = step.moments(inputs=True)
        A = torch.full((2 * step.level.width, step.level.width), 0.5).double().to(device)
        levels.append((sums, *inputs_and_targets(step, A)))
    return levels


def test_moments_are_those_of_the_materialised_rows(device):
    x, (first, second, fused) = networks(device)
    h = x.to(device)
    for index, (sums, boundary, targets) in enumerate(walked(device)):
        z = torch.cat(
            [rows(compose(levels[: index + 1], x.to(device)), levels[index].axis) for levels in (first, second)], 1
        )
        inputs = fused[index].inputs(h)
        inputs = torch.cat([inputs, torch.ones(len(inputs), 1).to(inputs)], 1)
        assert_close(sums.zz, z.T @ z, 1e-11)
        assert_close(sums.sz, z.sum(0), 1e-11)
        if isinstance(sums, Rows):
            sums = sums.moments()
        assert_close(sums.xx, inputs.T @ inputs, 1e-11)
        assert_close(sums.xz, inputs.T @ z, 1e-11)
        assert sums.rows == SAMPLES * fused[index].positions
        assert_close(boundary, h, 1e-12)
        expected = (z @ torch.full((z.shape[1], fused[index].width), 0.5).to(z)).reshape(
            SAMPLES, -1, fused[index].width
        )
        assert_close(targets, expected, 1e-11)
        h = fused[index].module(h)


@pytest.mark.slow
@each_case("change", ["no cache", "little cache", "batches of 7", "small chunks", "lags"])
def test_budgets_and_batches_change_nothing(change, device, monkeypatch):
    expected = walked(device)
    options = {}
    if change == "no cache":
        options = {"memory": 1}
    elif change == "little cache":
        monkeypatch.setattr(Walk, "_fits", lambda self, index: index >= 1)
    elif change == "lags":
        monkeypatch.setattr("retrofit_core.fusion.moments.lags.MIN_CHANNELS", 1)
    elif change == "batches of 7":
        monkeypatch.setattr(walks, "BATCH", 7)
    else:
        monkeypatch.setattr(layersums, "CHUNK_BYTES", 8 * 49 * 18 * 3)
    for (sums, boundary, targets), (old, old_boundary, old_targets) in zip(
        walked(device, **options), expected, strict=True
    ):
        assert_close(boundary, old_boundary, 1e-12)
        assert_close(targets, old_targets, 1e-12)
        left, right = (s.moments() if isinstance(s, Rows) else s for s in (sums, old))
        for name in ("zz", "sz", "xx", "xz"):
            assert_close(getattr(left, name), getattr(right, name), 1e-11)
        assert left.rows == right.rows


class Watching(nn.Module):
    """A level's module that notes how its inputs lie in memory, and rounds otherwise in every layout, as kernels do."""

    def __init__(self, module: nn.Module, name: str, seen: dict[str, set[Any]]) -> None:
        super().__init__()
        self.module, self.name, self.seen = module, name, seen

    def forward(self, boundary):
        tensors = (boundary,) if isinstance(boundary, torch.Tensor) else boundary
        layout = tuple(tensor.stride() for tensor in tensors)
        self.seen.setdefault(self.name, set()).add(layout)
        nudge = 1 + 1e-9 * (hash(layout) % 1000)
        return each(self.module(boundary), lambda tensor: tensor * nudge)


def thin(seed):
    """Maps of one channel and of one pixel, whose strides may be anything, and tokens made of maps."""
    parts = [
        nn.Conv2d(2, 1, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(1, 6, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(6, 5, 3),
        nn.ReLU(),
        nn.Conv2d(5, 4, 1),
        nn.Flatten(2),
        nn.Linear(1, 3),
    ]
    return initialised(nn.Sequential(*parts), seed)


@pytest.mark.slow
@each_case("make", [cnn, residual, thin])
@each_case("inputs", [torch.contiguous_format, torch.channels_last])
@each_case("change", ["kept", "not kept", "some kept", "looked ahead"])
def test_a_level_meets_one_layout_whatever_is_kept(make, inputs, change, device, monkeypatch):
    """On every processor: the same strides before each level, and so the same bits behind it."""
    x = normal(SAMPLES, *CNN_SHAPE).contiguous(memory_format=inputs)
    seen = {}

    def bits(ahead=False, **options):
        parents = [
            [
                replace(level, module=Watching(level.module, f"{k} {level.name}", seen))
                for level in partition(make(seed=k).to(device), x[:2].to(device))
            ]
            for k in range(3)
        ]
        walk = Walk(Levels(parents[:2], parents[2]), x, Runtime(device=device, **options))
        numbers = []
        for step in walk:
            later = [k for k in (step.index + 1,) if ahead and k < len(walk)]
            step.grams(later)
            sums = step.moments(inputs=step.level.affine is not None)
            sums = sums.moments() if isinstance(sums, Rows) else sums
            numbers.append([sums.zz, *([sums.xz, sums.xx] if step.level.affine is not None else [])])
        return numbers

    expected = bits()
    if change == "some kept":
        monkeypatch.setattr(Walk, "_fits", lambda self, index: index % 2 == 1)
    numbers = bits(change == "looked ahead", **({"memory": 1} if change == "not kept" else {}))
    for level, wanted in zip(numbers, expected, strict=True):
        for one, other in zip(level, wanted, strict=True):
            assert torch.equal(one, other)
    assert all(len(layouts) == 1 for layouts in seen.values()), seen


def test_walking_on_uses_the_weights_that_the_level_has_by_then(device):
    x, (first, second, fused) = networks(device)
    seen = []
    for step in Walk(Levels([first, second], fused), x, Runtime(device=device)):
        seen += [h.clone() for h, _ in step.walk.batches(step.index)]
        with torch.no_grad():
            for parameter in step.level.module.parameters():
                parameter.mul_(2)
    assert_close(seen[1], fused[0].module(x.to(device)), 1e-12)
    assert len(seen) == len(fused)


X, Y = normal(11, 3), labels(11, 4)


@each_case(
    "data, labelled",
    [
        (X, False),
        ((X, Y), True),
        ([X, Y], True),
        (TensorDataset(X), False),
        (TensorDataset(X, Y), True),
        (DataLoader(TensorDataset(X, Y), batch_size=4), True),
        ([(X[:5], Y[:5]), (X[5:], Y[5:])], True),
        ([X[:5], X[5:9], X[9:]], False),
        (((X[i : i + 1], Y[i : i + 1]) for i in range(11)), True),
        ([X[:6], X[6:]], False),
        ([X.numpy()[:5], X.numpy()[5:]], False),
    ],
)
def test_every_kind_of_fusion_data_gives_the_same_tensors(data, labelled):
    inputs, classes = as_inputs(data)
    assert torch.equal(inputs, X)
    if labelled:
        assert torch.equal(classes, Y)
    else:
        assert classes is None


class Largest(TorchDispatchMode):
    """Bytes of the largest tensor that an operation makes."""

    bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        sizes = [leaf.untyped_storage().nbytes() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        self.bytes = max([self.bytes, *sizes])
        return out


@pytest.mark.slow
def test_many_samples_in_half_precision_are_never_held_in_the_networks_own():
    """BatchNorm's statistics, which take a pass of their own, and the look for NaN included; results are those of float32."""
    models = [batchnorm_cnn(seed=seed).float() for seed in (0, 1)]
    x = normal(4000, *CNN_SHAPE).half()
    with Largest() as largest:
        result = METHODS["KF-Linear"](models, x, device="cpu", memory=10**6)
    assert largest.bytes < x.float().nbytes
    expected = METHODS["KF-Linear"](models, x.float(), device="cpu", memory=10**6)
    for name, tensor in expected.model.state_dict().items():
        assert torch.equal(result.model.state_dict()[name], tensor)
