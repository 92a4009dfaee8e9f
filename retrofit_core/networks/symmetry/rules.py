"""Follow neurons through a network with one rule per kind of operation, none per architecture.

Every traced tensor gets a twin of the same shape with the neuron id of each entry (`Ids`). Operations that only move entries
run on the twin itself; an affine layer makes new neurons and reads those of its input; a sum declares the neurons of both sides
the same.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from ..levels.kinds import (
    BINARY,
    ENTRYWISE,
    REORDERING,
    TRANSPOSED,
    argument,
    does,
    held,
    is_sum,
    names,
    operation,
    parameter_count,
    words,
)
from ..levels.tracing import Trace

#: The id of everything that must not be permuted: pixels, positions.
FIXED = 0
DIMENSIONS = ("1d", "2d", "3d")
#: Operations that mix positions and treat all channels alike.
POSITIONS = {
    *(f"{kind}pool{d}" for kind in ("max", "avg", "adaptiveavg", "adaptivemax") for d in DIMENSIONS),
    *words("interpolate boolean_dispatch upsample _ConstantPadNd _CircularPadNd _ReflectionPadNd _ReplicationPadNd"),
}
#: Operations that take entries out of a tensor.
TAKING = words("chunk split split_with_sizes tensor_split unbind getitem select narrow")
#: Operations that only move entries, so they can run on neuron ids.
MOVES = (
    TAKING
    | REORDERING
    | words(
        "flatten reshape reshape_as with_item view_as view unflatten "
        "squeeze unsqueeze expand expand_as contiguous cat concat stack roll repeat flip clone detach repeat_interleave tile "
        "broadcast_to channel_shuffle pixel_shuffle pixel_unshuffle getattr"
    )
)
EXTREMES = words("amax amin max min")
#: The rule for each kind of operation: functions, methods and modules of torch by their plain names.
RULES = {
    name: rule
    for rule, kinds in {
        "linear": words("linear"),
        "convolution": words("_ConvNd conv1d conv2d conv3d"),
        "embedding": words("Embedding"),
        "channel_norm": words("_NormBase"),
        "group_norm": words("group_norm"),
        "layer_norm": words("layer_norm RMSNorm"),
        "prelu": words("PReLU"),
        "attention": words("MultiheadAttention"),
        "gated": words("glu"),
        "unfolded": words("unfold"),
        "folded": words("fold"),
        "move": MOVES,
        "first": ENTRYWISE,
        "binary": BINARY - ENTRYWISE,
        "positions": POSITIONS,
        "reduced": words("mean sum amax amin norm vector_norm var std logsumexp"),
        "extreme": words("max min"),
        "padded": words("pad"),
        "matmul": words("matmul bmm mm mv"),
        "einsum": words("einsum"),
        "dot_product": words("scaled_dot_product_attention"),
        "normalized": words("normalize softmax log_softmax"),
        "filled": words("new_zeros new_ones new_full"),
    }.items()
    for name in kinds
}


class Ids:
    """Ids 0, 1, ..., some of which are known to be the same neuron."""

    def __init__(self) -> None:
        self.root = torch.zeros(1, dtype=torch.int64)

    def fresh(self, *shape: int) -> Tensor:
        """New ids, different from all others."""
        count = int(np.prod(shape))
        numbers = torch.arange(len(self.root), len(self.root) + count)
        self.root = torch.cat([self.root, numbers])
        return numbers.view(shape)

    def of(self, ids: Tensor) -> Tensor:
        """Each id's representative, equal exactly for ids of the same neuron."""
        return self.root[ids]

    def unify(self, left: Tensor, right: Tensor) -> None:
        """Declare two tensors of ids (of broadcastable shapes) the same, entry by entry."""
        left, right = torch.broadcast_tensors(self.of(left), self.of(right))
        if torch.equal(left, right):
            return
        n = len(self.root)
        keys = (torch.minimum(left, right) * n + torch.maximum(left, right)).flatten().unique().numpy()
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components

        edges = coo_matrix((np.ones(len(keys), np.int8), (keys // n, keys % n)), shape=(n, n))
        count, labels = connected_components(edges, directed=False)
        labels = torch.from_numpy(labels.astype(np.int64))
        least = torch.full((count,), n).scatter_reduce_(0, labels, torch.arange(n), "amin")
        self.root = least[labels[self.root]]

    def constant_along(self, ids: Tensor, axis: int) -> Tensor:
        """(n,) ids along one axis, declared the same at all positions of the other axes."""
        lines = ids.movedim(axis, -1).reshape(-1, ids.shape[axis])
        self.unify(lines, lines[:1])
        return self.of(lines[0])


@dataclass(frozen=True, eq=False)
class Seen:
    """An output in the graph where neurons can be recorded."""

    node: fx.Node
    axis: int
    ids: Tensor
    """(n,) ids along the axis"""
    part: str = "output"
    """The node's output; inside an attention module "in_proj" (queries, keys and values side by side) or "out_proj" """


class Rules:
    """One pass over the trace of a network.

    Args:
        trace: of one sample.
        within: grouped convolutions that make new neurons, so that neurons within a part are distinguished.
        pieces: always separate neurons that are taken out of a tensor from its others.
    """

    def __init__(
        self,
        trace: Trace,
        *,
        within: Collection[str] = (),
        pieces: bool = False,
    ) -> None:
        self.model, self.ids = trace.model, Ids()
        self.within, self.pieces = within, pieces
        named = [*self.model.named_parameters(), *self.model.named_buffers()]
        self.names = {id(tensor): name for name, tensor in reversed(named)}
        self.axes: dict[tuple[str, int], tuple[Tensor, str]] = {}  # (tensor, axis) -> ids along it, kind
        self.tied: set[tuple[str, int]] = set()  # (tensor, axis) whose neurons are both made and read there
        self.entries: dict[str, Tensor] = {}  # ids of tensors used entry by entry (positions, class tokens)
        self.splits: list[dict[int, Any]] = []  # neurons with different labels are not exchanged
        self.seen: list[Seen] = []
        self.values: dict[fx.Node, Any] = {}
        for node in trace.graph.nodes:
            if node.op == "output":
                self.head = self.values[node.args[0]]
            elif node.meta["holds_tensors"]:
                self.values[node] = self._follow(node)

    def _follow(self, node: fx.Node) -> Any:
        if node.op == "placeholder":
            return torch.zeros(node.meta["value"], dtype=torch.int64)
        if node.op == "get_attr":
            return self._constant(node)
        inputs = [self.values[other] for other in node.all_input_nodes if other in self.values]
        if not parameter_count(node) and all(self._is_fixed(value) for value in inputs):
            return _zeros(node.meta["value"])
        rule = next((RULES[name] for name in names(node) if name in RULES), "unknown")
        return getattr(self, f"_{rule}")(node)

    def _constant(self, node: fx.Node) -> Tensor:
        tensor = held(node)
        if id(tensor) not in self.names or not tensor.is_floating_point():
            return torch.zeros(tensor.shape, dtype=torch.int64)
        name = self.names[id(tensor)]
        if name not in self.entries:
            self.entries[name] = self.ids.fresh(*tensor.shape)
        return self.entries[name]

    def _is_fixed(self, value: object) -> bool:
        if isinstance(value, (tuple, list)):
            return all(map(self._is_fixed, value))
        return not isinstance(value, Tensor) or bool((self.ids.of(value) == FIXED).all())

    # --- rules --------------------------------------------------------------------------------------------------------

    def _assign(self, tensor: Tensor | None, axis: int, ids: Tensor, kind: str) -> Tensor:
        """Record the neurons along an axis of a parameter or buffer; unify them if it is used twice."""
        if tensor is None:
            return ids
        key = (self.names[id(tensor)], axis)
        old, noted = self.axes.setdefault(key, (ids, kind))
        if kind != noted:
            self.tied.add(key)
        self.ids.unify(old, ids)
        self.entries.pop(key[0], None)
        return ids

    def _new_neurons(self, weight: Tensor, bias: Tensor | None, axis: int = 0) -> Tensor:
        """New neurons on an axis of a weight, or those that it made or read before.

        They are read ("in") if a tied weight already makes neurons along another axis, so that it is averaged once.
        """
        key = (self.names[id(weight)], axis)
        makes = any(name == key[0] and kind == "out" for (name, at), (_, kind) in self.axes.items() if at != axis)
        ids = self.axes[key][0] if key in self.axes else self.ids.fresh(weight.shape[axis])
        self._assign(weight, axis, ids, "in" if makes else "out")
        return self._assign(bias, 0, ids, "vector")

    def _see(self, node: fx.Node, axis: int, ids: Tensor, part: str = "output") -> None:
        self.seen.append(Seen(node, axis, ids, part))

    def _first(self, node: fx.Node) -> Any:
        """What the first input has."""
        return self.values[node.all_input_nodes[0]]

    def _tensors(self, node: fx.Node, *names: str) -> list[Tensor | None]:
        """Weight and bias of a module, or those passed to a function."""
        if node.op == "call_module":
            return [getattr(held(node), name, None) for name in names]
        start = 2 if operation(node) in ("layernorm", "groupnorm", "rmsnorm") else 1
        entries = dict(zip(names, node.args[start:], strict=False)) | {
            k: v for k, v in node.kwargs.items() if k in names
        }
        given = map(entries.get, names)
        return [held(arg) if isinstance(arg, fx.Node) and arg.op == "get_attr" else None for arg in given]

    def _linear(self, node: fx.Node) -> Tensor:
        """New neurons; but a layer over positions (it mixes tokens) keeps those along the other axes.

        A transposed weight (`weight.t()`) makes the neurons that it reads elsewhere, as in tied autoencoders.
        """
        weight, bias = self._tensors(node, "weight", "bias")
        makes = 0
        if weight is None:
            given = node.args[1] if len(node.args) > 1 else node.kwargs.get("weight")
            found = self._held(given) if isinstance(given, fx.Node) else None
            if found is None:
                return self._unknown(node)
            weight, makes = found
        x = self.ids.of(self._first(node))
        if varying_axes(x) and x.ndim - 1 not in varying_axes(x):
            return x[..., :1].expand(node.meta["value"])
        self._assign(weight, 1 - makes, self.ids.constant_along(self._first(node), -1), "in")
        neurons = self._new_neurons(weight, bias, axis=makes)
        for other in node.all_input_nodes[1:]:
            if node.op == "call_function" and self._held(other) is None and other.op != "get_attr":  # a computed bias
                self.ids.unify(neurons, self.values[other])
        self._see(node, -1, neurons)
        return neurons.expand(node.meta["value"])

    def _convolution(self, node: fx.Node) -> Tensor:
        """New neurons; a grouped convolution keeps those that it reads, with all channels of a part as one neuron.

        A transposed convolution's weight has its input axis first.
        """
        layer = held(node)
        if layer is None:
            return self._blurred(node)
        reads, makes = (0, 1) if isinstance(layer, TRANSPOSED) else (1, 0)
        ids = self.ids.constant_along(self._first(node), 1)
        if layer.groups == 1 or node.target in self.within:
            if layer.groups == 1:
                self._assign(layer.weight, reads, ids, "in")
            ids = self._new_neurons(layer.weight, layer.bias, axis=makes)
        else:
            parts = ids.view(layer.groups, -1)
            self.ids.unify(parts, parts[:, :1])
            neurons = self.ids.of(parts[:, 0]).repeat_interleave(layer.out_channels // layer.groups)
            self._assign(layer.weight, 0, self.ids.of(ids) if makes else neurons, "vector")
            ids = self._assign(layer.bias, 0, neurons, "vector")
        for name, gain in layer.named_parameters(recurse=False):
            if name not in ("weight", "bias") and len(gain) == layer.out_channels:
                self._assign(gain, 0, ids, "vector")
        self._see(node, 1, ids)
        return on_axis(ids, 1, node)

    def _blurred(self, node: fx.Node) -> Tensor:
        """A buffer with a kernel for each channel, such as a blur's, keeps the neurons."""
        (kernels,) = self._tensors(node, "weight")
        ids = self.ids.constant_along(self._first(node), 1)
        if kernels is None or isinstance(kernels, nn.Parameter) or id(kernels) not in self.names:
            return self._unknown(node)
        if not _argument(node, "groups", 6, 1) == len(kernels) == len(ids):
            return self._unknown(node)
        return on_axis(self._assign(kernels, 0, ids, "vector"), 1, node)

    def _embedding(self, node: fx.Node) -> Tensor:
        """Looked-up rows, whose columns are new neurons, or those that the table made before."""
        (weight,) = self._tensors(node, "weight")
        ids = self._unknown(node) if weight is None else self._new_neurons(weight, None, axis=1)
        self._see(node, -1, ids)
        return ids.expand(node.meta["value"])

    def _gated(self, node: fx.Node) -> Tensor:
        """Half of the neurons, each multiplied by a function of its counterpart in the other half."""
        axis = _argument(node, "dim", 1, -1)
        left, right = self._first(node).chunk(2, axis)
        self.ids.unify(left, right)
        return left

    def _channel_norm(self, node: fx.Node) -> Tensor:
        layer, x = held(node), self._first(node)
        if axis_of(self.ids.of(x)) not in (None, 1, 1 - x.ndim):
            return x  # it normalises positions, all neurons alike
        ids = self.ids.constant_along(x, 1)
        for tensor in (layer.weight, layer.bias, layer.running_mean, layer.running_var):
            self._assign(tensor, 0, ids, "vector")
        before = node.args[0]
        self.seen = [seen for seen in self.seen if seen.node is not before]
        self._see(node, 1, ids)
        return x

    def _group_norm(self, node: fx.Node) -> Tensor:
        weight, bias = self._tensors(node, "weight", "bias")
        ids = self.ids.constant_along(self._first(node), 1)
        for tensor in (weight, bias):
            self._assign(tensor, 0, ids, "vector")
        self._split(ids.view(_argument(node, "num_groups", 1, 1), -1))
        return self._first(node)

    def _layer_norm(self, node: fx.Node) -> Tensor:
        weight, bias = self._tensors(node, "weight", "bias")
        x = self._first(node)
        if weight is None or weight.ndim == 1:
            ids = self.ids.constant_along(x, -1)
            for tensor in (weight, bias):
                self._assign(tensor, 0, ids, "vector")
            return x
        for tensor in (weight, bias):
            if tensor is not None:
                name = self.names[id(tensor)]
                self.entries.setdefault(name, self.ids.fresh(*tensor.shape))
                self.ids.unify(x, self.entries[name])
        return x

    def _normalized(self, node: fx.Node) -> Tensor:
        """Normalised along an axis: neurons that share a line on it must stay together."""
        x = self.ids.of(self._first(node))
        dim = _argument(node, "dim", 2 if operation(node) == "normalize" else 1, 1)
        lines = x.movedim(1 if dim is None else dim, -1)
        lines = lines.reshape(-1, lines.shape[-1])
        if not torch.equal(lines, lines[:, :1].expand_as(lines)):
            self._split(lines.unique(dim=0))
        return x

    def _prelu(self, node: fx.Node) -> Tensor:
        (weight,) = self._tensors(node, "weight")
        if weight is None:
            return self._unknown(node)
        if len(weight) > 1:
            self._assign(weight, 0, self.ids.constant_along(self._first(node), 1), "vector")
        return self._first(node)

    def _attention(self, node: fx.Node) -> Any:
        layer = held(node)
        if layer.in_proj_weight is None or layer.bias_k is not None or layer.add_zero_attn:
            raise ValueError(
                f"the MultiheadAttention {node.target!r} has weights of its own for keys and values of another width, or "
                "an added bias; its neurons cannot be followed. Use KF-Gradient."
            )
        read = {argument(node, name, place, None) for place, name in enumerate(("query", "key", "value"))}
        for other in node.all_input_nodes:
            if other in read:
                self._assign(layer.in_proj_weight, 1, self.ids.constant_along(self.values[other], -1), "in")
        self._stay(other for other in node.all_input_nodes if other not in read)
        neurons = self._new_neurons(layer.in_proj_weight, layer.in_proj_bias)
        q, k, v = neurons.chunk(3)
        self._multiplied(q, k)
        for ids in (q, v):
            self._heads(ids.view(layer.num_heads, -1))
        self._assign(layer.out_proj.weight, 1, v, "in")
        self._see(node, -1, neurons, "in_proj")
        out = self._new_neurons(layer.out_proj.weight, layer.out_proj.bias)
        self._see(node, -1, out, "out_proj")
        value = node.meta["value"]
        return out.expand(value[0].shape), (None if value[1] is None else _zeros(value[1]))

    def _move(self, node: fx.Node) -> Any:
        args, kwargs = fx.map_arg((node.args, node.kwargs), self._entries)
        if node.op == "call_module":
            return held(node)(*args, **kwargs)
        function: Any = getattr(args[0], str(node.target)) if node.op == "call_method" else node.target
        moved = function(*(args[1:] if node.op == "call_method" else args), **kwargs)
        if self.pieces and isinstance(args[0], Tensor) and operation(node) in TAKING:
            self._split([part.flatten() for part in ([moved] if isinstance(moved, Tensor) else moved)])
        return moved

    def _entries(self, node: fx.Node) -> Any:
        """Arguments for an operation that moves entries: ids for tensors; indices and sizes as they are."""
        tensor = held(node)
        if isinstance(tensor, Tensor) and not tensor.is_floating_point():
            return tensor
        return self.values.get(node, node.meta["value"])

    def _binary(self, node: fx.Node) -> Tensor:
        """Unify the neurons of two tensors entry by entry."""
        shape = node.meta["value"]
        tensors = [self.values[arg] for arg in node.args if isinstance(arg, fx.Node) and arg in self.values]
        several = [ids for ids in tensors if ids.numel() > 1] or tensors
        first, *others = sorted(several, key=lambda ids: ids.shape != shape)
        for other in others:
            if not self._broadcast(first, other):
                self.ids.unify(first, other)
        ids = first.expand(shape)
        axis = axis_of(self.ids.of(ids)) if is_sum(node) else None
        if axis is not None:
            self._see(node, axis, self.ids.constant_along(ids, axis))
        return ids

    def _unfolded(self, node: fx.Node) -> Tensor:
        """Patches of maps: (B, C, height, width) -> (B, C x offsets, positions); the method unfolds one axis."""
        if node.op == "call_method":
            return self._move(node)
        ids, shape = self.ids.constant_along(self._first(node), 1), node.meta["value"]
        return on_axis(ids.repeat_interleave(shape[1] // len(ids)), 1, node)

    def _folded(self, node: fx.Node) -> Tensor:
        """Patches summed into maps, the inverse."""
        patches, channels = self._first(node), node.meta["value"][1]
        ids = self.ids.constant_along(patches.unflatten(1, (channels, -1)), 1)
        return on_axis(ids, 1, node)

    def _broadcast(self, ids: Tensor, other: Tensor) -> bool:
        """Whether the other tensor is broadcast over neurons, such as a gate per position."""
        axis = axis_of(self.ids.of(ids))
        if axis is None:
            return False
        axis_from_right = axis % ids.ndim - ids.ndim  # counted from the right, as broadcasting does
        return other.ndim < -axis_from_right or other.shape[axis_from_right] == 1

    def _positions(self, node: fx.Node) -> Tensor:
        return on_axis(self.ids.constant_along(self._first(node), 1), 1, node)

    def _extreme(self, node: fx.Node) -> Any:
        """Extreme values, with indices if along an axis; of two tensors, entry by entry."""
        value = node.meta["value"]
        if isinstance(value, torch.Size):
            return self._binary(node) if len(node.all_input_nodes) > 1 else self._reduced(node)
        return self._reduced(node, value[0].shape), _zeros(value[1])

    def _reduced(self, node: fx.Node, shape: torch.Size | None = None) -> Tensor:
        """Reducing positions keeps neurons; reducing all neurons on a line does not depend on their order.

        Lines of one neuron of each of several layers, and most maxima of a layer's neurons (maxout), are neurons themselves:
        many lines in any order, in place of the few on each line.

        Args:
            shape: of the result; default: the node's.
        """
        x, size = self.ids.of(self._first(node)), torch.Size(node.meta["value"] if shape is None else shape)
        argument = 2 if "norm" in operation(node) else 1
        dims: Any = _argument(node, "dim", argument, None)
        dims = tuple(range(x.ndim)) if dims is None else dims
        axes: list[int] = sorted(axis % x.ndim for axis in (dims if isinstance(dims, (tuple, list)) else (dims,)))
        least, most = x.amin(axes), x.amax(axes)
        if torch.equal(least, most):
            return least.reshape(size)
        lines = x.movedim(axes, list(range(-len(axes), 0))).flatten(-len(axes)).flatten(0, -2).unique(dim=0)
        extreme = does(node, EXTREMES) and len(lines) > lines.shape[1]
        if len(lines) > 1 and (extreme or self._of_several_layers(lines)):
            self.ids.unify(lines, lines[:, :1])
            return self.ids.of(least).reshape(size)
        self._split(lines)
        return torch.zeros(size, dtype=torch.int64)

    def _of_several_layers(self, lines: Tensor) -> bool:
        """Whether each line (lines, length) holds at most one neuron of a layer."""
        made = [self.ids.of(ids) for ids, kind in self.axes.values() if kind == "out"]
        return lines.shape[1] > 1 and all(torch.isin(lines, ids).sum(1).max() <= 1 for ids in made)

    def _padded(self, node: fx.Node) -> Tensor:
        """Padding along positions belongs to the neurons there; along the neuron axis it belongs to none."""
        x, widths = self.ids.of(self._first(node)), list(_argument(node, "pad", 1, ()))
        for number, (before, after) in enumerate(zip(widths[::2], widths[1::2], strict=True)):
            axis, size = x.ndim - 1 - number, x.shape[x.ndim - 1 - number]
            varies = axis in varying_axes(x)
            index = torch.arange(-before, size + after)
            x = x.index_select(axis, index.clamp(0, size - 1))
            if varies:
                inside = ((index >= 0) & (index < size)).view(-1, *[1] * number)
                x = torch.where(inside, x, FIXED)
        return x

    def _matmul(self, node: fx.Node) -> Tensor:
        """Queries times keys: the same neurons, head by head. Attention maps times values: positions are mixed."""
        shape = node.meta["value"]
        for side, operand in enumerate(_nodes(node)[:2]):
            if (found := self._held(operand)) is not None:
                return self._multiplied_by(found, side, node)
        left, right = (self.values[arg] for arg in _nodes(node)[:2])
        if self._is_fixed(left):
            return self._mixed(right).expand(shape)
        if self._is_fixed(right):
            return self._mixed(left.transpose(-1, -2)).transpose(-1, -2).expand(shape)
        self._multiplied(self._mixed(left), self._mixed(right.transpose(-1, -2)))
        return _zeros(shape)

    def _held(self, node: fx.Node) -> tuple[Tensor, int] | None:
        """If an operand is a matrix parameter, possibly transposed: the parameter, and which of its axes comes first."""
        ids = self.values[node]
        while node.op != "get_attr" and len(node.all_input_nodes) == 1 and operation(node) in MOVES:
            node = node.all_input_nodes[0]
        tensor = held(node)
        if not isinstance(tensor, nn.Parameter) or tensor.ndim != 2 or self._is_fixed(ids):
            return None
        entries = self.values[node]
        return next(((tensor, axis) for axis, view in enumerate((entries, entries.mT)) if torch.equal(ids, view)), None)

    def _multiplied_by(self, found: tuple[Tensor, int], side: int, node: fx.Node) -> Tensor:
        """x @ W, a linear layer without a module; a parameter on the left may only mix positions."""
        (weight, first), shape = found, node.meta["value"]
        x = self.values[_nodes(node)[1 - side]]
        along = -1 if side else -2
        varying = {axis - x.ndim for axis in varying_axes(self.ids.of(x))}
        if varying and along not in varying:
            self.entries.pop(self.names[id(weight)], None)
            return x.narrow(along, 0, 1).expand(shape)
        if not side:
            return self._unknown(node)
        self._assign(weight, first, self.ids.constant_along(x, -1), "in")
        neurons = self._new_neurons(weight, None, axis=1 - first)
        self._see(node, -1, neurons)
        return neurons.expand(shape)

    def _einsum(self, node: fx.Node) -> Any:
        """Two tensors: neurons that are multiplied and summed are the same; those of only one tensor are kept."""
        equation, operands = str(node.args[0]).replace(" ", ""), _nodes(node)
        inputs, _, output = equation.partition("->")
        names = inputs.split(",")
        if len(operands) == 1 and sorted(inputs) == sorted(output):  # axes in another order
            return self._move(node)
        if len(operands) != 2 or "." in equation or not output or any(len(set(name)) < len(name) for name in names):
            return self._unknown(node)
        summed = [letter for letter in dict.fromkeys("".join(names)) if letter not in output]
        letters = [*output, *summed]
        twins = []
        for name, operand in zip(names, operands, strict=True):
            present = [letter for letter in letters if letter in name]
            ids = self.values[operand].permute([name.index(letter) for letter in present])
            twins.append(ids[tuple(slice(None) if letter in present else None for letter in letters)])
        neurons = [ids for ids in twins if not self._is_fixed(ids)]
        if any(self._held(operand) is not None for operand in operands):
            return self._unknown(node)
        if len(neurons) == 2:  # a sum of products of neurons
            along = [
                [k for k in range(len(output), len(letters)) if k in varying_axes(self.ids.of(ids))] for ids in twins
            ]
            if not summed or along[0] != along[1]:
                return self._unknown(node)
            self.ids.unify(*twins)
            lines = self.ids.of(twins[0]).flatten(len(output)) if summed else twins[0]
            self._split(lines.flatten(0, -2).unique(dim=0))
            return _zeros(node.meta["value"])
        ids = neurons[0]
        for axis in range(len(output), len(letters)):
            self.ids.unify(ids, ids.narrow(axis, 0, 1))
        first = ids[(..., *[0] * len(summed))] if summed else ids
        return first.expand(node.meta["value"])

    def _filled(self, node: fx.Node) -> Tensor:
        """A new tensor, which takes nothing but its device from another."""
        return _zeros(node.meta["value"])

    def _unknown(self, node: fx.Node) -> Any:
        function = str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", str(node.target))
        what = f"the {type(held(node)).__name__} {node.target!r}" if node.op == "call_module" else f"{function}()"
        raise ValueError(
            f"it is not known which neurons belong together behind {what}, so neurons of two networks cannot be aligned "
            "there. Use KF-Gradient, which aligns whole blocks by what they compute."
        )

    def _dot_product(self, node: fx.Node) -> Tensor:
        q, k, v = (self._mixed(self.values[arg]) for arg in _nodes(node)[:3])
        if node.kwargs.get("enable_gqa", False):  # neighbouring queries share a head of keys and values
            k, v = (ids.repeat_interleave(q.shape[-3] // ids.shape[-3], -3) for ids in (k, v))
        self._multiplied(q, k)
        self._stay(node.all_input_nodes[3:])
        return v.expand(node.meta["value"])

    def _stay(self, masks: Iterable[fx.Node]) -> None:
        """Fix tensors that are added to, or multiplied with, products of positions."""
        for mask in masks:
            if mask in self.values:
                self.ids.unify(self.values[mask], torch.zeros(1, dtype=torch.int64))

    def _multiplied(self, q: Tensor, k: Tensor) -> None:
        """Unify queries and keys, which are multiplied neuron by neuron."""
        self.ids.unify(q, k)

    def _mixed(self, ids: Tensor) -> Tensor:
        """(..., t, n) -> (..., 1, n): unify over t, and separate the heads."""
        self.ids.unify(ids, ids[..., :1, :])
        self._heads(ids[..., 0, :].reshape(-1, ids.shape[-1]))
        return ids[..., :1, :]

    def _heads(self, ids: Tensor) -> None:
        """Separate the neurons (heads, n) of different heads."""
        self._split(ids)

    def _split(self, parts: Iterable[Tensor]) -> None:
        """Label each id with the parts that contain it."""
        labels: dict[int, tuple[int, ...]] = {}
        for part, numbers in enumerate(parts):
            for number in set(numbers.tolist()):
                labels[number] = (*labels.get(number, ()), part)
        self.splits.append(labels)


def rules_of(trace: Trace) -> Rules:
    """The pass over a trace of any number of samples; made once."""
    trace.rules = trace.rules or Rules(trace.of_one)
    return trace.rules


def _argument(node: fx.Node, name: str, position: int, default: object) -> Any:
    """An argument of a function or method, by name or position, with sizes as numbers; or a module's setting."""
    if node.op == "call_module":
        return getattr(held(node), name)
    return fx.map_arg(argument(node, name, position, default), lambda size: size.meta["value"])


def _nodes(node: fx.Node) -> list[fx.Node]:
    return [arg for arg in node.args if isinstance(arg, fx.Node)]


def _zeros(value: object) -> Any:
    """Fixed ids in the structure of a recorded value."""
    if isinstance(value, torch.Size):
        return torch.zeros(value, dtype=torch.int64)
    if isinstance(value, Tensor):
        return torch.zeros(value.shape, dtype=torch.int64)
    return type(value)(map(_zeros, value)) if isinstance(value, (tuple, list)) else None


def on_axis(ids: Tensor, axis: int, node: fx.Node) -> Tensor:
    """Expand ids along one axis to the shape of a node's output."""
    shape = node.meta["value"]
    return ids.view([-1 if position == axis else 1 for position in range(len(shape))]).expand(shape)


def varying_axes(ids: Tensor) -> list[int]:
    """The axes along which ids differ; none of an empty tensor's."""
    axes = range(ids.ndim) if ids.numel() else ()
    return [axis for axis in axes if not torch.equal(ids.narrow(axis, 0, 1).expand_as(ids), ids)]


def axis_of(ids: Tensor) -> int | None:
    """The only axis along which ids differ, -1 if the last; None if there is none or more than one."""
    varying = varying_axes(ids)
    if len(varying) != 1:
        return None
    return -1 if varying[0] == ids.ndim - 1 else varying[0]
