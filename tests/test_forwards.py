"""However a network writes its forward, methods fuse it; what cannot be fused is refused with the way out."""

import copy
import operator
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from retrofit_core import METHODS
from tests.flat import fuse
from tests.marks import each_case, spread
from tests.networks import (
    CNN_SHAPE,
    VGG_SHAPE,
    batchnorm_cnn,
    cnn,
    initialised,
    labels,
    mlp,
    normal,
    permuted,
    shuffled,
)
from tests.properties import assert_close, assert_same_function, assert_same_tensors
from tests.test_contract import options_for


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


class Outputs(nn.Module):
    """Returns something else than one tensor."""

    def __init__(self, wrap) -> None:
        super().__init__()
        self.fc, self.wrap = nn.Linear(4, 3), wrap

    def forward(self, x: Tensor):
        return self.wrap(self.fc(x))


@pytest.mark.slow
@each_case("method", ["KF-Linear", "Average", "Ensemble", "RegMean", "Git-Re-Basin", "KD", "LP"])
@each_case("kind, wrap", [("dict", lambda y: {"a": y, "b": y}), ("tuple", lambda y: (y, y))])
def test_networks_of_several_outputs_are_asked_which_is_meant(method, kind, wrap):
    models = [initialised(Outputs(wrap), seed) for seed in range(2)]
    data = normal(12, 4), torch.arange(12) % 3
    with pytest.raises(ValueError, match=rf"parent 0 returns {kind}, not one tensor, and which of its tensors"):
        METHODS[method](models, data)
    key = 1 if kind == "tuple" else "b"
    named = METHODS[method](models, data, logits=key).model(data[0])
    alone = METHODS[method]([initialised(Outputs(lambda y: {"logits": y}), seed) for seed in range(2)], data).model(
        data[0]
    )
    # A fused network is of parent 0's class and returns all of its outputs; an ensemble, which has no parent's class, one tensor.
    of = (lambda outputs, _: outputs) if method == "Ensemble" else operator.getitem
    assert of(named, key).shape == (12, 3)
    assert torch.equal(of(alone, "logits"), of(named, key))


class Named(nn.Module):
    """Every tensor is passed by name."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.inner, self.fc = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 1), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(input=self.conv(input=x))
        h = torch.add(input=self.inner(input=h), other=h)
        return self.fc(input=torch.permute(input=h, dims=(0, 2, 3, 1)).mean(dim=(1, 2)))


@pytest.mark.slow
@each_case(
    "method, options",
    [
        ("HF-Gradient", {"epochs": 1}),
        ("Git-Re-Basin", {}),
        ("OTFusion", {}),
        ("ZipIt", {}),
        ("PLeaS", {}),
        ("RegMean", {}),
    ],
)
def test_tensors_may_be_passed_by_name(method, options):
    model, x = initialised(Named(), 0), normal(30, *CNN_SHAPE)
    assert_same_function(model, METHODS[method]([model, model], x, **options).model, x, 1e-6)


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
    for method, options in (
        ("HF-Gradient", {"epochs": 1}),
        ("Git-Re-Basin", {}),
        ("PLeaS", {"reset_norms": False}),
        ("OTFusion", {}),
    ):
        fused = METHODS[method]([model, model], x, **options).model
        assert_same_function(model, fused, x, 1e-6)


class Folded(nn.Module):
    """Tokens, or frames of a film, in one axis with the samples for most of the network."""

    def __init__(self, frames: bool = False, order: str = "samples first") -> None:
        super().__init__()
        self.order, self.frames = order, frames
        self.first = nn.Conv2d(2, 5, 3, padding=1) if frames else nn.Linear(6, 5)
        self.second = nn.Conv2d(5, 4, 3, stride=2) if frames else nn.Linear(5, 4)
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        batch = x.shape[0]
        h = x.flatten(0, 1) if self.order == "samples first" else x.transpose(0, 1).flatten(0, 1)
        h = self.second(self.first(h).relu()).relu()
        h = h.mean((2, 3)) if self.frames else h
        h = h.unflatten(0, (batch, 3)) if self.order == "samples first" else h.unflatten(0, (3, batch)).transpose(0, 1)
        return self.last(h.mean(1))


class TokensFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x.transpose(0, 1)).relu().mean(0))


@pytest.mark.slow
@each_case("make, shape", [(Folded, (3, 6)), (partial(Folded, True), (3, 2, 5, 5)), (TokensFirst, (3, 6))])
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


class FunctionalNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(2, 4, 3), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.batch_norm(self.first(x), None, None, training=True).relu().mean((2, 3)))


def unfixed(kind: type, **options) -> nn.Module:
    norm = kind(4, track_running_stats=False, **options)
    return nn.Sequential(nn.Conv2d(2, 4, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(100, 3))


@each_case("fit", ["ridge", "gradient"])
@each_case(
    "make, name",
    [
        (lambda: unfixed(nn.BatchNorm2d, affine=False), "1"),
        (lambda: unfixed(nn.BatchNorm2d), "1"),
        (FunctionalNorm, "batch_norm"),
    ],
)
def test_batchnorm_without_running_statistics_is_refused(make, name, fit):
    """It would make the fused weights depend on how many samples pass at once."""
    model = make().double()
    for module in model.modules():
        assert not isinstance(module, nn.BatchNorm2d) or module.running_mean is None
    with pytest.raises(
        ValueError,
        match=rf"the BatchNorm '{name}' keeps no running statistics.*GroupNorm|a BatchNorm .*uses statistics of the batch",
    ):
        fuse([model, model], normal(20, *CNN_SHAPE), fit=fit)


# --- tracing: control flow looks at shapes, functions become layers, the neuron axis is read off the ------------------


class LooksAtShapes(nn.Module):
    """Asks for sizes in every way that there is."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 5, 3), nn.Linear(5, 3)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        B, C, H, W = x.shape
        if H % 2 or C != 3:
            x = F.pad(x, (0, 1, 0, 1))
        x = x * 1.0
        assert x.ndim == 4 and len(x.shape) == 4, f"{tuple(x.shape)}"
        x = self.first(x).relu()
        for _ in range(x.size(2) // H):
            x = x * 2
        B, C, H, W = x.shape
        x[:, 0, 1:, ...] = x[:, 1, :-1] * 2
        grid = torch.linspace(0, 1, int(W))
        x = x + grid.to(x.dtype)
        x = self.second(x) if mask is None else mask
        x = x.reshape(B, -1, (H - 2) * (W - 2)).mean(-1)
        x = x + torch.zeros((B, x.shape[1]), dtype=x.dtype) + torch.arange(2 * B, device=x.device)[:B, None] * 0
        x = x + torch.zeros(1, dtype=x.dtype).expand(B, 1)
        return self.last(x.view(B, x.shape[1]).relu())


@pytest.mark.slow
def test_control_flow_may_look_at_shapes():
    model = initialised(LooksAtShapes(), 0)
    for shape in (VGG_SHAPE, (3, 7, 7)):
        x = normal(5, *shape)
    twin = shuffled(model, x, 1)
    for method in ("Git-Re-Basin", "OTFusion", "ZipIt"):
        assert_same_function(METHODS[method]([model, twin], x, device="cpu").model, model, x, 1e-6)


class Norm(nn.BatchNorm2d):
    """A BatchNorm with its activation, as timm has it."""

    def forward(self, input: Tensor) -> Tensor:
        x = F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.1, self.eps)
        return x.relu()


class Padded(nn.Conv2d):
    """A convolution that pads by itself."""

    def forward(self, input: Tensor) -> Tensor:
        x = F.pad(input, (1, 1, 1, 1))
        return F.conv2d(x, self.weight, self.bias, self.stride, (0, 0), self.dilation, self.groups)


class Groups(nn.GroupNorm):
    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, None, self.eps).relu()  # without a shift


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.next = Padded(3, 4, 3, bias=False), Norm(4), nn.Conv2d(4, 6, 3)
        self.groups, self.last = Groups(2, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.normalize(self.groups(self.next(self.norm(self.conv(x)))).mean((2, 3)))
        return F.linear(x, self.last.weight, self.last.bias)


def test_functions_with_the_weights_of_a_layer_are_that_layer():
    model, x = initialised(Functional(), 0), normal(5, *VGG_SHAPE)
    model.norm.running_mean.normal_(generator=torch.Generator().manual_seed(1))
    twin = shuffled(model, x, 1)
    for method, options in (("Git-Re-Basin", {}), ("OTFusion", {}), ("KF-Linear", {"ridge": 0.0})):
        assert_same_function(METHODS[method]([model, twin], x, device="cpu", **options).model, model, x, 1e-6)


# --- relatives of known layers: what torch computes alike is treated alike, by every method ---------------------------


class OwnNorm(nn.BatchNorm2d):
    pass


def lazy(width):
    norm = nn.LazyBatchNorm2d(dtype=torch.float64)
    norm(normal(2, width, 3, 3))
    return norm


NORMS = {"SyncBatchNorm": nn.SyncBatchNorm, "a subclass": OwnNorm, "LazyBatchNorm2d": lazy}


def with_norms(model, make):
    """A copy whose BatchNorms are of another class, with the same state."""
    twin = permuted(model, seed=1)
    twin.load_state_dict(model.state_dict())
    for name, module in list(twin.named_modules()):
        if isinstance(module, nn.BatchNorm2d):
            norm = make(module.num_features).double()
            norm.load_state_dict(module.state_dict())
            twin.set_submodule(name, norm)
    return twin.eval()


def pair():
    model = batchnorm_cnn()
    return [model, permuted(batchnorm_cnn(seed=4))]


@pytest.mark.long
@each_case("method, name", spread([name for name in METHODS if name != "Auto"], NORMS, 1))
def test_every_batchnorm_is_fused_as_batchnorm2d(name, method):
    x, y = normal(60, *CNN_SHAPE), labels(60, 3)
    options, forms = options_for(method, pair(), 3), [{}]
    if method in ("OTFusion", "Git-Re-Basin"):
        forms.append({"repair": True})
    for form in forms:
        results = []
        for make in (nn.BatchNorm2d, NORMS[name]):
            parents = [with_norms(model, make) for model in pair()]
            if "base" in options:
                options["base"] = with_norms(batchnorm_cnn(seed=5), make)
            results.append(METHODS[method](parents, (x, y), **options, **form).model.eval())
        with torch.no_grad():
            assert_close(results[1](x), results[0](x), 1e-10)
