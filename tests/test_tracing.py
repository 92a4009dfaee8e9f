"""Tracing: control flow looks at shapes, functions become layers, the neuron axis is read off the computation."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from retrofit_core.methods import METHODS
from retrofit_core.networks.levels import partition
from retrofit_core.networks.symmetry import neuron_groups, shuffled
from tests.networks import VGG_SHAPE, initialised, normal
from tests.properties import assert_reproduces, assert_same_function


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


def test_control_flow_may_look_at_shapes():
    model = initialised(LooksAtShapes(), 0)
    for shape in (VGG_SHAPE, (3, 7, 7)):
        x = normal(5, *shape)
        levels = partition(model, x[:2])
        assert [level.name for level in levels] == ["first", "second", "last"]
        assert_reproduces(model, levels, x)  # five samples, traced with two
    twin = shuffled(model, x, torch.Generator().manual_seed(1))
    for method in ("Git-Re-Basin", "OTFusion", "ZipIt"):
        assert_same_function(METHODS[method]([model, twin], x, device="cpu").model, model, x, 1e-6)


class LooksAtContents(nn.Module):
    def __init__(self, what) -> None:
        super().__init__()
        self.fc, self.last, self.what = nn.Linear(4, 4), nn.Linear(4, 3), what

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc(x)
        return self.last(x.relu() if self.what(x) else x)


@pytest.mark.parametrize(
    "what",
    [
        lambda x: x.mean() > 0,
        lambda x: x.sum().item() > 0,
        lambda x: int(x[0, 0]) == 3,
        lambda x: x.argmax(1).tolist()[0] + x.shape[1] > 4,
        lambda x: float(x.max()) > 0,
    ],
)
def test_control_flow_must_not_look_at_contents(what):
    with pytest.raises(ValueError, match="LooksAtContents cannot be traced .*contents of tensors"):
        partition(initialised(LooksAtContents(what), 0), normal(3, 4))


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
    groups = neuron_groups(model, x)
    assert [(group.name, group.width) for group in groups] == [("conv", 4), ("next[0]", 3), ("next[1]", 3), ("last", 3)]
    twin = shuffled(model, x, torch.Generator().manual_seed(1))
    for method in ("Git-Re-Basin", "OTFusion"):
        assert_same_function(METHODS[method]([model, twin], x, device="cpu").model, model, x, 1e-6)


class Mixed(nn.Module):
    """Tokens in windows, mixed by a layer of their own, and added to a stream of channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.mix, self.inner, self.last = (
            nn.Conv2d(3, 6, 1),
            nn.Linear(16, 16),
            nn.Linear(6, 5),
            nn.Linear(5, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).flatten(2).swapdims(1, 2)  # (B, 64, 6)
        h = torch.einsum("btc->bct", x.view(-1, 4, 16, 6).flatten(0, 1))
        h = self.mix(h).movedim(1, 2).reshape(-1, 64, 6)
        return self.last(self.inner((x + h).tanh()).tanh().mean(1))


def test_the_neuron_axis_is_read_off_the_computation():
    """At the sum the stream's channels count, which come first, not the tokens that the mixing layer makes."""
    model, x = initialised(Mixed(), 0), normal(3, *VGG_SHAPE)
    for boundaries in ("preactivations", "activations"):
        levels = partition(model, x[:2], boundaries)
        assert_reproduces(model, levels, x)
        axes = [(level.axis, level.width) for level in levels]
        assert axes == [(1, 6), (-1, 6), (-1, 5), (1, 3)][-len(axes) :]
