"""Networks drawn at random whose neurons are known by construction, so that a copy in another order needs none of our code."""

import copy
import random
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.networks import normal

CLASSES = 3
ACTIVATIONS = ("F.gelu({})", "F.silu({})", "torch.tanh({})", "F.elu({})", "F.leaky_relu({}, 0.1)", "{}.sigmoid()")
#: Kind of data -> shape of a sample, and the axis of the neurons in a batch.
KINDS = {"vectors": ((5,), -1), "tokens": ((4, 5), -1), "images": ((3, 6, 6), 1), "signals": ((3, 8), 1)}


class Neurons:
    """A set of neurons that may change places."""

    def __init__(self, width: int, fixed: bool = False) -> None:
        self.width, self.fixed = width, fixed


class Drawn(nn.Module):
    """A network of drawn lines of code. `along` says which neurons lie along the axes of its tensors."""

    def __init__(self, kind: str, seed: int) -> None:
        super().__init__()
        self.kind, self.draw, self.numbers = kind, random.Random(seed), torch.Generator().manual_seed(seed)
        self.shape, self.axis = KINDS[kind]
        self.along: dict[str, list[tuple[int, list[Neurons]]]] = {}
        self.lines: list[str] = []
        value, neurons = "x", [Neurons(self.shape[self.axis if self.axis < 0 else 0], fixed=True)]
        value, neurons = self.activated(*self.layer(value, neurons))
        for _ in range(self.draw.randint(1, 4)):
            value, neurons = self.draw.choice(STEPS)(self, value, neurons)
        pooled = {"vectors": "{}", "tokens": "{}.mean(1)", "images": "{}.amax((2, 3))", "signals": "{}.mean(-1)"}[kind]
        self.kind = "vectors"
        value, _ = self.layer(self.line(pooled, value), neurons, [Neurons(CLASSES, fixed=True)])
        self.code = compile("\n".join([*self.lines, f"result = {value}"]), "drawn", "exec")
        self.double().eval()

    def forward(self, x: Tensor) -> Tensor:
        names = {"x": x, "self": self, "torch": torch, "F": F}
        exec(self.code, names)
        return names["result"]

    # --- what steps are made of

    def line(self, code: str, *values: str) -> str:
        self.lines.append(f"v{len(self.lines)} = {code.format(*values)}")
        return f"v{len(self.lines) - 1}"

    def module(self, module: nn.Module, **along: list[tuple[int, list[Neurons]]]) -> str:
        name = f"m{len(self.lines)}_{len(self._modules)}"
        for key, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if tensor.is_floating_point():
                wide = tensor[0].numel() ** -0.5 if tensor.ndim > 1 else 0.3
                drawn = torch.randn(tensor.shape, generator=self.numbers) * wide
                tensor.data = drawn.abs() + 0.5 if "var" in key or (tensor.ndim == 1 and "weight" in key) else drawn
        self.add_module(name, module)
        self.along |= {f"{name}.{key.replace('__', '.')}": axes for key, axes in along.items()}
        return f"self.{name}"

    def vector(self, neurons: list[Neurons], *shape: int, axis: int = 0) -> str:
        """A parameter or buffer with a number per neuron."""
        name = f"p{len(self.along)}"
        drawn = torch.rand(shape or (width(neurons),), generator=self.numbers) + 0.5
        self.register_buffer(name, drawn) if self.draw.random() < 0.3 else setattr(self, name, nn.Parameter(drawn))
        self.along[name] = [(axis, neurons)]
        return f"self.{name}"

    def layer(self, value: str, neurons: list[Neurons], made: list[Neurons] | None = None) -> tuple[str, list[Neurons]]:
        """An affine layer: a module, a function of parameters, or a product."""
        made = made or [Neurons(self.draw.randint(4, 7))]
        way, bias = self.draw.choice(("module", "module", "function", "product")), self.draw.random() < 0.8
        if self.kind in ("images", "signals"):
            kernel = self.draw.choice((1, 3))
            kind = nn.Conv2d if self.kind == "images" else nn.Conv1d
            layer = kind(width(neurons), width(made), kernel, padding=kernel // 2, bias=bias)
        else:
            layer = nn.Linear(width(neurons), width(made), bias=bias)
        along = {"weight": [(0, made), (1, neurons)], **({"bias": [(0, made)]} if bias else {})}
        name = self.module(layer, **along)
        if way == "module" or not isinstance(layer, nn.Linear):
            return self.line(f"{name}({{}})", value), made
        path = name.removeprefix("self.")
        del self._modules[path]
        for key in along:  # the same numbers as the network's own parameters
            self.register_parameter(f"{path}_{key}", getattr(layer, key))
            self.along[f"{path}_{key}"] = self.along.pop(f"{path}.{key}")
        shift = f"{name}_bias" if bias else None
        if way == "function":
            return self.line(f"F.linear({{}}, {name}_weight, {shift})", value), made
        return self.line(f"{{}} @ {name}_weight.T" + (f" + {shift}" if bias else ""), value), made

    def activated(self, value: str, neurons: list[Neurons]) -> tuple[str, list[Neurons]]:
        return self.line(self.draw.choice(ACTIVATIONS), value), neurons


def width(neurons: list[Neurons]) -> int:
    return sum(each.width for each in neurons)


# --- steps: a network, the name of a value, and its neurons -> those of the next value -----------------------------------------


def chained(net: Drawn, value, neurons):
    return net.activated(*net.layer(value, neurons))


def normed(net: Drawn, value, neurons):
    """By all kinds of norms: modules, a function of the network's own vectors, and in plain words."""
    count, vectors = width(neurons), {"weight": [(0, neurons)], "bias": [(0, neurons)]}
    moving = {"running_mean": [(0, neurons)], "running_var": [(0, neurons)]}
    if net.axis < 0:
        root = "{0} * torch.rsqrt({0}.square().mean(-1, keepdim=True) + 1e-6) * " + net.vector(neurons)
        own = f"F.layer_norm({{}}, ({count},), {net.vector(neurons)}, {net.vector(neurons)})"
        way = net.draw.choice((root, own, f"{net.module(nn.LayerNorm(count), **vectors)}({{}})"))
        return net.line(f"({way}).softmax(-1) * 3", value), neurons
    kinds = (nn.BatchNorm2d, nn.InstanceNorm2d) if net.kind == "images" else (nn.BatchNorm1d, nn.InstanceNorm1d)
    norm = net.draw.choice((kinds[0](count), kinds[1](count, affine=True), nn.GroupNorm(1, count)))
    more = moving if isinstance(norm, kinds[0]) else {}
    return net.activated(net.line(f"{net.module(norm, **vectors, **more)}({{}})", value), neurons)


def skipped(net: Drawn, value, neurons):
    """A residual block, possibly weighed by a parameter."""
    stream, neurons = net.layer(value, neurons)
    inner, made = normed(net, stream, neurons) if net.draw.random() < 0.5 else chained(net, stream, neurons)
    outer, _ = net.layer(inner, made, neurons)
    factor = net.draw.choice(("", "0.7 * ", net.vector([], 1) + " * "))
    return net.line(f"{{}} + {factor}{{}}", stream, outer), neurons


def side_by_side(net: Drawn, value, neurons):
    left, right = chained(net, value, neurons), chained(net, value, neurons)
    return net.line(f"torch.cat([{{}}, {{}}], {net.axis})", left[0], right[0]), left[1] + right[1]


def joined(net: Drawn, value, neurons):
    """Two layers whose outputs meet entry by entry."""
    left, made = net.layer(value, neurons)
    right, _ = net.layer(value, neurons, made)
    ways = (
        "{} * torch.tanh({})",
        "torch.stack([{}, {}]).amax(0)",
        "torch.stack([{}, {}]).mean(0)",
        "torch.maximum({}, {})",
        "torch.lerp({}, {}, 0.3)",
        "torch.where({0} > {1}, {0}, 0.5 * {1})",
    )
    return net.line(net.draw.choice(ways), left, right), made


def halved(net: Drawn, value, neurons):
    """A layer in two parts: a gate, or two parts that change places."""
    half = Neurons(4)
    if net.draw.random() < 0.5:
        made, _ = net.layer(value, neurons, [half, half])
        return net.line(f"F.glu({{}}, {net.axis})", made), [half]
    other = Neurons(3)
    made, _ = net.layer(value, neurons, [half, other])
    parts = net.line(f"{{}}.split([4, 3], {net.axis})", made)
    return net.line(f"torch.cat([{{0}}[1].sin(), F.gelu({{0}}[0])], {net.axis})", parts), [other, half]


def counted(net: Drawn, value, neurons):
    """Numbers per neuron that are added or multiplied; for tokens, also per position."""
    shapes = {"tokens": ((net.shape[0], width(neurons)), 1), "images": ((width(neurons), 1, 1), 0)}
    shape, axis = shapes.get(net.kind, ((width(neurons), *[1] * (net.kind == "signals")), 0))
    return net.line(f"{{}} {net.draw.choice('+*')} {net.vector(neurons, *shape, axis=axis)}", value), neurons


def attended(net: Drawn, value, neurons):
    """Tokens attend to tokens by two heads; elsewhere, channels are weighed by what all positions say."""
    if net.kind == "tokens":
        heads, values = [Neurons(3), Neurons(3)], [Neurons(3), Neurons(3)]
        made = [net.layer(value, neurons, part)[0] for part in (heads, heads, values)]
        q, k, v = (net.line("{}.unflatten(-1, (2, 3)).transpose(1, 2)", part) for part in made)
        mixed = net.line("F.scaled_dot_product_attention({}, {}, {}).transpose(1, 2).flatten(2)", q, k, v)
        back, _ = net.layer(mixed, values, neurons)
        return net.line("{} + {}", value, back), neurons
    if net.kind == "vectors":
        return joined(net, value, neurons)
    kind, net.kind = net.kind, "vectors"
    hidden, made = net.activated(*net.layer(net.line("{}.flatten(2).mean(-1)", value), neurons))
    gate, _ = net.layer(hidden, made, neurons)
    net.kind = kind
    index = "[:, :, None, None]" if kind == "images" else "[:, :, None]"
    return net.line(f"{{}} * {{}}.sigmoid(){index}", value, gate), neurons


def by_channel(net: Drawn, value, neurons):
    """A depthwise or a transposed convolution; pools."""
    if net.kind != "images":
        return normed(net, value, neurons)
    count, made = width(neurons), [Neurons(4)]
    pool = net.draw.choice(("F.avg_pool2d({}, 3, 1, 1)", "F.max_pool2d({}, 3, 1, 1)", "{}.flip(3)"))
    if net.draw.random() < 0.5:
        deep = nn.Conv2d(count, count, 3, padding=1, groups=count)
        name = net.module(deep, weight=[(0, neurons)], bias=[(0, neurons)])
        return net.activated(net.line(pool, net.line(f"{name}({{}})", value)), neurons)
    wide = nn.ConvTranspose2d(count, 4, 2, stride=2)
    name = net.module(wide, weight=[(0, neurons), (1, made)], bias=[(0, made)])
    return net.line("F.avg_pool2d({}, 2)", net.activated(net.line(f"{name}({{}})", value), made)[0]), made


STEPS: tuple[Callable[..., tuple[str, list[Neurons]]], ...] = (
    *(chained, normed, skipped, side_by_side, joined),
    *(halved, counted, attended, by_channel),
)


def drawn(seed: int) -> tuple[Drawn, Tensor]:
    """A network and 300 samples, in float64."""
    model = Drawn([*KINDS][seed % len(KINDS)], seed)
    return model, normal(300, *model.shape)


def in_another_order(model: Drawn) -> Drawn:
    """The same network, its neurons in another order."""
    twin, orders = copy.deepcopy(model), dict[Neurons, list[int]]()
    state = twin.state_dict()
    for name, axes in twin.along.items():
        for axis, neurons in axes:
            order: list[int] = []
            for each in neurons:
                new = twin.draw.sample(range(each.width), each.width)
                new = orders.setdefault(each, [*range(each.width)] if each.fixed else new)
                order += [len(order) + index for index in new]
            state[name] = state[name].index_select(axis, torch.tensor(order)) if order else state[name]
    twin.load_state_dict(state)
    return twin
