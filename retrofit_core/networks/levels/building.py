"""Build a level from a segment of the traced graph: its module, its form (or why it is not affine), its output tensors."""

import operator
from collections.abc import Mapping
from dataclasses import asdict, replace

from torch import Tensor, fx, nn

from ..symmetry.rules import rules_of, varying_axes
from ..weights import computed_weights
from .cuts import between, end_of, landed, sum_behind
from .folds import Fold, spread
from .forms import Activated, Affine, Form, Lookup, Opaque, Partwise, Tied
from .kinds import (
    LAYERS,
    TRANSPARENT,
    BatchNorm,
    InstanceNorm,
    does,
    held,
    is_entrywise,
    is_layer,
    is_plain,
    is_sum,
    parameter_count,
    words,
)
from .level import Alive, Level
from .segments import PLAIN, Layout, Segment, graph_module
from .tracing import Trace

#: Layers whose parameters and buffers hold one number per neuron.
VECTORS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.PReLU, BatchNorm, InstanceNorm)
#: Layers with their neurons on axis 1, and on the last one.
CHANNELS_FIRST = words("_ConvNd conv1d conv2d conv3d group_norm")
CHANNELS_LAST = words("linear layer_norm rms_norm embedding MultiheadAttention")
#: They decide only if no layer does, for they may normalise positions.
NORMS = words("_BatchNorm")


def build_level(
    name: str,
    segment: Segment,
    folds: Mapping[str, tuple[Fold, ...]],
    parts: Mapping[fx.Node, Layout],
    *,
    head: bool,
    trace: Trace,
    adding: bool,
) -> Level:
    """Build one level of a traced model.

    Args:
        folds: layer -> what was folded into it.
        parts: layouts of the samples in the traced tensors.
        trace: of the whole network, whose rules tell neuron axes.
        adding: whether a level may end with a sum of its layers' outputs, and begin with per-neuron vectors.
    """
    holders = [node for node in segment.nodes if parameter_count(node)]
    # between layers, parameters may hold one number per neuron: a norm's, or the model's own
    owners = [node for node in holders if not (adding and isinstance(held(node), (*VECTORS, nn.Parameter)))]
    output = _last_sum(segment, owners) if adding and head and len(owners) > 1 else segment.after
    summed, stream = _summed(output, owners) if adding else ([], None)
    layers = summed or owners
    why = "" if adding and head and not owners else _why_not_affine(owners, summed)
    follows = "" if why or summed else _follows(segment, owners)
    if follows and adding and head and _makes_classes(owners[0], segment.after):
        output = owners[0]
    else:
        why = why or follows
    changed = len(summed) == 1 and sum_behind(summed[0]) is not output
    function = between(summed[0], output)[1:] if changed else []
    form = Opaque(why=why) if why else _form(segment, layers, stream, function, parts, adding=adding)
    alive = tuple(
        _alive(node, name, trace, parts, maker, end=node is output)
        for node, maker in zip(segment.alive, segment.makers, strict=True)
    )
    at = segment.alive.index(segment.after)
    end = alive[at] if output is segment.after else _alive(output, name, trace, {}, segment.makers[at], end=True)
    axes_landed = {landed(node, output) for node in summed}  # of layers that mix positions, it is not the stream's
    if len(axes_landed) == 1 and parts.get(output, PLAIN) == PLAIN:
        shape, axis = output.meta["value"], axes_landed.pop()
        if axis != end.axis % len(shape):
            axis, width = (-1 if axis == len(shape) - 1 > 1 else axis), shape[axis]
            end = replace(end, axis=axis, width=width, positions=shape.numel() // (shape[0] * width))
    return Level(
        **asdict(end),
        name=name,
        module=graph_module(segment.nodes, segment.before, segment.alive, parts, parts),
        form=form,
        head=head,
        alive=alive,
        at=at,
        node=output.name,
        tail=output is not segment.after,
        folds=tuple(fold for node in owners for fold in folds.get(str(node.target), ())),
        residual=_is_residual(segment),
    )


def _form(
    segment: Segment,
    nodes: list[fx.Node],
    stream: fx.Node | None,
    function: list[fx.Node],
    parts: Mapping[fx.Node, Layout],
    *,
    adding: bool,
) -> Form:
    """The form of a level's layers.

    Args:
        nodes: the layers' nodes.
        stream: what their outputs are added to.
        function: nodes that their outputs pass before.
        adding: whether a layer may share its weight with an earlier level's embedding.
    """
    layers = tuple(held(node) for node in nodes)
    reads = [node.all_input_nodes[0] for node in nodes] + ([stream] if stream else [])
    apart = {node: _rows(node, layer, parts) for node, layer in zip(reads, nodes, strict=False)}
    apart |= {stream: parts.get(segment.after, PLAIN)} if stream else {}
    prefix = graph_module(segment.nodes, segment.before, reads, parts, apart)
    inputs = tuple((read.all_input_nodes[0] if read.target is spread else read).name for read in reads[: len(nodes)])
    facts = (layers, tuple(str(node.target) for node in nodes), prefix, stream is not None, inputs)
    if not layers:
        return Tied(*facts)
    if isinstance(layers[0], nn.Embedding):
        return Lookup(*facts)
    tables = {id(held(node).weight) for node in nodes[0].graph.nodes if isinstance(held(node), nn.Embedding)}
    if adding and len(layers) == 1 and stream is None and id(layers[0].weight) in tables:
        return Tied(*facts)
    if function:
        return Activated(*facts, graph_module(function, [nodes[0]], [function[-1]], {}, {}))
    return (Partwise if getattr(layers[0], "groups", 1) > 1 else Affine)(*facts)


def _last_sum(segment: Segment, owners: list[fx.Node]) -> fx.Node:
    """The sum of two layers of the last level that gives the classes, whatever follows (a mean of two heads); else its end."""
    sums = {sum_behind(node) if is_layer(node) else None for node in owners}
    end = sums.pop() if len(sums) == 1 else None
    classes = end is not None and _makes_classes(owners[0], segment.after)
    return end if end is not None and classes else segment.after


def _summed(end: fx.Node, owners: list[fx.Node]) -> tuple[list[fx.Node], fx.Node | None]:
    """The one or two layers whose outputs form the sum that ends a level, none if it ends otherwise; and the stream that a
    single layer's outputs are added to."""
    layers = [node for node in owners if is_layer(node) and node is not end and end_of(node) is end]
    made = [between(layer, end)[-1] for layer in layers]
    sides = [side for side in end.all_input_nodes if side not in made]
    return layers, sides[0] if layers and sides else None


def _rows(layer_input: fx.Node, layer: fx.Node, parts: Mapping[fx.Node, Layout]) -> Layout:
    """The layout that gives a layer's input rows in the order of its output rows; convolutions take maps unchanged."""
    layout = parts.get(layer_input, PLAIN)
    if layout.axis == 0 or isinstance(held(layer), nn.Embedding):
        return PLAIN
    return Layout(None, 0) if layout.axis is None and not isinstance(held(layer), nn.Linear) else layout


def _alive(
    node: fx.Node,
    name: str,
    trace: Trace,
    parts: Mapping[fx.Node, Layout],
    maker: int,
    *,
    end: bool,
) -> Alive:
    """A tensor at a boundary.

    Args:
        end: whether it is the level's output, whose neuron axis must be known.
    """
    if not node.meta["is_tensor"]:
        raise ValueError(
            f"after level {name!r} {node.name!r} is alive, which is several tensors in one. Let levels end elsewhere "
            "(boundaries=[module names])."
        )
    layout, traced = parts.get(node, PLAIN), node.meta["value"]
    shape = layout.shape(traced)
    try:
        axis = layout.neurons(neuron_axis(trace, node, name), len(traced))
    except ValueError:
        if end:
            raise
        axis = -1  # it is not grouped here
    width = shape[axis]
    return Alive(axis, width, shape.numel() // (shape[0] * width), maker)


def _is_residual(segment: Segment) -> bool:
    """Whether a sum adds the level's only input to its output, neuron by neuron: as it is, or behind functions of each entry."""
    before, *others = segment.before
    skips = {before}
    for node in segment.nodes:
        if (is_entrywise(node) or does(node, TRANSPARENT)) and node.all_input_nodes[0] in skips:
            skips.add(node)
    return (
        before.op != "placeholder"
        and not others
        and before.meta["value"] == segment.after.meta["value"]
        and any(is_sum(node) and skips.intersection(node.all_input_nodes) for node in segment.nodes)
    )


def _why_not_affine(owners: list[fx.Node], summed: list[fx.Node]) -> str:
    """Why a level's layers cannot be fitted together in closed form; empty if they can.

    Args:
        owners: nodes with parameters.
        summed: see `_summed`.
    """
    if not owners:
        return "it holds no Linear or convolution"
    if len(owners) != (len(summed) or 1) or len({node.target for node in owners}) != len(owners):
        return f"it holds {len(owners)} layers with parameters ({', '.join(str(node.target) for node in owners[:4])})"
    for node in owners:
        target = held(node)
        if isinstance(target, nn.Embedding) and (len(owners) > 1 or target.max_norm is not None):
            others = [held(node) for node in owners]
            if not all(isinstance(other, nn.Embedding) for other in others):
                return "it adds embeddings to the outputs of a layer"
            if any(other.max_norm is not None for other in others):
                return f"the rows of its Embedding {node.target!r} are shortened as it runs (max_norm)"
        if not isinstance(target, LAYERS):
            return f"its parameters belong to a {type(target).__name__}, not to a Linear or a convolution"
        if not is_plain(target, LAYERS):
            return f"its {type(target).__name__} has a forward of its own, which may use the weights otherwise"
        for tensor, (by, _) in computed_weights(target).items():
            return f"the {tensor} of {node.target!r} is computed from other tensors ({by})"
        groups = getattr(target, "groups", 1)
        if any(getattr(held(other), "groups", 1) != groups for other in owners):
            return f"its outputs, in {groups} groups, are added to those of a layer with other groups"
    return ""


def _follows(segment: Segment, layers: list[fx.Node]) -> str:
    """The operation that changes the layer's outputs before its level ends, as a reason; else empty."""
    if not layers or layers[0] not in segment.nodes or segment.after not in segment.nodes:
        return ""
    start, end = (segment.nodes.index(node) for node in (layers[0], segment.after))
    others = [node for node in segment.nodes[start + 1 : end + 1] if not does(node, TRANSPARENT)]
    return f"{others[0].name!r} comes after its affine layer" if others else ""


def _makes_classes(layer: fx.Node, output: fx.Node) -> bool:
    """Whether the network's last layer gives each sample one neuron per class, whatever follows; maps may keep classes on axis 1,
    as where they are enlarged to the image."""
    shape, classes = layer.meta["value"], output.meta["value"]
    if isinstance(held(layer), nn.Linear):
        return shape[0] == classes[0] and shape[-1] == classes[-1]
    return shape[0] == classes[0] and shape[1] in (classes[-1], classes[1] if len(classes) == len(shape) else None)


def neuron_axis(trace: Trace, node: fx.Node, name: str) -> int:
    """The neuron axis of a node's output: usually 1, or -1 for the last of more than two.

    Args:
        trace: the whole network's; the node may be one of a changed copy of its graph.
        name: level name for the error message.
    Raises:
        ValueError: no such axis, or more than one.
    """
    shape = node.meta["value"]
    dims = len(shape)
    if dims < 2:
        raise ValueError(
            f"level {name!r} ends with one number for each sample, a tensor without an axis of neurons. Let the network "
            "return (B, 1): leave out its squeeze or its [:, 0]."
        )
    if dims == 2 or not (makers := _makers(node, norms=False) or _makers(node, norms=True)):
        return 1  # the input's own numbers are not fused
    axis = makers.get(node)
    if axis is None:
        axes = _differing(trace, node.name)
        # where neurons cannot be followed, the last layer of the same form tells
        alike = [m for m in node.graph.nodes if m in makers and len(m.meta["value"]) == dims] if not axes else []
        axis = axes[0] if len(axes) == 1 else makers[alike[-1]] if alike else None
    if axis is None:
        raise ValueError(
            f"level {name!r} ends with a tensor of shape {tuple(shape)} whose neuron axis is not known. Let levels end elsewhere "
            "(boundaries=[module names] of fuse() and partition())."
        )
    return -1 if axis == dims - 1 else axis


def _differing(trace: Trace, node: str) -> list[int]:
    """The axes along which the neurons of a node's output differ; none if they cannot be followed."""
    try:
        rules = rules_of(trace)
    except Exception:  # whatever a rule raises on unknown operations
        return []
    ids = next((ids for other, ids in rules.values.items() if other.name == node), None)
    return varying_axes(rules.ids.of(ids)) if isinstance(ids, Tensor) else []


def _makers(node: fx.Node, *, norms: bool) -> dict[fx.Node, int]:
    """The nearest layers before a node, itself included, each with the neuron axis of its outputs.

    Args:
        norms: whether BatchNorms are layers, too.
    """
    makers: dict[fx.Node, int] = {}
    todo, seen = [node], {node}
    while todo:
        other = todo.pop()
        source = other.args[0] if other.target is operator.getitem else other
        if other.meta.get("is_tensor") and (does(other, CHANNELS_FIRST) or (norms and does(other, NORMS))):
            makers[other] = 1
        elif other.meta.get("is_tensor") and isinstance(source, fx.Node) and does(source, CHANNELS_LAST):
            makers[other] = len(other.meta["value"]) - 1
        else:
            before = [n for n in other.all_input_nodes if n.meta.get("is_tensor") or n.meta.get("holds_tensors")]
            todo += [n for n in before if n not in seen]
            seen.update(before)
    return makers
