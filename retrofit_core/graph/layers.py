"""What can be fitted in closed form: affine operations, in order, with the sum or BatchNorm behind them.

Every affine operation is rewritten as rows @ V: `unfold` lays its input out as (N, G, p) for its G parts, and `write` puts V back
into the entries of the parameters of which its weight consists.

Legend: N rows, p inputs of a neuron, d neurons.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn import functional as F

from .entries import Entries
from .graph import Graph, Values, full_name, name_of, words
from .ids import on_axis, varying
from .neurons import Neurons

#: Products: place of the weight among the arguments, its axis that reads.
LINEAR = {"linear": (1, 1), "matmul": (1, 0), "mm": (1, 0), "addmm": (2, 0)}
PRODUCTS = {"matmul", "mm"}
#: Operations that put all entries into another order.
LAYOUTS = words("reshape transpose permute t mT numpy_T unsqueeze squeeze flatten unflatten movedim swapaxes roll")
ACTIVATIONS = words("relu gelu silu tanh sigmoid elu selu celu leaky_relu hardtanh hardswish hardsigmoid mish softplus")

#: Parameter -> (operation, what it reads) of each operation that reads it.
Readers = dict[str, list[tuple[fx.Node, fx.Node]]]


@dataclass(eq=False)
class Operation:
    """One affine operation whose weight may be written."""

    node: fx.Node
    x: fx.Node
    """Its input"""
    weight: Entries
    """(d, p of a part)"""
    bias: Entries | None
    """(d,)"""
    axis: int
    """Of the outputs"""
    groups: int
    """Its parts, each of which reads its own inputs"""
    unfold: Callable[[Tensor], Tensor]
    """(B, ...) -> a view with the entries of (N, G, p)"""
    channels: int = 0
    """Input channels of a part, of a convolution"""
    by_lags: bool = False
    """Whether its products need not be unfolded, see `fusion/moments/lags.py`"""
    norm: fx.Node | None = None
    """The BatchNorm behind it"""
    vectors: tuple[str | None, ...] = ()
    """Scale, shift, mean and variance of this BatchNorm, or of one that is an operation of its own"""
    product: fx.Node | None = None
    """What reads the weight, if its node adds the bias"""
    epsilon: float = 0.0
    """That this BatchNorm adds to its variance"""
    scale: fx.Node | None = None
    """Its product with a number for each output (LayerScale)"""
    scales: Entries | None = None
    """(d,) these numbers"""
    computed: bool = False
    """Whether its weight is computed from these entries"""

    @property
    def value(self) -> fx.Node:
        """Its output behind norm and scale."""
        return self.scale or self.norm or self.node

    @property
    def names(self) -> list[str]:
        """Parameters of which its weight, bias and scale consist."""
        return [name for part in (self.weight, self.bias, self.scales) if part is not None for name in part.names]

    @property
    def width(self) -> int:
        """d"""
        return self.weight.shape[0]


@dataclass(eq=False)
class Layer:
    """Operations whose outputs are added: z = their sum + stream."""

    operations: list[Operation]
    end: fx.Node
    """z"""
    stream: list[fx.Node] = field(default_factory=list)
    """What their outputs are added to"""
    table: bool = False
    """An embedding, or a weight that several operations read or that is computed: carried like other parameters, not fitted"""
    mixes: bool = False
    """Its outputs are positions; its neurons lie along another axis"""
    chain: list[fx.Node] = field(default_factory=list)
    """Layouts, a scale and functions between its only operation and the sum"""
    axis: int = 0
    """Of the neurons at the end"""

    @property
    def functions(self) -> list[fx.Node]:
        """What is done to each output before the sum."""
        return [node for node in self.chain if name_of(node) in ACTIVATIONS]

    @property
    def value(self) -> fx.Node:
        """The output of its first operation."""
        return self.operations[0].value

    @property
    def reads(self) -> list[fx.Node]:
        """What a fit reads of the network: its operations' inputs and the stream; nothing for a table."""
        return [] if self.table else list(dict.fromkeys([*(op.x for op in self.operations), *self.stream]))

    @property
    def place(self) -> fx.Node:
        """Where its neurons are compared: at its end, or before if it mixes positions."""
        return self.value if self.mixes else self.end

    @property
    def has_bias(self) -> bool:
        """Whether there is a place for a bias; the first operation that has one holds it."""
        return any(op.bias is not None or op.norm is not None for op in self.operations)

    @property
    def width(self) -> int:
        """d"""
        return self.operations[0].width

    @property
    def inputs(self) -> int:
        """p, with the column of ones for a bias."""
        return sum(op.weight.shape[1] for op in self.operations) + self.has_bias

    @property
    def parts(self) -> int:
        """Parts of a grouped convolution; 1: none."""
        return self.operations[0].groups

    @property
    def channelwise(self) -> bool:
        """Whether it is depthwise, so that its neurons are those that it reads."""
        return self.parts == self.width and self.operations[0].channels == 1

    @property
    def kind(self) -> str:
        """What its operations are, in tables: torch's class of each."""
        names = [full_name(op.node) for op in self.operations]
        return " + ".join(
            "Linear" if name in LINEAR else "".join(map(str.capitalize, name.split("_"))) for name in names
        )

    @property
    def name(self) -> str:
        """The module, or the parameter, that holds its first weight."""
        name = self.operations[0].weight.names[0]
        return name.removesuffix(".weight")


def layers_of(graph: Graph, neurons: Neurons) -> list[Layer]:
    """The layers of a network, in the order in which they can be fitted."""
    reads = _readers(graph, neurons)
    operations: dict[fx.Node, Operation] = {}  # by the node of the value behind norm and scale
    tables = {op.node: op for op in _computed(graph, neurons)}
    for node in graph.nodes:
        behind = node in (op.norm for op in operations.values())
        if behind or (op := _operation(graph, neurons, node)) is None:
            continue
        if name_of(node) == "embedding" or not _is_free(neurons, op, reads):
            tables[node] = op
        else:
            _add_norm(graph, neurons, op)
            if (scales := _scales(graph, neurons, op, op.value, reads)) is not None:
                op.scale, op.scales = graph.users[op.value][0], scales
            operations[op.value] = op
    used, layers = set[fx.Node](), _tables(graph, neurons, tables)
    for op in operations.values():
        if op.node not in used:
            layer = _layer(graph, neurons, op, operations, reads)
            used |= {op.node for op in layer.operations}
            layers.append(layer)
    return sorted(layers, key=lambda layer: graph.place[layer.end])


def _computed(graph: Graph, neurons: Neurons) -> list[Operation]:
    """The operations whose weight is computed from a parameter, which stands in its place."""
    found = []
    for node, name in {node: name for (name, _), node in neurons.computed.items()}.items():
        axis, parameter = 1 if name_of(node).startswith("conv") else -1, neurons.parameters.entries(graph.weights[name])
        width = neurons.shape(node)[axis]
        if parameter is not None:
            weight = parameter.then(lambda w, width=width: w.reshape(width, -1))
            found.append(Operation(node, node.all_input_nodes[0], weight, None, axis, 1, _as_one_part, computed=True))
    return found


def _readers(graph: Graph, neurons: Neurons) -> Readers:
    """Parameter -> (operation, what it reads) of each operation that reads entries of it and does not only move them."""
    reads: Readers = {}
    for node in graph.nodes:
        if neurons.parameters.names(node) is None:
            for other in node.all_input_nodes:
                for name in neurons.parameters.names(other) or ():
                    reads.setdefault(name, []).append((node, other))
    return reads


def _is_free(neurons: Neurons, op: Operation, reads: Readers) -> bool:
    """Whether no other operation reads any entry of its weight."""
    own = op.product or op.node
    others = {other for name in op.weight.names for by, other in reads[name] if by is not own}
    if not others:
        return True
    weights = {name: neurons.real[neurons.graph.weights[name]] for name in neurons.graph.weights}
    places = op.weight.places(weights)
    alike = (neurons.parameters.entries(other) for other in others)
    return not any(torch.isin(places, entries.places(weights)).any() for entries in alike if entries is not None)


def _add_norm(graph: Graph, neurons: Neurons, op: Operation) -> None:
    """Note the BatchNorm behind an operation, whose numbers no other reads."""
    users = graph.users[op.node]
    if len(users) == 1 and name_of(after := users[0]) == "batch_norm" and after.args[0] is op.node:
        args: Any = after.args
        vectors = tuple(graph.names.get(vector) for vector in args[1:5])
        alone = all(graph.users[graph.weights[name]] == [after] for name in vectors if name)
        if op.axis % len(neurons.shape(op.node)) == 1 and alone and vectors[2] and vectors[3]:
            op.norm, op.vectors, op.epsilon = after, vectors, args[7]


def _scales(graph: Graph, neurons: Neurons, op: Operation, value: fx.Node, reads: Readers) -> Entries | None:
    """(d,) numbers for each output, or one for all, with which the only operation behind a value multiplies it; None if it does
    not."""
    users = graph.users[value]
    if len(users) != 1 or name_of(after := users[0]) != "mul" or len(after.all_input_nodes) != 2:
        return None
    scales = neurons.parameters.entries(next(other for other in after.all_input_nodes if other is not value))
    if scales is None or not graph.trained.issuperset(scales.names) or scales.shape.numel() not in (1, op.width):
        return None
    alone = all(by is after for name in scales.names for by, _ in reads[name])
    return scales.then(lambda numbers: numbers.flatten().expand(op.width)) if alone else None


def _tables(graph: Graph, neurons: Neurons, tables: dict[fx.Node, Operation]) -> list[Layer]:
    """A layer for each table, behind its sum with others; two tables that are added first are one layer."""
    layers = dict[fx.Node, Layer]()
    for node, op in tables.items():
        users = graph.users[node]
        added = len(users) == 1 and is_sum(neurons, users[0])
        end = users[0] if added and all(term in tables or term in layers for term in users[0].args) else node
        layers.setdefault(end, Layer([], end, table=True, axis=op.axis)).operations.append(op)
    return list(layers.values())


def _layer(
    graph: Graph, neurons: Neurons, op: Operation, operations: dict[fx.Node, Operation], reads: Readers
) -> Layer:
    """The layer of an operation: with others to which it is added, or behind layouts and functions, or alone."""
    value, users = op.value, graph.users
    mixes, (chain, scales) = _mixes(neurons, op), _chain(graph, neurons, op, reads)
    if chain and len(along := varying(_landed(neurons, op, value, chain))) == 1:
        end = _end_of_sums(chain[-1], users, neurons)
        stream = [other for other in _terms(end, users, neurons) if other is not chain[-1]]
        op.scales = op.scales or scales
        activated = any(name_of(node) in ACTIVATIONS for node in chain)
        if activated and (mixes or any(_layer_behind(other) in operations for other in stream)):
            return Layer([op], value, mixes=mixes, axis=op.axis)  # compared by its own outputs, as the other
        return Layer([op], end, stream, mixes=mixes, chain=chain, axis=along[0])
    if mixes:
        return Layer([op], value, mixes=True, axis=op.axis)
    end = _end_of_sums(value, users, neurons)
    terms = [value] if end is value else _terms(end, users, neurons)
    added = [operations[term] for term in terms if term in operations and len(users[term]) == 1]
    added = [
        other for other in added if other.groups == op.groups and other.axis == op.axis and not _mixes(neurons, other)
    ]
    if end is value or op not in added:
        return Layer([op], value, axis=op.axis)
    stream = [term for term in terms if term not in operations or operations[term] not in added]
    return Layer(added, end, stream, axis=op.axis)


def _end_of_sums(node: fx.Node, users: dict[fx.Node, list[fx.Node]], neurons: Neurons) -> fx.Node:
    """The last of the sums behind a node that nothing else reads in between."""
    while len(users[node]) == 1 and is_sum(neurons, users[node][0]):
        node = users[node][0]
    return node


def _chain(graph: Graph, neurons: Neurons, op: Operation, reads: Readers) -> tuple[list[fx.Node], Entries | None]:
    """What puts a layer's outputs into another order, or is done to each, before they are added to others, and the numbers with
    which it multiplies them; empty if they are not added."""
    chain, node, scales = list[fx.Node](), op.value, None
    while len(graph.users[node]) == 1 and not is_sum(neurons, after := graph.users[node][0]):
        layout = name_of(after) in LAYOUTS and neurons.real[after].numel() == neurons.real[node].numel()
        if not layout and not (name_of(after) in ACTIVATIONS and after.all_input_nodes == [node]):
            found = _scales(graph, neurons, op, node, reads) if op.scales is None and scales is None else None
            if found is None or any(name_of(other) in ACTIVATIONS for other in chain):
                return [], None
            scales = found
        elif scales is not None and not layout:
            return [], None
        node = after
        chain.append(node)
    return (chain, scales) if len(graph.users[node]) == 1 else ([], None)


def _landed(neurons: Neurons, op: Operation, node: fx.Node, chain: Sequence[fx.Node]) -> Tensor:
    """The numbers of an operation's outputs, at the end of a chain."""
    numbers = on_axis(torch.arange(op.width), op.axis, neurons.shape(node))
    for after in chain:
        if name_of(after) in LAYOUTS:
            numbers = neurons.graph.compute(after, {}, {**neurons.real, node: numbers})
        node = after
    return numbers


def _layer_behind(node: fx.Node) -> fx.Node:
    while name_of(node) in ACTIVATIONS:
        node = node.all_input_nodes[0]
    return node


def is_sum(neurons: Neurons, node: fx.Node) -> bool:
    """Whether it adds two tensors of one shape, none of them a parameter."""
    args: Any = node.args
    if name_of(node) != "add" or node.kwargs or len(args) != 2 or args[0] is args[1]:
        return False
    if not all(isinstance(a, fx.Node) and neurons.parameters.names(a) is None for a in args):
        return False
    return len({a.meta.get("shape") for a in args}) == 1


def _terms(end: fx.Node, users: dict[fx.Node, list[fx.Node]], neurons: Neurons) -> list[fx.Node]:
    """The terms of a sum of sums that nothing else reads."""
    args: Any = end.args
    terms = []
    for term in args[:2]:
        terms += _terms(term, users, neurons) if is_sum(neurons, term) and len(users[term]) == 1 else [term]
    return terms


def _mixes(neurons: Neurons, op: Operation) -> bool:
    """Whether its outputs are no neurons, but other axes hold some."""
    ids = neurons.ids.of(neurons.twins[op.node])
    along = varying(ids)
    return bool(along) and op.axis % ids.ndim not in along


# --- operations as rows @ V -------------------------------------------------------------------------------------------------


def _operation(graph: Graph, neurons: Neurons, node: fx.Node) -> Operation | None:
    """A product of rows with entries of parameters; None for others."""
    name, entries = name_of(node) if node.op == "call_function" else "", neurons.parameters.entries
    args: Any = node.args
    groups, axis, channels, by_lags, product = 1, -1, 0, False, None
    if name in LINEAR and not (name == "addmm" and node.kwargs):
        if (
            name in PRODUCTS
            and (users := graph.users[node])
            and len(users) == 1
            and _added(neurons, users[0]) is not None
        ):
            return None  # it is an operation with its bias
        at, reads = LINEAR[name]
        weight, x = entries(args[at]), args[at - 1]
        bias = args[0] if name == "addmm" else args[2] if name == "linear" and len(args) > 2 else None
        if weight is None or len(weight.shape) != 2 or (name != "linear" and entries(x) is not None):
            return None
        matrix, unfold = weight if reads else weight.then(torch.t), _as_one_part
    elif (product := _added(neurons, node)) is not None and graph.users[product] == [node]:
        x, right = product.all_input_nodes
        weight, bias = entries(right), next(other for other in args if other is not product)
        assert weight is not None  # as `_added` asks
        matrix, unfold = weight.then(torch.t), _as_one_part
    elif name == "embedding":
        weight, x, bias, unfold = entries(args[0]), args[1], None, _as_one_part
        if weight is None:
            return None
        matrix = weight.then(torch.t)
    elif name in ("conv", "conv_transpose") and (weight := entries(args[1])) is not None:
        x, bias, axis = args[0], args[2] if len(args) > 2 else None, 1
        matrix, unfold, groups = _convolution(node, name == "conv_transpose", weight)
        channels = weight.shape[1] if name == "conv" else weight.shape[0] // groups
        by_lags = name == "conv" and groups == 1 and weight.shape[2:] == (3, 3)
        by_lags = by_lags and neurons.shape(node)[2:] == neurons.shape(x)[2:]
        by_lags = by_lags and {*(args[5] if len(args) > 5 else [1])} == {1}
    elif name == "batch_norm" and len(neurons.shape(node)) > 2 and all(vector in graph.names for vector in args[1:5]):
        return _norm(graph, neurons, node)
    else:
        return None
    if bias is not None:
        bias = entries(bias)  # a bias that is computed stays as it is carried
        if bias is None or len(bias.shape) != 1:
            return None
    if not graph.trained.issuperset(weight.names):
        return None
    return Operation(node, x, matrix, bias, axis, groups, unfold, channels, by_lags, product=product)


def _added(neurons: Neurons, node: fx.Node) -> fx.Node | None:
    """The product `x @ weight` to which a node adds a bias; None if it is another node."""
    entries = neurons.parameters.entries
    if name_of(node) != "add" or len(node.args) != 2 or node.kwargs:
        return None
    for product, bias in (node.args, node.args[::-1]):
        if not (isinstance(product, fx.Node) and name_of(product) in PRODUCTS and entries(product.args[0]) is None):
            continue
        weight, vector = entries(product.args[1]), entries(bias)
        if weight is not None and vector is not None and len(weight.shape) == 2 and vector.shape == weight.shape[1:]:
            return product
    return None


def _norm(graph: Graph, neurons: Neurons, node: fx.Node) -> Operation | None:
    """A BatchNorm of maps behind no layer, which is a depthwise convolution of one pixel."""
    args: Any = node.args
    vectors = tuple(graph.names[vector] for vector in args[1:5])
    if not all(graph.users[graph.weights[name]] == [node] for name in vectors):
        return None
    scale, shift = (neurons.parameters.entries(vector) for vector in args[1:3])
    assert scale is not None  # it is a parameter
    weight, groups = scale.then(lambda w: w[:, None]), len(neurons.real[args[1]])
    unfold = lambda x: x.movedim(1, -1).unsqueeze(-1)  # noqa: E731
    return Operation(node, args[0], weight, shift, 1, groups, unfold, 1, vectors=vectors, epsilon=args[7])


def _as_one_part(x: Tensor) -> Tensor:
    return x.unsqueeze(-2)


def _convolution(node: fx.Node, turned: bool, weight: Entries) -> tuple[Entries, Callable[[Tensor], Tensor], int]:
    """(d, p) weights, unfolding, and parts of a convolution of any dimension, transposed or not."""
    dims, size = len(weight.shape) - 2, weight.shape[2:]
    full: list[Any] = [*node.args[3:], *[None] * 5]

    def listed(value: Any, default: int) -> list[int]:
        values = [default] if value is None else [value] if isinstance(value, int) else list(value)
        return values * (dims if len(values) == 1 else 1)

    padding: Any = full[1] if isinstance(full[1], str) else listed(full[1], 0)
    stride, more = listed(full[0], 1), listed(full[2], 0) if turned else [0] * dims
    groups, dilation = full[3] or 1, listed(full[4] if turned else full[2], 1)
    if padding == "valid":
        padding = [0] * dims
    spans = [d * (k - 1) for d, k in zip(dilation, size, strict=True)]
    sides = [(s // 2, s - s // 2) for s in spans] if padding == "same" else [(p, p) for p in padding]
    if turned:  # an ordinary convolution of the input with zeros between its entries, kernels turned round
        sides = [(s - p, s - p + m) for s, (p, _), m in zip(spans, sides, more, strict=True)]
        weight = weight.then(
            lambda w: w.flip(list(range(2, 2 + dims))).unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)
        )

    def unfold(x: Tensor) -> Tensor:
        if turned:
            for axis, step in enumerate(stride, 2):
                wide = x.new_zeros(*x.shape[:axis], (x.shape[axis] - 1) * step + 1, *x.shape[axis + 1 :])
                wide[(slice(None),) * axis + (slice(None, None, step),)] = x
                x = wide
        x = F.pad(x, [side for pair in reversed(sides) for side in pair])
        for axis, (span, step, d) in enumerate(zip(spans, [1] * dims if turned else stride, dilation, strict=True), 2):
            x = x.unfold(axis, span + 1, step)[..., ::d]
        return x.movedim(1, 1 + dims).unflatten(1 + dims, (groups, -1))  # (B, positions ..., G, channels, kernel ...)

    return weight.then(lambda w: w.flatten(1)), unfold, groups


def rows_of(layer: Layer, tensors: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    """(N, G, p) inputs of the operations side by side, with a 1 if the layer has a bias, in one pass over memory."""
    views = [op.unfold(x) for op, x in zip(layer.operations, tensors, strict=True)]
    sizes = [op.weight.shape[1] for op in layer.operations]
    x = views[0].new_empty(views[0].numel() // (layer.parts * sizes[0]), layer.parts, layer.inputs, dtype=dtype)
    for part, view in zip(x[..., : sum(sizes)].split(sizes, -1), views, strict=True):
        part.view(view.shape).copy_(view)
    x[..., sum(sizes) :] = 1
    return x


def moved_back(layer: Layer, graph: Graph, inputs: Values, made: Tensor | None, value: Tensor) -> Tensor:
    """The layer's value, in the layout of its end, in that of its operation.

    Args:
        inputs: of the network, for sizes.
        made: a tensor in that layout.
    """
    if not layer.chain or made is None:
        return value
    places, node = torch.arange(made.numel(), device=made.device).view(made.shape), layer.value
    for after in layer.chain:
        if name_of(after) in LAYOUTS:
            places = graph.run({}, {**inputs, node: places}, [after])[after]
        node = after
    return value.new_empty(made.numel()).index_copy_(0, places.flatten(), value.flatten()).view(made.shape)


def weight_of(layer: Layer, weights: dict[str, Tensor]) -> Tensor:
    """(p, d) float64 V, such that rows @ V are the outputs; the last row is the bias. BatchNorms and scales are multiplied in."""
    columns, bias = [], torch.zeros(layer.width, dtype=torch.float64)
    for op in layer.operations:
        V = op.weight.read(weights).double().T
        own = op.bias.read(weights).double() if op.bias is not None else torch.zeros(op.width).to(V)
        if op.vectors:
            numbers: Any = (weights[name].double() if name else None for name in op.vectors)
            scale, shift, mean, var = numbers
            factor = (var + op.epsilon).rsqrt() * (1 if scale is None else scale)
            if op.norm is None:
                V, own = factor[None], shift - mean * factor
            else:
                V, own = V * factor, (own - mean) * factor + (0 if shift is None else shift)
        if op.scales is not None:
            scales = op.scales.read(weights).double()
            V, own = V * scales, own * scales
        columns.append(V)
        bias = bias.to(V) + own
    return torch.cat([*columns, bias[None]] if layer.has_bias else columns)


def write(layer: Layer, weights: dict[str, Tensor], V: Tensor) -> None:
    """Put V (p, d) into the parameters; a BatchNorm behind becomes the identity with the bias, a scale 1."""
    holder = next((op for op in layer.operations if op.bias is not None or op.norm is not None), None)
    start = 0
    for op in layer.operations:
        width = op.weight.shape[1]
        op.weight.write(weights, V[start : start + width].T.to(_dtype(op, weights)))
        start += width
        bias = V[-1] if op is holder else torch.zeros_like(V[-1])
        if op.bias is not None:
            op.bias.write(weights, (torch.zeros_like(bias) if op.norm is not None else bias).to(_dtype(op, weights)))
        if op.scales is not None:
            op.scales.write(weights, torch.ones(op.width).to(weights[op.scales.names[0]]))
        if op.vectors:
            scale, shift, mean, var = op.vectors
            numbers = {mean: 0.0, var: 1 - op.epsilon} | ({scale: 1.0, shift: 0.0} if op.norm is not None else {})
            weights.update({name: torch.full_like(weights[name], number) for name, number in numbers.items() if name})
            if op.norm is not None:
                assert mean is not None  # as `_add_norm` asks
                weights[mean] = -bias.to(weights[mean].dtype)


def _dtype(op: Operation, weights: dict[str, Tensor]) -> torch.dtype:
    return weights[op.weight.names[0]].dtype
