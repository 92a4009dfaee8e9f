"""Partition: levels compose to the model, share its parameters, and what cannot be cut is refused with the way out."""

import operator
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from retrofit_core import METHODS
from retrofit_core.networks.levels import Affine, partition, rows
from tests.families import Code
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
    residual,
    shuffled,
)
from tests.properties import assert_close, assert_parameters_shared, assert_reproduces, assert_same_function
from tests.test_contract import options_for

MODELS = {
    "mlp": (mlp, (6,), 3),
    "mlp without bias": (lambda: mlp(bias=False), (6,), 3),
    "cnn": (cnn, CNN_SHAPE, 3),
    "residual": (residual, CNN_SHAPE, 4),
}


@pytest.mark.slow
@each_case("boundaries", ["preactivations", "activations", 2])
@each_case("name", MODELS)
def test_levels_compose_to_the_model_bit_for_bit(name, boundaries):
    make, shape, count = MODELS[name]
    model, x = make(), normal(5, *shape)
    levels = partition(model, x[:2], boundaries)
    assert_reproduces(model, levels, x)
    assert_parameters_shared(model, levels)
    assert [level.head for level in levels] == [False] * (len(levels) - 1) + [True]
    if boundaries == "preactivations":
        assert len(levels) == count
        assert name == "residual" or all(level.affine is not None for level in levels)
    if boundaries == 2:
        assert len(levels) == 2


def test_folded_batchnorms_compose_to_rounding_and_go_back():
    for bias in (True, False):
        model, x = batchnorm_cnn(bias=bias), normal(5, *CNN_SHAPE)
        expected = model(x)
        levels = partition(model, x[:2])
        assert_reproduces(model, levels, x, exact=False)
        assert [len(level.folds) for level in levels] == [1, 1, 1, 0]
        assert all(level.affine is not None for level in levels)
        with torch.no_grad():
            for level in levels[:-1]:
                level.affine.weight.mul_(2)
                level.affine.bias.add_(0.1)
        assert_close(model(x), expected, 0)  # the model itself changes only when the levels are put back
        for level in levels:
            level.put_back()
        assert_reproduces(model, levels, x, exact=False)
        assert (model(x) - expected).abs().max() > 0.1


def test_wanted_number_of_levels_balances_the_parameters():
    model = mlp((4, 30, 30, 2, 2, 3))
    levels = partition(model, normal(2, 4), 2)
    assert [level.parameters for level in levels] == [150, 930 + 62 + 6 + 9]
    assert [level.name for level in partition(model, normal(2, 4), 3)][:2] == ["0", "2"]
    with pytest.raises(ValueError, match="boundaries=9: this model can be cut into 1 to 5 levels"):
        partition(model, normal(2, 4), 9)


def test_boundaries_at_named_modules():
    model, x = residual(), normal(3, *CNN_SHAPE)
    levels = partition(model, x, ["relu", "blocks.0", "blocks.1"])
    assert [level.name for level in levels] == ["stem", "blocks.0", "blocks.1", "fc"]
    assert_reproduces(model, levels, x)
    with pytest.raises(ValueError, match="after 'blocks.0.conv1' more than one tensor is alive"):
        partition(model, x, ["blocks.0.conv1"])
    with pytest.raises(ValueError, match="'nowhere' is not a module that runs in the model. Its children are"):
        partition(model, x, ["nowhere"])
    with pytest.raises(ValueError, match="leaves a level without parameters"):
        partition(cnn(), x, ["0", "1"])
    with pytest.raises(ValueError, match="unknown boundaries 'everywhere'"):
        partition(model, x, "everywhere")


class ByBatchSize(nn.Module):
    """Reads the batch size at the start and uses it, and a number computed from it, levels later."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.conv, self.fc1, self.fc2 = nn.Conv2d(2, 3, 3, padding=1), nn.Linear(147, 8), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        batch = {"size": lambda: x.size(0), "shape": lambda: x.shape[0], "both": lambda: x.size()[0]}[self.how]()
        twice = batch * 2
        h = F.relu(self.conv(x))
        h = F.relu(self.fc1(h.view(batch, -1)))
        return self.fc2(h.view(twice, -1)).view(batch, -1)


@pytest.mark.parametrize("how", ["size", "shape", "both"])
def test_a_batch_size_may_cross_boundaries(how):
    model = initialised(ByBatchSize(how), 0)
    levels = partition(model, normal(2, *CNN_SHAPE))
    assert len(levels) == 3
    assert_reproduces(model, levels, normal(5, *CNN_SHAPE))
    assert_reproduces(model, levels, normal(1, *CNN_SHAPE))


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.fc = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.gate(x) if x.sum() > 0 else x)


class Around(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = Branches(), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.inner(x).relu())


def test_what_cannot_be_traced_is_taken_whole_and_a_model_that_branches_itself_is_refused():
    model, x = initialised(Around(), 0), normal(3, 4)
    with pytest.raises(ValueError, match=r"Branches cannot be traced by torch.fx .*leaves=\[...\]"):
        partition(initialised(Branches(), 0), x)
    assert_reproduces(model, partition(model, x), x)  # the part that branches is found
    levels = partition(model, x, ["inner"], leaves=["inner"])
    assert [level.name for level in levels] == ["inner", "out"]
    assert "belong to a Branches" in levels[0].why_not_affine
    assert_reproduces(model, levels, x)
    assert_parameters_shared(model, levels)
    with pytest.raises(ValueError, match=r"leaves=\['outer'\] are not submodules of Around"):
        partition(model, x, leaves=["outer"])


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.fc(x + y)


class Pair(TwoInputs):
    def forward(self, x: Tensor):  # type: ignore[override]
        return self.fc(x), x


class Optional(TwoInputs):
    def forward(self, x: Tensor, scale: float = 2.0):  # type: ignore[override]
        return self.fc(x) * scale


def test_inputs_and_outputs():
    x = normal(3, 4)
    with pytest.raises(ValueError, match="TwoInputs takes 2 inputs; levels need exactly one"):
        partition(TwoInputs().double(), x)
    with pytest.raises(ValueError, match=r"Pair returns tuple, not one tensor, and which of its tensors \(0, 1\)"):
        partition(Pair().double(), x)
    with pytest.raises(ValueError, match=r"Sequential does not run on an input of shape \(3, 4\)"):
        partition(mlp(), x)
    assert_reproduces(model := Optional().double(), partition(model, x), x)


class Turned(nn.Module):
    """Channels and positions change places before an activation, at which a level may end."""

    def __init__(self, turn: Callable[[Tensor], Tensor] = lambda x: x.movedim(1, -1)) -> None:
        super().__init__()
        self.conv, self.fc, self.turn = nn.Conv2d(2, 3, 3), nn.Linear(3, 2), turn

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.turn(self.conv(x)).relu()).mean((1, 2))


TURNS = {
    "permute": lambda x: x.permute(0, 2, 3, 1),
    "permute, one argument": lambda x: torch.permute(x, (0, -2, -1, 1)),
    "permute, by name": lambda x: torch.permute(x, dims=(0, 2, 3, 1)),
    "transposed twice": lambda x: x.transpose(1, 2).transpose(-1, 2),
    "moved": lambda x: x.movedim(1, -1),
    "by einsum": lambda x: torch.einsum("bcij->bijc", x),
    "cut into windows and back": lambda x: x.flatten(2).mT.unflatten(1, (5, 5)),
    "scaled and added": lambda x: 2 * x.permute(0, 2, 3, 1) + x.permute(0, 3, 2, 1).tanh(),
}


@pytest.mark.slow
@each_case("turn", TURNS)
def test_the_neuron_axis_is_followed_through_permutations(turn):
    model, x = initialised(Turned(TURNS[turn]), 0), normal(3, *CNN_SHAPE)
    levels = partition(model, x, "activations")
    assert [(level.axis, level.width) for level in levels] == [(-1, 3), (1, 2)]
    assert_reproduces(model, levels, x)


def test_tokens_have_their_neurons_last():
    model = initialised(nn.Sequential(nn.Linear(5, 6), nn.GELU(), nn.Linear(6, 4), nn.Flatten(), nn.Linear(12, 2)), 0)
    levels = partition(model, normal(2, 3, 5))
    assert [(level.axis, level.positions, level.width) for level in levels] == [(-1, 3, 6), (-1, 3, 4), (1, 1, 2)]
    assert_reproduces(model, levels, normal(4, 3, 5))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@each_case(
    "conv",
    [
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": 3, "stride": 2},
        {"kernel_size": (2, 3), "padding": (0, 2), "stride": (1, 2)},
        {"kernel_size": 3, "dilation": 2},
        {"kernel_size": 4, "padding": "same"},
        {"kernel_size": 3, "padding": 2, "padding_mode": "reflect"},
        {"kernel_size": 3, "padding": 1, "padding_mode": "circular"},
        {"kernel_size": 1, "bias": False},
    ],
)
def test_unfolded_rows_times_weights_are_the_convolution(conv):
    layer = initialised(nn.Conv2d(2, 3, **conv), 0)
    x = normal(2, *CNN_SHAPE)
    bias = 0 if layer.bias is None else layer.bias
    assert_close(
        Affine((layer,), (), nn.Identity()).rows([x]) @ layer.weight.flatten(1).T + bias, rows(layer(x), 1), 1e-12
    )


# --- what ended in raw errors or in other numbers ---------------------------------------------------------------------


class Outputs(TwoInputs):
    """Returns something else than one tensor."""

    def __init__(self, wrap) -> None:
        super().__init__()
        self.wrap = wrap

    def forward(self, x: Tensor):  # type: ignore[override]
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
    levels = partition(model, x[:2])
    assert [level.name for level in levels] == ["conv", "inner", "fc"]
    assert [level.kind for level in levels] == ["Conv2d", "not affine", "Linear"]
    assert_reproduces(model, levels, x)
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
    levels = partition(model, x[:2])
    assert [level.name for level in levels] == ["first", "last"]
    assert [level.axis for level in partition(model, x[:2], "activations")] == [-1, 1]
    assert [level.folds for level in levels] == [(), ()]
    assert_reproduces(model, levels, x)
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


@each_case("examples", [1, 2, 3])
@each_case("frames", [False, True])
def test_samples_and_tokens_in_one_axis_stay_apart_at_boundaries(frames, examples):
    model, x = initialised(Folded(frames), 0), normal(40, 3, *((2, 5, 5) if frames else (6,)))
    levels = partition(model, x[:examples])
    assert [level.kind for level in levels] == (["Conv2d", "Conv2d", "Linear"] if frames else ["Linear"] * 3)
    assert [(level.axis, level.positions) for level in levels] == (
        [(2, 75), (2, 12), (1, 1)] if frames else [(-1, 3), (-1, 3), (1, 1)]
    )
    assert_parameters_shared(model, levels)
    assert_reproduces(model, levels, x)
    h = levels[0].module(x)
    assert h.shape[:2] == (40, 3)
    rows_of_second = rows(levels[1].module(h), levels[1].axis)
    layer = model.second
    bias = layer.bias
    assert_close(levels[1].inputs(h) @ layer.weight.flatten(1).T + bias, rows_of_second, 1e-12)


@pytest.mark.slow
@each_case("frames", [False, True])
@each_case(
    "method, options",
    [
        ("HF-Linear", {"ridge": 0, "importance": "conductance", "importance_data": "fusion"}),
        ("HF-Linear", {"ridge": 1e8, "toward": "parents"}),
        ("KF-Linear", {"ridge": 0}),
        ("HF-Gradient", {"epochs": 1}),
    ],
)
def test_networks_that_fold_tokens_into_the_samples_are_fused(method, options, frames):
    model, x = initialised(Folded(frames), 0), normal(60, 3, *((2, 5, 5) if frames else (6,)))
    fused = METHODS[method]([model, model], (x, torch.arange(60) % 2), **options).model
    assert_same_function(model, fused, x, 1e-6)


class TokensFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x.transpose(0, 1)).relu().mean(0))


@pytest.mark.slow
@each_case("examples", [1, 2, 3])
def test_levels_hand_on_samples_first_where_the_network_has_tokens_first(examples):
    model, x = initialised(TokensFirst(), 0), normal(40, 3, 6)
    levels = partition(model, x[:examples])
    assert_reproduces(model, levels, x)
    assert_close(levels[0].module(x), model.first(x), 1e-12)
    assert [(level.axis, level.positions) for level in levels] == [(-1, 3), (1, 1)]
    assert_close(levels[0].inputs(x), x.flatten(0, 1), 0)
    assert_same_function(model, fuse([model, model], x, ridge=0.0).model, x, 1e-6)


class TokenOutputs(Folded):
    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x.flatten(0, 1)).relu())


@each_case("examples", [1, 2])
@each_case("make, name", [(lambda: Folded(order="tokens first"), "first"), (TokenOutputs, "second")])
def test_boundaries_whose_first_axis_is_not_the_samples_are_refused(make, name, examples):
    model, x = initialised(make(), 0), normal(40, 3, 6)
    with pytest.raises(ValueError, match=rf"level '{name}' ends with a tensor .* does not count samples"):
        partition(model, x[:examples])
    with pytest.raises(ValueError, match=rf"parent 0: level '{name}' ends with a tensor"):
        fuse([model, model], x, fit="gradient")


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


class Masking(nn.Module):
    """A mask that is made for the size of what a layer gives, and read by the layers behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third, self.head = (nn.Linear(4, 4) for _ in range(4))

    def forward(self, x):
        h = self.first(x)
        mask = (x[:, :1] > 0).to(x.dtype).expand(h.shape[0], h.shape[1], 4)
        for layer in (self.second, self.third):
            h = layer(h).relu() * mask
        return self.head(h.mean(1))


def test_a_tensor_holds_neurons_of_no_level_whose_output_only_gives_it_its_size():
    levels = partition(Masking().eval(), normal(2, 3, 4).float(), "layers")
    assert [[tensor.maker for tensor in level.alive] for level in levels] == [[-1, 0], [-1, 1], [-1, 2], [3]]


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
        levels = partition(model, x[:2])
        assert [level.name for level in levels] == ["first", "second", "last"]
        assert_reproduces(model, levels, x)  # five samples, traced with two
    twin = shuffled(model, x, 1)
    for method in ("Git-Re-Basin", "OTFusion", "ZipIt"):
        assert_same_function(METHODS[method]([model, twin], x, device="cpu").model, model, x, 1e-6)


@pytest.mark.parametrize(
    "what", [lambda h: h.mean() > 0, lambda h: int(h[0, 0]) == 3, lambda h: h.argmax(1).tolist()[0] + h.shape[1] > 4]
)
def test_control_flow_must_not_look_at_contents(what):
    code = lambda net, x: net.last(h.relu() if what(h := net.fc(x)) else h)  # noqa: E731
    model = initialised(Code(code, fc=nn.Linear(4, 4), last=nn.Linear(4, 3)), 0)
    with pytest.raises(ValueError, match="Code cannot be traced .*contents of tensors"):
        partition(model, normal(3, 4))


def test_batches_that_are_fixed_are_found_out():
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([self.last(self.fc(row).relu()) for row in x])

    with pytest.raises(ValueError, match="level .* does not run on a batch of another size"):
        partition(initialised(Fixed(), 0), normal(2, 4))


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
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    levels = partition(model, x[:2], "layers")
    assert [level.name for level in levels] == ["conv", "next", "last"]
    assert [len(level.folds) for level in levels] == [1, 0, 0]
    assert_reproduces(model, levels, x, exact=False)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    with torch.no_grad():
        levels[0].affine.weight.mul_(2)
    expected = model(x)
    for level in levels:
        level.put_back()
    assert not torch.allclose(model(x), expected)  # it is the model's own layer that is written
    model.load_state_dict(before)
    twin = shuffled(model, x, 1)
    for method in ("Git-Re-Basin", "OTFusion"):
        assert_same_function(METHODS[method]([model, twin], x, device="cpu").model, model, x, 1e-6)


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
