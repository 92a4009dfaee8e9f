"""However a network writes its forward, methods fuse it; what cannot be fused is refused with the way out."""

import copy
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from retrofit_core import METHODS
from tests.marks import each_case
from tests.networks import (
    CNN_SHAPE,
    cnn,
    initialised,
    mlp,
    normal,
    shuffled,
)
from tests.properties import assert_same_function, assert_same_tensors


def behind(layer, seed):
    """A network of a layer, pooled, and another one."""
    pool = getattr(nn, f"AdaptiveAvgPool{layer.weight.ndim - 2}d")(1)
    model = nn.Sequential(layer, nn.ReLU(), pool, nn.Flatten(), nn.Linear(layer.out_channels, 2))
    return initialised(copy.deepcopy(model), seed)


CONVOLUTIONS = [
    (nn.Conv2d(2, 3, 3, padding=1), (7, 7)),
    (nn.Conv2d(2, 3, 3, stride=2), (7, 7)),
    (nn.Conv2d(2, 3, (2, 3), padding=(0, 2), stride=(1, 2)), (7, 7)),
    (nn.Conv2d(2, 3, 3, dilation=2), (7, 7)),
    (nn.Conv2d(2, 3, 4, padding="same"), (7, 7)),
    (nn.Conv2d(2, 3, 3, padding=2, padding_mode="reflect"), (7, 7)),
    (nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (7, 7)),
    (nn.Conv2d(2, 3, 1, bias=False), (7, 7)),
    (nn.Conv1d(2, 3, 4, stride=3, padding=2, dilation=2), (11,)),
    (nn.Conv1d(2, 3, 3, padding="same", padding_mode="reflect"), (6,)),
    (nn.Conv1d(3, 3, 3, groups=3), (6,)),
    (nn.Conv1d(4, 6, 3, groups=2), (6,)),
    (nn.Conv3d(2, 3, (1, 2, 3), stride=(1, 2, 1), padding=(0, 1, 1)), (3, 4, 5)),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@each_case(
    "make, shape",
    [
        *((partial(mlp, bias=bias), (6,)) for bias in (True, False)),
        *((partial(cnn, bias=bias), CNN_SHAPE) for bias in (True, False)),
        *((partial(behind, layer), (layer.in_channels, *size)) for layer, size in CONVOLUTIONS),
    ],
)
def test_layers_fitted_to_themselves_keep_their_weights(make, shape):
    """C22: own inputs, own outputs, full rank, lambda = 0; written into a network of other weights."""
    model = make(seed=0)
    fused = METHODS["HF-Linear"](
        [model, model], normal(120, *shape), target=make(seed=9), ridge=0.0, device="cpu"
    ).model
    assert_same_tensors(fused, model, 1e-7)


class Normalised(nn.Module):
    """BatchNorm1d behind a Linear that reads tokens: over the tokens themselves, or over the neurons turned forward."""

    def __init__(self, over: str, tokens: int = 5) -> None:
        super().__init__()
        self.first, self.last, self.over = nn.Linear(3, 5), nn.Linear(5 * tokens, 2), over
        self.norm = nn.BatchNorm1d(tokens if over == "tokens" else 5)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        h = self.norm(h) if self.over == "tokens" else self.norm(h.transpose(1, 2)).transpose(1, 2)
        return self.last(h.relu().flatten(1))


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [4, 5])
@pytest.mark.parametrize("over", ["tokens", "neurons"])
def test_batchnorm_over_tokens_is_not_folded(over, tokens):
    """With as many tokens as neurons the shapes alone would allow it."""
    model, x = initialised(Normalised(over, tokens), 0), normal(30, tokens, 3)
    fused = METHODS["HF-Linear"]([model, model], x, ridge=0)  # position by position, or neuron by neuron
    assert [level.kind for level in fused.levels] == ["Linear", "BatchNorm", "Linear"]
    assert_same_function(model, fused.model, x, 1e-9)
    for method, options in (("HF-Gradient", {"epochs": 1}), ("PLeaS", {"reset_norms": False})):
        fused = METHODS[method]([model, model], x, **options).model
        assert_same_function(model, fused, x, 1e-6)


class Folded(nn.Module):
    """Tokens, or frames of a film, in one axis with the samples for most of the network."""

    def __init__(self, frames: bool = False) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 5, 3, padding=1) if frames else nn.Linear(6, 5)
        self.second = nn.Conv2d(5, 4, 3, stride=2) if frames else nn.Linear(5, 4)
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.second(self.first(x.flatten(0, 1)).relu()).relu()
        h = h.mean((2, 3)) if h.ndim == 4 else h
        return self.last(h.unflatten(0, (x.shape[0], 3)).mean(1))


@pytest.mark.slow
@each_case("make, shape", [(Folded, (3, 6)), (partial(Folded, True), (3, 2, 5, 5))])
@each_case(
    "method, options",
    [
        ("HF-Linear", {"ridge": 0, "importance": "conductance", "importance_data": "fusion"}),
        ("HF-Linear", {"ridge": 1e8, "toward": "parents"}),
        ("KF-Linear", {"ridge": 0}),
        ("HF-Gradient", {"epochs": 1}),
    ],
)
def test_networks_whose_first_axis_is_not_the_samples_are_fused(method, options, make, shape):
    model, x = initialised(make(), 0), normal(60, *shape)
    fused = METHODS[method]([model, model], (x, torch.arange(60) % 2), **options).model
    assert_same_function(model, fused, x, 1e-6)


# --- control flow that looks at shapes -------------------------------------------------------------------------------


class LooksAtShapes(nn.Module):
    """Asks for sizes in many ways."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 5, 3), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[2] % 2:
            x = F.pad(x, (0, 1, 0, 1))
        x = self.first(x * 1.0).relu()
        for _ in range(x.size(2) // x.size(3)):
            x = x * 2
        B, C, H, W = x.shape
        x[:, 0, 1:, ...] = x[:, 1, :-1] * 2
        x = self.second(x + torch.linspace(0, 1, int(W)).to(x.dtype))
        x = x.reshape(B, -1, (H - 2) * (W - 2)).mean(-1)
        x = x + torch.zeros((B, x.shape[1]), dtype=x.dtype) + torch.arange(2 * B, device=x.device)[:B, None] * 0
        return self.last((x + torch.zeros(1, dtype=x.dtype).expand(B, 1)).relu())


@pytest.mark.slow
def test_control_flow_may_look_at_shapes():
    model = initialised(LooksAtShapes(), 0)
    x = normal(5, 3, 7, 7)
    twin = shuffled(model, x, 1)
    for method in ("Git-Re-Basin", "OTFusion", "ZipIt"):
        assert_same_function(METHODS[method]([model, twin], x, device="cpu").model, model, x, 1e-6)
