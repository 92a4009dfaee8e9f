"""Equal shapes, other code: methods that average weights refuse before any work, and say which setting differs."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from retrofit_core import METHODS
from tests.marks import each_case, spread
from tests.networks import labels, normal

AVERAGING = (
    "Average",
    "FedAvg",
    "Greedy-Soup",
    "Fisher",
    "SLERP",
    "Task-Arithmetic",
    "TIES",
    "DARE",
    "RegMean",
    "ZipIt",
    "PLeaS",
)
AVERAGING += ("RegMean", "OTFusion", "OTFusion-Weights", "Transformer-OTFusion", "Git-Re-Basin", "Git-Re-Basin-Weights")
TASK_VECTORS = ("Task-Arithmetic", "TIES", "DARE")


class Heads(nn.Module):
    """A network whose code reads attributes that no module of torch's knows."""

    def __init__(self, heads=2, activation="relu", name="", steps=0):
        super().__init__()
        self.heads, self.activation, self.name, self.steps = heads, activation, name, steps
        self.a, self.out = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        h = getattr(F, self.activation)(self.a(x))
        h = h.view(len(h), self.heads, -1).softmax(-1)
        return self.out(h.flatten(1))


def convolutions(**changes):
    given = {"stride": 1, "mode": "zeros", "eps": 1e-5, "activation": nn.ReLU, **changes}
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1, stride=given["stride"], padding_mode=given["mode"]),
        nn.BatchNorm2d(6, eps=given["eps"]),
        given["activation"](),
        nn.Dropout(given.get("p", 0.1)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 3),
    )


def attention(heads):
    layer = nn.TransformerEncoderLayer(8, heads, 12, 0.0, batch_first=True)
    return nn.Sequential(layer, nn.Flatten(), nn.Linear(24, 3))


OTHERS = {
    "eps": (convolutions, {}, {"eps": 1e-3}, "eps=0.001"),
    "padding mode": (convolutions, {}, {"mode": "circular"}, "padding_mode='circular'"),
    "stride": (convolutions, {}, {"stride": 2}, r"stride=\(2, 2\)"),
    "activation": (convolutions, {}, {"activation": nn.GELU}, "GELU"),
    "slope": (convolutions, {"activation": nn.LeakyReLU}, {"activation": lambda: nn.LeakyReLU(0.2)}, "negative_slope=0.2"),
    "heads": (attention, {"heads": 2}, {"heads": 4}, "num_heads=4"),
    "own heads": (Heads, {}, {"heads": 4}, "heads is 4, and 2"),
    "own activation": (Heads, {}, {"activation": "silu"}, "activation is 'silu'"),
}  # fmt: skip


def made(make, seed, **keywords):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make(**keywords).double().eval()


def fused(method, parents, shape=(1, 6, 6)):
    data = normal(30, *shape), labels(30, 3)
    given = {"base": copy.deepcopy(parents[0])} if method in TASK_VECTORS else {}
    given |= {"sample_counts": [1, 1]} if method == "FedAvg" else {}
    return METHODS[method](parents, data, device="cpu", **given).model


def shape_of(make):
    return {convolutions: (1, 6, 6), attention: (3, 8), Heads: (4,)}[make]


@each_case("method, case", spread(AVERAGING, OTHERS, 2))
def test_other_code_is_refused_with_the_setting(method, case):
    make, here, there, words = OTHERS[case]
    parents = [made(make, 0, **here), made(make, 1, **there)]
    with pytest.raises(ValueError, match=words) as caught:
        fused(method, parents, shape_of(make))
    assert "parent 1" in str(caught.value) and "KF-Gradient" in str(caught.value)


@pytest.mark.parametrize("method", TASK_VECTORS)
def test_an_ancestor_with_other_code_is_refused(method):
    parents, base = [made(convolutions, seed) for seed in range(2)], made(convolutions, 2, eps=1e-2)
    with pytest.raises(ValueError, match="eps=0.01 in the common ancestor"):
        METHODS[method](parents, normal(4, 1, 6, 6), base=base)


def depthwise(width, eps=1e-5):
    """A group per channel: their number follows the width."""
    layers = [nn.Conv2d(1, width, 3), nn.Conv2d(width, width, 3, groups=width), nn.BatchNorm2d(width, eps)]
    return nn.Sequential(*layers, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 3))


@pytest.mark.parametrize("method", ["OTFusion", "ZipIt"])
def test_other_widths_are_no_other_code(method):
    data = normal(30, 1, 6, 6)
    METHODS[method]([made(depthwise, 0, width=6), made(depthwise, 1, width=8)], data, device="cpu")
    with pytest.raises(ValueError, match="eps=0.01"):
        METHODS[method]([made(depthwise, 0, width=6), made(depthwise, 1, width=8, eps=1e-2)], data, device="cpu")


@pytest.mark.parametrize("method", AVERAGING)
def test_settings_of_training_and_names_are_no_other_code(method):
    parents = [made(convolutions, 0), made(convolutions, 1, p=0.5)]
    (norm,) = (module for module in parents[1] if isinstance(module, nn.BatchNorm2d))
    norm.momentum = 0.3
    fused(method, parents)
    if "Transformer" not in method:
        named = [made(Heads, 0, name="first", steps=1), made(Heads, 1, name="second", steps=2)]
        fused("Average", named, (4,))
