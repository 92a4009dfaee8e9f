"""Fold into affine layers what a fit cannot write: norms and layer scales behind them, norms by channel, turned weights.

Each rewrite replaces modules of a trace by one linear layer or convolution, and says where its weights go back.
"""

import copy
import operator
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from ..weights import computed_weights
from .cuts import reordered_axes
from .kinds import (
    AFFINE,
    CONVOLUTIONS,
    TRANSPARENT,
    TRANSPOSED,
    AffineLayer,
    BatchNorm,
    does,
    held,
    is_plain,
    operation,
)
from .plain import erase_unused, holding, linear_of, open_attention
from .tracing import Trace, record_values

MULTIPLICATIONS = ("mul", "multiply")
RESHAPING = ("reshape", "view", "unsqueeze", "expand")


@dataclass(frozen=True, eq=False)
class Fold:
    """A layer that replaces modules of a model during the fit."""

    make: Callable[..., AffineLayer]
    """Makes the layer of its sources"""
    sources: tuple[Any, ...]
    """The modules, and parameters, that it replaces"""
    layer: AffineLayer
    weight: Tensor
    """Where the layer's weight goes back"""
    bias: Tensor | None
    """Where its bias goes back; None: the modules can hold none"""
    constants: tuple[tuple[Tensor, float], ...] = ()
    """Tensors of the modules, and the numbers that fill them then, so that these do nothing"""
    kind: str = ""
    """Name in tables; empty for the layer's type"""
    axis: int = 0
    """Axis of the first source's weight along which it makes neurons; the layer's is 0"""

    @classmethod
    def of(
        cls, make: Callable[..., AffineLayer], *sources: Any, weight: Tensor, bias: Tensor | None, **facts: Any
    ) -> "Fold":
        """The layer made of these sources, with where its weights go back."""
        return cls(make, sources, make(*sources), weight, bias, **facts)

    @torch.no_grad()
    def renew(self) -> None:
        """Make the layer's weights of its sources again, whose weights have changed."""
        new = self.make(*self.sources)
        for tensor, value in zip(self.layer.parameters(), new.parameters(), strict=True):
            tensor.copy_(value)

    @property
    def has_room(self) -> bool:
        """Whether the modules can hold the layer's bias."""
        return self.bias is not None or self.layer.bias is None

    @torch.no_grad()
    def put_back(self) -> None:
        """Write the layer's weights into the modules, which then together equal the layer.

        Raises:
            ValueError: there is no place for the bias.
        """
        if not self.has_room:
            raise ValueError(
                "there is no place for the fused bias: neither the layer nor the BatchNorm after it has a bias. Use "
                "affine=True in the BatchNorm of the target."
            )
        for tensor, number in self.constants:
            tensor.fill_(number)
        weight = turned(self.layer.weight) if self.axis else self.layer.weight
        self.weight.copy_(weight.reshape(self.weight.shape))
        if self.bias is not None and self.layer.bias is not None:
            self.bias.copy_(self.layer.bias)


#: Whether nothing else reads the tensors of these modules, and none is computed.
Free = Callable[..., bool]


def folded(trace: Trace, *, layers: bool = False) -> tuple[Trace, dict[str, tuple[Fold, ...]]]:
    """Fold BatchNorms into the layers before them; returns the trace, and each layer's folds in the order of putting them back.

    Layers with shared tensors (the tie would be lost) or computed weights (they cannot be written back) stay.

    Args:
        layers: prepare for levels after every layer: split attention modules, and apply all `REWRITES`.
    """
    trace = trace.copy()
    if layers and open_attention(trace.graph):
        record_values(trace.graph, trace.example)
        erase_unused(trace.graph)
    alone = _read_once(trace)

    def free(*holders: nn.Module | Tensor) -> bool:
        return all(id(tensor) in alone for holder in holders for tensor in _tensors(holder))

    folds: dict[str, tuple[Fold, ...]] = {}
    for rewrite in REWRITES if layers else (_norm_behind,):
        for node in list(trace.graph.nodes):
            if found := rewrite(trace, node, free):
                at, fold = found
                folds[str(at.target)] = (fold, *folds.get(str(at.target), ()))
                at.meta["held"] = fold.layer
                alone.update(map(id, fold.layer.parameters()))
    return trace, folds


def _read_once(trace: Trace) -> set[int]:
    """id() of each tensor that the graph reads once and that no code computes."""
    reads: Counter[int] = Counter()
    for node in trace.graph.nodes:
        if node.op == "call_module":
            module = held(node)
            reads.update(id(tensor) for tensor in _tensors(module) for _ in range(1 + bool(computed_weights(module))))
        elif node.op == "get_attr":
            reads[id(held(node))] += sum(user.meta["holds_tensors"] for user in node.users)
    return {tensor for tensor, count in reads.items() if count == 1}


def _tensors(holder: nn.Module | Tensor) -> list[Tensor]:
    return [holder] if isinstance(holder, Tensor) else [*holder.parameters(), *holder.buffers()]


# --- rewrites: each takes a node, and returns the call of the layer that it puts there, and its fold, if any --------------

Found = tuple[fx.Node, Fold] | None


def _transposed(trace: Trace, node: fx.Node, free: Free) -> Found:
    """An ungrouped transposed convolution is a convolution of maps with zeros between positions (`spread`)."""
    layer = held(node)
    if type(layer) not in TRANSPOSED or layer.groups > 1 or len(node.args) != 1 or not free(layer):
        return None  # a second argument is the output size
    sizes = zip(layer.dilation, layer.kernel_size, layer.padding, strict=True)
    around = tuple(d * (k - 1) - int(p) for d, k, p in sizes)
    after = tuple(width + more for width, more in zip(around, layer.output_padding, strict=True))
    with trace.graph.inserting_before(node):
        wide = trace.graph.call_function(spread, (node.args[0], layer.stride, around, after))
    read = torch.empty(node.all_input_nodes[0].meta["value"], device="meta")
    wide.meta = {**node.meta, "held": None, "value": spread(read, layer.stride, around, after).shape}
    node.args = (wide,)
    return node, Fold.of(_of_transposed, layer, weight=layer.weight, bias=layer.bias, axis=1)


def _product(trace: Trace, node: fx.Node, free: Free) -> Found:
    """A product with a parameter, `x @ weight + bias` or `x @ weight.T`, is a linear layer under the parameter's name.

    `weight` is (inputs, outputs), as in the Conv1D of GPT-2, which also flattens samples and tokens around it.
    """
    if operation(node) not in ("matmul", "mm") or len(node.all_input_nodes) != 2:
        return None
    read, weight = node.all_input_nodes
    is_turned = reordered_axes(weight) == [1, 0]
    weight = weight.all_input_nodes[0] if is_turned else weight
    added, end = _bias(node)
    matrix, bias = held(weight), None if added is None else held(added)
    if node.args[0] is not read or not isinstance(matrix, nn.Parameter) or matrix.ndim != 2:
        return None
    if not free(matrix, *(() if bias is None else (bias,))):
        return None
    read, end = _unflattened(read, end)
    path = str(weight.target).removesuffix(".weight")
    with trace.graph.inserting_before(end):
        layer = trace.graph.call_module(path, (read,))
    layer.meta = {**node.meta, "value": end.meta["value"]}
    end.replace_all_uses_with(layer)
    _erase_backwards(trace.graph, end)
    layer.name = end.name  # by which its neurons are known
    owner = dict(trace.model.named_modules()).get(path)
    kind = "" if owner is None else type(owner).__name__
    make = partial(_of_product, turn=not is_turned)
    return layer, Fold.of(make, matrix, bias, weight=matrix, bias=bias, kind=kind, axis=int(not is_turned))


def _norm_behind(trace: Trace, node: fx.Node, free: Free) -> Found:
    """A BatchNorm that alone reads a layer is folded into it; behind a Linear only on flat tensors, not on tokens."""
    norm, before = held(node), node.args[0] if node.args else None
    affine = held(before) if isinstance(before, fx.Node) else None
    if not (
        isinstance(norm, BatchNorm)
        and norm.running_mean is not None
        and norm.running_var is not None
        and isinstance(before, fx.Node)
        and is_plain(affine, AFFINE)
        and len(before.users) == 1
        and norm.num_features == len(affine.weight)
        and not (isinstance(affine, nn.Linear) and len(before.meta["value"]) != 2)
        and free(affine, norm)
    ):
        return None
    neutral = [(norm.running_mean, 0.0), (norm.running_var, 1 - norm.eps), (norm.weight, 1.0), (norm.bias, 0.0)]
    constants = tuple((tensor, number) for tensor, number in neutral if tensor is not None)
    bias = norm.bias if affine.bias is None else affine.bias
    node.replace_all_uses_with(before)
    trace.graph.erase_node(node)
    return before, Fold.of(_with_norm, affine, norm, weight=affine.weight, bias=bias, constants=constants)


def _scale_behind(trace: Trace, node: fx.Node, free: Free) -> Found:
    """A layer scale, one factor per neuron that multiplies a layer's outputs (Touvron et al. 2021), is folded into the layer."""
    product = _scaled_layer(node)
    if product is None:
        return None
    layer, before, parameter = product
    affine, factor = held(layer), held(parameter)
    if not free(affine, factor):
        return None
    node.replace_all_uses_with(before)
    _erase_backwards(trace.graph, node)
    constants = ((factor, 1.0),)
    return layer, Fold.of(scaled, affine, factor, weight=affine.weight, bias=affine.bias, constants=constants)


def _norm_of_maps(trace: Trace, node: fx.Node, free: Free) -> Found:
    """Any other BatchNorm of maps is a 1x1 depthwise convolution."""
    norm = held(node)
    dimensions = len(node.meta["value"]) - 2 if node.meta.get("is_tensor") else 0
    if not (isinstance(norm, BatchNorm) and norm.running_mean is not None and norm.running_var is not None):
        return None
    if not (norm.affine and dimensions > 0 and free(norm)):
        return None
    make = partial(_of_norm, dimensions)
    constants = ((norm.running_mean, 0.0), (norm.running_var, 1 - norm.eps))
    kind = type(norm).__name__
    return node, Fold.of(make, norm, weight=norm.weight, bias=norm.bias, constants=constants, kind=kind)


#: For levels after every layer, in this order.
REWRITES = (_transposed, _product, _norm_behind, _scale_behind, _norm_of_maps)


# --- layers -------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def _of_transposed(layer: Any) -> AffineLayer:
    kind = CONVOLUTIONS[TRANSPOSED.index(type(layer))]
    with torch.device("meta"):
        new = kind(layer.in_channels, layer.out_channels, layer.kernel_size, dilation=layer.dilation)
    return holding(new, weight=turned(layer.weight), bias=None if layer.bias is None else layer.bias.clone())


@torch.no_grad()
def _of_product(matrix: Tensor, bias: Tensor | None, *, turn: bool) -> AffineLayer:
    return linear_of(turned(matrix) if turn else matrix.clone(), None if bias is None else bias.clone())


def _with_norm(affine: AffineLayer, norm: BatchNorm) -> AffineLayer:
    return scaled(affine, *factor_and_shift(norm))


def _of_norm(dimensions: int, norm: BatchNorm) -> AffineLayer:
    n = norm.num_features
    with torch.device("meta"):
        new = CONVOLUTIONS[dimensions - 1](n, n, 1, groups=n, bias=False)
    ones = torch.ones(new.weight.shape, dtype=norm.weight.dtype, device=norm.weight.device)
    return scaled(holding(new, weight=ones), *factor_and_shift(norm))


@torch.no_grad()
def factor_and_shift(norm: BatchNorm) -> tuple[Tensor, Tensor]:
    """What a BatchNorm in evaluation mode multiplies with, gamma / sqrt(running_var + eps), and what it adds; (width,)."""
    assert norm.running_mean is not None and norm.running_var is not None
    factor = torch.rsqrt(norm.running_var + norm.eps)
    if norm.weight is not None:
        factor = factor * norm.weight
    shift = -norm.running_mean * factor
    return factor, shift if norm.bias is None else shift + norm.bias


@torch.no_grad()
def scaled(affine: AffineLayer, factor: Tensor, shift: Tensor | None = None) -> AffineLayer:
    """A new layer equal to `affine(x) * factor + shift`, for a number per neuron."""
    layer, bias, factor = copy.copy(affine), shift, factor.flatten()
    layer._parameters = dict(affine._parameters)
    if affine.bias is not None:
        bias = affine.bias * factor if shift is None else shift + affine.bias * factor
    return holding(layer, weight=affine.weight * factor.reshape(-1, *[1] * (affine.weight.ndim - 1)), bias=bias)


@torch.no_grad()
def turned(weight: Tensor) -> Tensor:
    """Swap inputs and outputs of a weight (inputs, outputs, ...) and flip its kernel; its own inverse."""
    return weight.transpose(0, 1).flip(tuple(range(2, weight.ndim))).contiguous()


def spread(x: Tensor, stride: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]) -> Tensor:
    """Maps (B, C, ...) with stride - 1 zeros between neighbours, padded by `before` and `after` (cropped if negative)."""
    sizes = [(size - 1) * step + 1 for size, step in zip(x.shape[2:], stride, strict=True)]
    wide = x.new_zeros(*x.shape[:2], *sizes)
    wide[(..., *(slice(None, None, step) for step in stride))] = x
    return F.pad(wide, [width for pair in zip(before[::-1], after[::-1], strict=True) for width in pair])


# --- what a node is -----------------------------------------------------------------------------------------------------


def _erase_backwards(graph: fx.Graph, node: fx.Node) -> None:
    """Erase a node that nothing reads, and what only it read."""
    before = node.all_input_nodes
    graph.erase_node(node)
    for other in before:
        if not other.users and other.op != "placeholder":
            _erase_backwards(graph, other)


def _bias(node: fx.Node) -> tuple[fx.Node | None, fx.Node]:
    """The parameter (width,) that is added to a product, if any, and the node of the result."""
    end = next(iter(node.users)) if len(node.users) == 1 else node
    sides = [arg for arg in end.args if arg is not node] if end.target is operator.add else []
    held_ones = [side for side in sides if isinstance(side, fx.Node) and isinstance(held(side), nn.Parameter)]
    if len(sides) == len(held_ones) == 1 and held(held_ones[0]).shape == node.meta["value"][-1:]:
        return held_ones[0], end
    return None, node


def _unflattened(read: fx.Node, end: fx.Node) -> tuple[fx.Node, fx.Node]:
    """The nodes before and behind two views that only flatten samples and tokens around a product, if it stands between such."""
    before, behind = read.all_input_nodes[:1], list(end.users)
    if len(behind) != 1 or any(operation(view) not in ("view", "reshape") for view in (read, *behind)):
        return read, end
    outer, inner = before[0].meta["value"], read.meta["value"]
    whole = outer[-1] == inner[-1] and behind[0].meta["value"] == (*outer[:-1], end.meta["value"][-1])
    return (before[0], behind[0]) if whole else (read, end)


def _scaled_layer(node: fx.Node) -> tuple[fx.Node, fx.Node, fx.Node] | None:
    """The layer, its (reordered) output and the parameter, if a node is their product."""
    sides = [arg for arg in node.args if isinstance(arg, fx.Node) and arg.meta.get("is_tensor")]
    if operation(node) not in MULTIPLICATIONS or len(sides) != 2:
        return None
    for before, factor in (sides, sides[::-1]):
        parameter, found = _parameter(factor), _layer(before)
        if parameter is None or found is None or before.meta["value"] != node.meta["value"]:
            continue
        layer, axis = found
        shape = factor.meta["value"]
        along = [dim - len(shape) for dim, size in enumerate(shape) if size > 1]
        if along == [axis - len(before.meta["value"])]:
            return layer, before, parameter
    return None


def _parameter(node: fx.Node) -> fx.Node | None:
    """The parameter that a node is, possibly reshaped."""
    while node.op != "get_attr":
        if operation(node) not in RESHAPING or len(node.users) != 1:
            return None
        node = node.all_input_nodes[0]
    return node if len(node.users) == 1 and isinstance(held(node), nn.Parameter) else None


def _layer(node: fx.Node) -> tuple[fx.Node, int] | None:
    """The affine layer whose output a node is, possibly with reordered axes, and its neuron axis there."""
    turns = []
    while not is_plain(held(node), AFFINE):
        axes = reordered_axes(node)
        if len(node.users) != 1 or not (axes or does(node, TRANSPARENT)):
            return None
        turns += [axes] if axes else []
        node = node.all_input_nodes[0]
    if len(node.users) != 1:
        return None
    axis = len(node.meta["value"]) - 1 if isinstance(held(node), nn.Linear) else 1
    for axes in reversed(turns):
        axis = axes.index(axis)
    return node, axis
