"""Which neurons may change places: every tensor of a graph gets a twin with the number of each entry's neuron.

One rule per ATen operation. Operations that move entries run on the twins themselves; a layer makes neurons (the rows of its
weight) and reads others (its columns); operations on entries say that neurons are the same. What stays in place is number 0:
pixels, tokens, positions, classes.

The parts of a grouped convolution may change places, and neurons may within their part: as a matrix, its weight is zero outside
of the blocks of its parts, so it reads along axis 1 and makes along axis 0 like any other.
"""

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from .entries import MOVES, Parameters
from .graph import Graph, Weights, call_of, name_of, words
from .ids import FIXED, UNIFORM, Ids, on_axis, once, varying

PIECES = {"split", "split_with_sizes", "chunk", "unbind", "slice", "select", "index"}
#: Of several tensors, entry by entry.
ENTRYWISE = words(
    "add sub mul div rsub pow maximum minimum max min where lerp addcmul addcdiv logaddexp eq ne gt lt ge le masked_fill "
    "bitwise_and bitwise_or logical_and logical_or floor_divide remainder atan2 fmod copysign hypot"
)
REDUCE = words("mean sum amax amin max min var std logsumexp linalg_vector_norm norm all any prod var_mean")
POOLS = words(
    "max_pool avg_pool adaptive_avg_pool adaptive_max_pool upsample_nearest upsample_bilinear upsample_bicubic "
    "upsample_linear upsample_trilinear"
)
FILLED = words(
    "zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty empty zeros ones full arange "
    "rand_like fill zero eye scalar_tensor"
)


class Neurons:
    """The twins of one network.

    Args:
        weights: by name.
        sample: inputs of ONE sample, one for each input of the graph.
        pieces: never exchange neurons that are taken out of a tensor with the others of it.
        whole: grouped convolutions each of whose parts counts as one neuron.
        opaque: let neurons stay in place at operations without a rule; else these are refused.
    """

    def __init__(
        self,
        graph: Graph,
        weights: Weights,
        sample: Sequence[Tensor],
        *,
        pieces: bool = False,
        whole: Collection[fx.Node] = (),
        opaque: bool = False,
    ) -> None:
        self.opaque, self.lost = opaque, False  # whether some cannot be followed
        self.graph, self.ids, self.pieces, self.whole = graph, Ids(), pieces, whole
        with torch.no_grad():
            self.real = graph.run(weights, graph.input_values(sample), graph.nodes)
        self.parameters = Parameters(graph, self.real)
        self.axes: dict[tuple[str, int], Tensor] = {}
        """(parameter, axis) -> numbers along it"""
        self.entries: dict[str, Tensor] = {}
        """Twins of parameters that are used entry by entry"""
        self.mixings: list[tuple[fx.Node, Tensor, Tensor]] = []
        """Attentions: maps times values, (heads, n) numbers of queries and of values"""
        self.apart: list[Tensor] = []
        """(sets, n): neurons of different sets are not exchanged"""
        self.grouped: dict[fx.Node, tuple[Tensor, Tensor]] = {}
        """Grouped convolutions -> (parts, n) numbers of the neurons that each part reads, and makes"""
        self.blocks: dict[str, int] = {}
        """Their weights -> number of parts"""
        self.computed: dict[tuple[str, int], fx.Node] = {}
        """(parameter, axis) of weights that are computed from it -> the operation that reads them"""
        self.twins: dict[fx.Node, Any] = {}
        self._queries: Tensor | None = None  # of maps that have not met their values
        for node in graph.nodes:
            if self.parameters.names(node) is None:
                self.twins[node] = self._follow(node)
        for output in graph.outputs:
            self.ids.unify(self.twin(output), torch.zeros(1, dtype=torch.int64))
        for name, entries in self.entries.items():
            self._settle(name, entries)

    # --- twins ------------------------------------------------------------------------------------------------------------------

    def shape(self, node: fx.Node) -> torch.Size:
        """Of a node's value, or of the first of several, for one sample."""
        value = self.real[node]
        return (value[0] if isinstance(value, (tuple, list)) else value).shape

    def twin(self, node: Any) -> Any:
        """The twin of a node's value."""
        if not isinstance(node, fx.Node):
            return node
        if node in self.graph.names and node not in self.twins:
            name, value = self.graph.names[node], self.real[node]
            if not value.is_floating_point():
                return torch.zeros(value.shape, dtype=torch.int64)
            if name not in self.entries:
                self.entries[name] = self._axis(name, 0) if value.ndim == 1 else self.ids.fresh(*value.shape)
            return self.entries[name]
        if node not in self.twins:
            self.twins[node] = self._follow(node)
        return self.twins[node]

    def line(self, node: fx.Node, axis: int) -> Tensor:
        """(d,) numbers along an axis of a node's value."""
        ids = self.ids.of(self.twin(node)).movedim(axis, -1)
        return ids[(0,) * (ids.ndim - 1)]

    def _axis(self, name: str, axis: int) -> Tensor:
        """(n,) numbers along an axis of a parameter; of a grouped convolution's weight, as a matrix of blocks."""
        if (name, axis) not in self.axes:
            size = self.real[self.graph.weights[name]].shape[axis]
            self.axes[name, axis] = self.ids.fresh(size * (self.blocks.get(name, 1) if axis == 1 else 1))
        return self.axes[name, axis]

    def _fixed(self, value: Any) -> bool:
        if isinstance(value, (tuple, list)):
            return all(map(self._fixed, value))
        return not isinstance(value, Tensor) or bool((self.ids.of(once(value)) <= UNIFORM).all())

    def _zeros(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return torch.zeros((), dtype=torch.int64).expand(value.shape)
        return type(value)(map(self._zeros, value)) if isinstance(value, (tuple, list)) else value

    def _follow(self, node: fx.Node) -> Any:
        value = self.real[node]
        numbers = isinstance(value, Tensor) and not value.is_floating_point() and value.dtype != torch.bool
        if node.op != "call_function" or numbers or not isinstance(value, (Tensor, tuple, list)):
            return self._zeros(value)
        name = name_of(node)
        if (rule := getattr(self, f"on_{name}", None)) is not None:
            return rule(node, *node.args, **node.kwargs)
        if name in FILLED:
            return torch.tensor(FIXED if name in ("arange", "eye") else UNIFORM).expand(self.shape(node))
        if name in MOVES:
            return self._move(node)
        tensors = [
            self.twin(other) for other in node.all_input_nodes if isinstance(self.real[other], (Tensor, tuple, list))
        ]
        if all(map(self._fixed, tensors)):
            uniform = isinstance(value, Tensor) and all(
                isinstance(t, Tensor) and (once(t) == UNIFORM).all() for t in tensors
            )
            return torch.tensor(UNIFORM).expand(self.shape(node)) if uniform else self._zeros(value)
        if name in POOLS:
            line = self.ids.line(self.twin(node.args[0]), 1)
            found = on_axis(line, 1, self.shape(node))
            return found if isinstance(value, Tensor) else (found, *self._zeros(value[1:]))
        if (
            name in REDUCE
            and len(tensors) == 1
            and not (name in ("max", "min") and len(node.args) == 1 and self.shape(node))
        ):
            return self._reduced(node)
        of_shape = isinstance(value, Tensor) and all(t.ndim == 0 or t.shape == value.shape for t in tensors)
        if name in ENTRYWISE or (len(tensors) > 1 and of_shape):
            return self._entrywise(tensors, self.shape(node))
        if len(tensors) == 1 and isinstance(value, Tensor) and value.shape == tensors[0].shape:
            return tensors[0]  # a function of each entry
        if self.opaque:
            self.lost = True
            for tensor in tensors:
                self.ids.unify(tensor, torch.zeros(1, dtype=torch.int64))
            return self._zeros(value)
        raise ValueError(
            f"its neurons cannot be followed through {node.target}{_at(node)}. Use fit='gradient' (HF-Gradient, KF-Gradient), "
            "or give it a rule in retrofit_core/graph/neurons.py."
        )

    # --- rules: movement and entries --------------------------------------------------------------------------------------------

    def _move(self, node: fx.Node) -> Any:
        def twin_or_index(other: fx.Node) -> Any:
            value = self.real[other]
            is_index = isinstance(value, Tensor) and not value.is_floating_point() and other is not node.args[0]
            return value if is_index or not isinstance(value, (Tensor, tuple, list)) else self.twin(other)

        target, args, kwargs = call_of(node, twin_or_index)
        name = name_of(node)
        if name in ("_to_copy", "to", "copied", "lift_fresh_copy"):
            return (args[1] if name == "copied" else args[0]).expand(self.real[node].shape)
        if name.startswith("as_strided"):  # memory as the values have it
            args = [arg.contiguous() if isinstance(arg, Tensor) else arg for arg in args]
        if name == "cat":
            return _side_by_side(args[0], args[1] if len(args) > 1 else 0)
        moved = target(*args, **kwargs)
        if self.pieces and name in PIECES and not self._fixed(moved):
            self.apart += [part.flatten()[None] for part in ([moved] if isinstance(moved, Tensor) else moved)]
        return moved

    def _entrywise(self, tensors: Sequence[Tensor], shape: torch.Size) -> Tensor:
        """Neurons of the same place are the same; a tensor with one number for all neurons (a gate) has none of them."""
        several = sorted((t for t in tensors if t.numel() > 1), key=lambda t: t.shape != shape) or tensors
        found = several[0]
        for other in several[1:]:
            wide = varying(self.ids.of(torch.broadcast_tensors(found, other)[0]))  # broadcast_shapes imports sympy
            rank = max(found.ndim, other.ndim)
            gate = wide and all(axis - rank < -other.ndim or other.shape[axis - rank] == 1 for axis in wide)
            if not gate:
                self.ids.unify(found, other, loose=True)
                known = self.ids.of(found)
                if (once(known) == UNIFORM).any():
                    found = torch.where(known == UNIFORM, other, found)
        return found.expand(shape)

    def _reduced(self, node: fx.Node) -> Any:
        """Reduced positions leave the neurons; reduced neurons leave none, unless each line holds one of several layers."""
        x, value = self.ids.of(self.twin(node.args[0])), self.real[node]
        args: Any = node.args
        shape = self.shape(node)
        at = 2 if "norm" in name_of(node) else 1
        dims: Any = args[at] if len(args) > at else node.kwargs.get("dim")
        dims = range(x.ndim) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
        axes = sorted(axis % x.ndim for axis in dims)
        kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
        least, most = once(x).amin(axes, keepdim=True), once(x).amax(axes, keepdim=True)
        if torch.equal(least, most):
            found = least.expand(kept).reshape(shape)
        else:
            lines = self._lines(args[0], axes)
            if (
                len(lines) > 1 and lines.shape[1] > 1 and len(lines) > lines.shape[1]
            ):  # maxout, sums over a stack of layers
                self.ids.unify(lines, lines[:, :1])
                found = self.ids.of(least.expand(kept)).reshape(shape)
            else:
                self._apart(lines)
                found = torch.tensor(UNIFORM).expand(shape)
        return found if isinstance(value, Tensor) else (found, *self._zeros(value[1:]))

    def _lines(self, node: fx.Node, axes: Sequence[int]) -> Tensor:
        """(lines, n) the different lines of numbers along some axes of a node's value."""
        x = self.ids.of(self.twin(node))
        keep = tuple(slice(0, 1) if x.stride(k) == 0 and k not in axes else slice(None) for k in range(x.ndim))
        lines = x[keep].movedim(list(axes), list(range(-len(axes), 0))).flatten(-len(axes))
        return lines.reshape(-1, lines.shape[-1]).unique(dim=0)

    def _apart(self, lines: Tensor) -> None:
        """Note (sets, n) neurons that are used together."""
        if len(lines) > 1:
            self.apart.append(lines)

    def on_softmax(self, node: fx.Node, x: fx.Node, dim: int, *_: Any, **__: Any) -> Tensor:
        ids = self.ids.of(self.twin(x))
        if dim % ids.ndim in varying(ids):
            self._apart(self._lines(x, [dim % ids.ndim]))
        return ids

    on_log_softmax = on_softmax

    def on_glu(self, node: fx.Node, x: fx.Node, dim: int = -1) -> Tensor:
        left, right = self.twin(x).chunk(2, dim)
        self.ids.unify(left, right)
        return left

    def on_pad(self, node: fx.Node, x: fx.Node, widths: list[int], *_: Any, **__: Any) -> Tensor:
        ids = self.ids.of(self.twin(x))
        for number, (before, after) in enumerate(zip(widths[::2], widths[1::2], strict=True)):
            axis = ids.ndim - 1 - number
            index, varies = torch.arange(-before, ids.shape[axis] + after), axis in varying(ids)
            if not varies:
                ids = ids.narrow(axis, 0, 1).expand([len(index) if k == axis else n for k, n in enumerate(ids.shape)])
                continue
            inside = ((index >= 0) & (index < ids.shape[axis])).view(-1, *[1] * number)
            ids = torch.where(inside, ids.index_select(axis, index.clamp(0, ids.shape[axis] - 1)), FIXED)
        return ids

    on_constant_pad_nd = on_reflection_pad = on_replication_pad = on_pad

    def on_im2col(self, node: fx.Node, x: fx.Node, *_: Any, **__: Any) -> Tensor:
        line, shape = self.ids.line(self.twin(x), 1), self.shape(node)
        return on_axis(line.repeat_interleave(shape[1] // len(line)), 1, shape)

    def on_col2im(self, node: fx.Node, x: fx.Node, *_: Any, **__: Any) -> Tensor:
        shape = self.shape(node)
        return on_axis(self.ids.line(self.twin(x).unflatten(1, (shape[1], -1)), 1), 1, shape)

    # --- rules: layers ----------------------------------------------------------------------------------------------------------

    def _along(self, node: fx.Node, axis: int) -> Tensor:
        """(n,) numbers along an axis of a weight, which may be moved entries of a parameter."""
        if node in self.graph.names:
            return self._axis(self.graph.names[node], axis)
        entries = self.parameters.entries(node)
        if entries is None:
            return self._computed(node, axis)
        if len(entries.names) != 1:
            raise ValueError(f"a weight is computed from others{_at(node)}, so no closed form writes it.")
        (name,) = entries.names
        value = self.real[self.graph.weights[name]]
        places = entries.places({name: value}) - self.parameters.start[name]
        lines = places.movedim(axis, -1).reshape(-1, places.shape[axis])
        index = torch.stack(torch.unravel_index(lines, value.shape))  # (axes, lines, n)
        own = [k for k in range(value.ndim) if len(lines[0]) > 1 and (index[k] != index[k][:, :1]).any()]
        if len(own) > 1 or (own and (index[own[0]] != index[own[0]][:1]).any()):
            raise ValueError(f"a weight's neurons lie along several axes of its parameter{_at(node)}.")
        if not own:  # one entry along this axis
            own = [axis] if value.ndim == places.ndim else [0]
        return self._axis(name, own[0])[index[own[0]][0]]

    def _computed(self, node: fx.Node, axis: int) -> Tensor:
        """The same of a weight that is computed from one parameter of its shape, line by line, and from numbers of each line."""
        shape, graph = self.real[node].shape, self.graph
        sizes = {name: self.real[place].shape for name, place in graph.weights.items()}
        names = [graph.names[other] for other in graph.between([], [node]) if other in graph.names]
        alike = [name for name in names if sizes[name] == shape]
        if node in graph.of_data or len(alike) != 1:
            raise ValueError(f"a weight is computed from others{_at(node)}, so no closed form writes it.")
        line = self._axis(alike[0], axis)
        self.entries.pop(alike[0], None)
        self.computed[alike[0], axis] = next(user for user in graph.users[node])
        for name in names:
            if len(sizes[name]) == len(shape) and shape[axis] == sizes[name][axis] > 1:
                self.entries.pop(name, None)
                self.ids.unify(self._axis(name, axis), line)
        return line

    def _with_bias(self, bias: Any, neurons: Tensor) -> Tensor:
        """A layer's neurons, to which the bias belongs too."""
        if isinstance(bias, fx.Node):
            name = self.graph.names.get(bias, "")
            if self.real[bias].ndim == 1 and self._is_new(name, 0, neurons):
                self.axes[name, 0] = neurons
            else:
                self.ids.unify(self.twin(bias), neurons, loose=True)
        return self.ids.of(neurons)

    def _is_new(self, name: str, axis: int, neurons: Tensor) -> bool:
        """Whether an axis of a parameter has no numbers yet, so that it can take those of neurons."""
        new = name in self.graph.weights and name not in self.entries and (name, axis) not in self.axes
        return new and not bool((self.ids.of(neurons) == UNIFORM).any())

    def _reads(self, weight: fx.Node, axis: int, neurons: Tensor) -> None:
        """Say that a weight reads neurons along an axis."""
        name = self.graph.names.get(weight, "")
        if self._is_new(name, axis, neurons):
            self.axes[name, axis] = neurons
        else:
            self.ids.unify(self._along(weight, axis), neurons)

    def on_linear(self, node: fx.Node, x: fx.Node, weight: fx.Node, bias: Any = None) -> Tensor:
        return self._times(node, self.twin(x), weight, 1, 0, bias)

    def _times(self, node: fx.Node, x: Tensor, weight: fx.Node, reads: int, makes: int, bias: Any = None) -> Tensor:
        """New neurons along the last axis; but a layer over positions keeps those along the others."""
        vary = varying(self.ids.of(x))
        if vary and x.ndim - 1 not in vary:
            return x[..., :1].expand(self.shape(node))
        self._reads(weight, reads, self.ids.line(x, -1))
        return self._with_bias(bias, self._along(weight, makes)).expand(self.shape(node))

    def on_conv(
        self, node: fx.Node, x: fx.Node, weight: fx.Node, bias: Any = None, *more: Any, turned: bool = False, **_: Any
    ) -> Tensor:
        groups = more[3] if len(more) > 3 else 1
        line, shape = self.ids.line(self.twin(x), 1), self.shape(node)
        reads, makes = (0, 1) if turned else (1, 0)
        parts = line.view(groups, -1)
        if groups == 1 or self._has_parts(node, weight, parts, shape[1]):
            self._reads(weight, reads, line)
            made = self._with_bias(bias, self._along(weight, makes))
            if groups > 1:
                self.grouped[node] = parts, made.view(groups, -1)
            return on_axis(made, 1, shape)
        self.ids.unify(parts, parts[:, :1])
        made = self.ids.of(parts[:, 0]).repeat_interleave(shape[1] // groups)
        if self.parameters.names(weight) is not None or not self._fixed(self.twin(weight)):
            self.ids.unify(self._along(weight, 0), line if turned else made)
        return on_axis(self._with_bias(bias, torch.where(made == UNIFORM, FIXED, made)), 1, shape)

    def _has_parts(self, node: fx.Node, weight: fx.Node, parts: Tensor, made: int) -> bool:
        """Whether a grouped convolution may make neurons of its own in its parts; a depthwise one makes those that it reads."""
        name, known = self.graph.names.get(weight), self.ids.of(parts)
        if (
            node in self.whole
            or name is None
            or (parts.shape[1] == 1 and made == len(parts))
            or (known <= UNIFORM).any()
        ):
            return False
        if (name, 0) in self.axes and self.blocks.get(name) != len(parts):
            return False
        self.blocks[name] = len(parts)
        return True

    def on_conv_transpose(self, node: fx.Node, *args: Any) -> Tensor:
        return self.on_conv(node, *args, turned=True)

    def on_embedding(self, node: fx.Node, weight: fx.Node, *_: Any, **__: Any) -> Tensor:
        return self._along(weight, 1).expand(self.shape(node))

    def _channel_norm(self, node: fx.Node, x: fx.Node, *vectors: Any) -> Tensor:
        ids = self.twin(x)
        if varying(self.ids.of(ids)) in ([], [1]):
            line = self.ids.line(ids, 1)
            line = torch.where(line == UNIFORM, FIXED, line)
            for vector in vectors:
                self._with_bias(vector, line)
            ids = on_axis(line, 1, ids.shape)
        return ids

    def on_batch_norm(self, node: fx.Node, x: fx.Node, *args: Any) -> Any:
        return self._channel_norm(node, x, *args[:4])

    on_instance_norm = on_batch_norm

    def on_group_norm(
        self, node: fx.Node, x: fx.Node, groups: int, weight: Any = None, bias: Any = None, *_: Any, **__: Any
    ) -> Tensor:
        self._apart(self.ids.line(self.twin(x), 1).view(groups, -1))
        return self._channel_norm(node, x, weight, bias)

    def on_layer_norm(
        self, node: fx.Node, x: fx.Node, shape: list[int], weight: Any = None, bias: Any = None, *_: Any, **__: Any
    ) -> Tensor:
        ids = self.twin(x)
        if len(shape) == 1 and not (weight is None and ids.ndim - 1 not in varying(self.ids.of(ids))):
            lines = self._lines(x, [ids.ndim - 1])
            if len(lines) > 1 and weight is None:
                self._apart(lines)
                return ids
            self._with_bias(bias, self._with_bias(weight, self.ids.line(ids, -1)))
        for vector in (weight, bias):
            if isinstance(vector, fx.Node) and len(shape) > 1:
                self.ids.unify(ids, self.twin(vector))
        return ids

    def on_rms_norm(
        self, node: fx.Node, x: fx.Node, shape: list[int], weight: Any = None, *_: Any, **__: Any
    ) -> Tensor:
        return self.on_layer_norm(node, x, shape, weight)

    def on_prelu(self, node: fx.Node, x: fx.Node, weight: fx.Node) -> Tensor:
        if self.real[weight].numel() > 1:
            self._with_bias(weight, self.ids.line(self.twin(x), 1))
        return self.twin(x)

    # --- rules: products --------------------------------------------------------------------------------------------------------

    def _mixed(self, ids: Tensor) -> Tensor:
        """(..., t, n) -> (..., 1, n): the same at all positions; heads stay apart."""
        self.ids.unify(ids, ids[..., :1, :])
        self._apart(self.ids.of(ids[..., 0, :]).reshape(-1, ids.shape[-1]))
        return ids[..., :1, :]

    def _multiplied(self, queries: Tensor, keys: Tensor) -> None:
        """Those with the same number are multiplied."""
        self.ids.unify(queries, keys)

    def _is_weight(self, node: fx.Node) -> bool:
        value = self.real[node]
        return self.parameters.names(node) is not None and value.ndim == 2 and value.is_floating_point()

    def on_matmul(self, node: fx.Node, left: fx.Node, right: fx.Node, bias: Any = None) -> Tensor:
        """x @ W; queries times keys; maps times values."""
        shape = self.shape(node)
        if self._is_weight(right):
            return self._times(node, self.twin(left), right, 0, 1, bias)
        one, other = self.twin(left), self.twin(right)
        if self._is_weight(left):  # W @ x mixes positions
            self.entries.pop(self.graph.names.get(left, ""), None)
            one = self._zeros(one)
        if self._fixed(one):
            if self._queries is not None:
                self.mixings.append((node, self._queries, other[..., 0, :]))
                self._queries = None
            return self._mixed(other).expand(shape)
        if self._fixed(other):
            return self._mixed(one.mT).mT.expand(shape)
        self._multiplied(self._mixed(one), self._mixed(other.mT))
        self._queries = one[..., 0, :]
        return self._zeros(self.real[node])

    on_mm = on_bmm = on_matmul

    def on_addmm(self, node: fx.Node, bias: fx.Node, left: fx.Node, right: fx.Node, **_: Any) -> Tensor:
        found = self.on_matmul(node, left, right)
        return self._entrywise([found, self.twin(bias)], self.shape(node))

    on_baddbmm = on_addmm

    def on_scaled_dot_product_attention(
        self, node: fx.Node, q: fx.Node, k: fx.Node, v: fx.Node, mask: Any = None, *_: Any, **more: Any
    ) -> Tensor:
        query, key, value = (self._mixed(self.twin(part)) for part in (q, k, v))
        if more.get("enable_gqa"):
            key, value = (part.repeat_interleave(query.shape[-3] // part.shape[-3], -3) for part in (key, value))
        self._multiplied(query, key)
        self.mixings.append((node, query[..., 0, :], value[..., 0, :]))
        if isinstance(mask, fx.Node):
            self.ids.unify(self.twin(mask), torch.zeros(1, dtype=torch.int64))
        return value.expand(self.shape(node))

    def on_einsum(self, node: fx.Node, equation: str, operands: list[fx.Node]) -> Tensor:
        """Two tensors: neurons that are multiplied and summed are the same; those of one tensor stay."""
        inputs, output = equation.replace(" ", "").split("->")
        names = inputs.split(",")
        summed = [letter for letter in dict.fromkeys("".join(names)) if letter not in output]
        letters = [*output, *summed]
        twins = []
        for name, operand in zip(names, operands, strict=True):
            present = [letter for letter in letters if letter in name]
            ids = self.twin(operand).permute([name.index(letter) for letter in present])
            twins.append(ids[tuple(slice(None) if letter in present else None for letter in letters)])
        alive = [ids for ids in twins if not self._fixed(ids)]
        if len(alive) > 1:
            self.ids.unify(*twins)
            self._apart(self.ids.of(twins[0]).flatten(len(output)).flatten(0, -2).unique(dim=0))
            return self._zeros(self.real[node])
        for axis in range(len(output), len(letters)):
            self.ids.unify(alive[0], alive[0].narrow(axis, 0, 1))
        return alive[0][(..., *[0] * len(summed))].expand(self.shape(node))

    # --- parameters that are used entry by entry --------------------------------------------------------------------------------

    def _settle(self, name: str, entries: Tensor) -> None:
        """The neurons of such a parameter lie along one axis; entries that nothing reads follow the rest."""
        ids = self.ids.of(entries)
        read = (ids != entries) | (ids.flatten().bincount(minlength=len(self.ids.root))[ids] > 1)
        large = len(self.ids.root)
        for axis in range(ids.ndim):
            lines, used = (t.movedim(axis, 0).reshape(ids.shape[axis], -1) for t in (ids, read))
            least, most = torch.where(used, lines, large).amin(1), torch.where(used, lines, -1).amax(1)
            seen = used.any(1)
            if ((least == most) | ~seen).all() and seen.any() and not (least[seen] == FIXED).all():
                self.ids.unify(self._axis(name, axis), torch.where(seen, least, self._axis(name, axis)))
                return
        if read.any():
            self.ids.unify(ids, torch.zeros(1, dtype=torch.int64))


def _side_by_side(tensors: Sequence[Tensor], axis: int) -> Tensor:
    """The twin of a concatenation, a view where all are."""
    tensors = [tensor for tensor in tensors if tensor.numel() or tensor.ndim > 1]
    shape = list(tensors[0].shape)
    axis %= len(shape)
    shape[axis] = sum(tensor.shape[axis] for tensor in tensors)
    repeated = [k for k in range(len(shape)) if k != axis and all(tensor.stride(k) == 0 for tensor in tensors)]
    cut = tuple(slice(0, 1) if k in repeated else slice(None) for k in range(len(shape)))
    return torch.cat([tensor[cut] for tensor in tensors], axis).expand(shape)


def _at(node: fx.Node) -> str:
    return f" (in {node.meta['module']!r})" if node.meta.get("module") else ""
