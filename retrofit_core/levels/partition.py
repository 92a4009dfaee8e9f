"""Levels of a model: traced, cut where one tensor is alive or behind every layer, checked (paper sec. 3; docs/method.md)."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..outputs import as_classifier
from ..registry import first_line
from .axes import NeuronAxes
from .cuts import ancestors, choose_cuts, function_sum, is_layer, sum_behind
from .kinds import LAYERS, TRANSPARENT, is_sum, operation, parameter_count
from .level import Alive, Boundary, Level, compose
from .tracing import trace
from .weights import batch_statistics, computed_weights, refuse_batch_statistics

#: What is to be said of a network that is one level, which is not affine.
SINGLE = (
    "The network is one single level, for its code cannot be followed inside or has no place where one tensor is alive: fitting "
    "it is distillation, not fusion level by level."
)
#: A subclass that computes something else from its weights is not affine in them.
AFFINE_FORWARDS = tuple(kind.forward for kind in LAYERS)


def partition(
    model: nn.Module,
    example: Tensor,
    boundaries: str | int | Sequence[str] = "preactivations",
    *,
    leaves: Sequence[str] = (),
    neuron_axis: int | None = None,
) -> list[Level]:
    """Cut a model into levels whose composition is the model.

    BatchNorm is folded into the affine layer directly before it, unless one of the two shares a weight with another
    layer. Where the model folds tokens or frames into the axis of the samples, (B * T, ...), levels hand on (B, T, ...).
    The model is put into evaluation mode.

    Args:
        example: (B, ...) input, B >= 1; it fixes shapes and is used to check that the composition is right.
        boundaries: "preactivations" (after every affine layer or residual sum where one tensor is alive),
            "activations" (after every activation function), "blocks" (stem, each residual block, head; as
            "preactivations" where there are no such blocks), "layers" (after every affine layer, inside of blocks too, or
            after the sum to which alone its outputs go), a number of levels, or names of modules after which to cut.
        leaves: names of submodules to take whole; those inside of the model whose code torch.fx cannot follow are taken so by
            themselves, up to the whole model but for its last layers: see `SINGLE`.
        neuron_axis: axis of the neurons at all boundaries; default: read off the model.
    Raises:
        ValueError: the model cannot be traced or cut this way (with the reason and the way out), a parameter would
            lie in two levels, a BatchNorm keeps no running statistics, or a level ends where the first axis counts
            neither samples nor samples and their tokens.
    """
    model = as_classifier(model.eval(), example)
    inside = boundaries == "layers"
    graph, modules, folds = trace(model, leaves, example, whole=True, layers=inside, opened=inside)
    _refuse_batch_statistics(graph, modules)
    axes = NeuronAxes(graph, modules, example)
    cuts = choose_cuts(graph, modules, boundaries, model)
    segments = _segments(graph, cuts)
    names = _names([(segment.nodes, segment.after) for segment in segments], modules)
    parts = {
        node: _parts_per_sample(name, node, len(example))
        for name, segment in zip(names, segments, strict=True)
        for node in segment.alive
    }
    if parts[cuts[-1]]:
        raise ValueError(_not_by_samples(names[-1], tuple(cuts[-1].meta["value"])))
    levels = [
        _build_level(
            name,
            segment,
            modules,
            folds,
            parts,
            head=segment.after is cuts[-1],
            axes=partial(axes.of, by_user=neuron_axis),
            adding=boundaries == "layers",
        )
        for name, segment in zip(names, segments, strict=True)
    ]
    _refuse_tied_weights(levels)
    opened = inside and any(isinstance(module, nn.MultiheadAttention) for module in model.modules())
    _check_composition(model, levels, example, exact=not folds and not opened)
    if any(parts.values()) or next(iter(graph.nodes)).meta["sizes"]:
        _check_samples(levels, example, opposite=not hasattr(type(model), "packing"))
    return levels


def single_level(kinds: Sequence[str]) -> str:
    """What is to be said of levels of these kinds: that they are one, which is not affine; "" else."""
    return SINGLE if list(kinds) == ["not affine"] else ""


@dataclass(frozen=True, eq=False)
class _Segment:
    """The part of the graph that is one level."""

    nodes: list[fx.Node]
    before: list[fx.Node]
    """The tensors at the boundary before it"""
    after: fx.Node
    """The level's output"""
    alive: list[fx.Node]
    """The tensors at the boundary after it: those that a later level reads"""
    makers: list[int]
    """For each of them the level whose neurons it holds"""


def _segments(graph: fx.Graph, cuts: list[fx.Node]) -> list[_Segment]:
    """Each node belongs to the first level that needs it. What is read again later stays alive."""
    start = next(node for node in graph.nodes if node.op == "placeholder")
    of = {node: -1 for node in graph.nodes if node.op == "placeholder"}
    for index, cut in enumerate(cuts):
        of.update((node, index) for node in ancestors(cut) if node not in of)
    for node in graph.nodes:  # a size is taken when its tensor is there, and keeps none alive
        if node in of and node.op not in ("placeholder", "get_attr") and not node.meta["holds_tensors"]:
            of[node] = max([of[other] for other in node.all_input_nodes], default=0)
    for node in graph.nodes:  # an entry of a tuple is taken where the tuple is made, so that tensors alone are alive
        if node in of and node.target is operator.getitem and not node.args[0].meta.get("is_tensor"):
            of[node] = of[node.args[0]]
    maker: dict[fx.Node, int] = {start: -1}
    for node in graph.nodes:
        if node in of and node not in maker:
            maker[node] = (
                cuts.index(node)
                if node in cuts
                else max([maker[other] for other in node.all_input_nodes if other.op != "get_attr"], default=-1)
            )
    segments, before = [], [start]
    for index, cut in enumerate(cuts):
        alive = [
            node
            for node in graph.nodes
            if of.get(node, len(cuts)) <= index
            and node.op != "get_attr"
            and (node.meta["holds_tensors"] and any(of.get(user, -1) > index for user in node.users) or node is cut)
        ]
        nodes = [node for node in graph.nodes if of.get(node) == index]
        segments.append(_Segment(nodes, before, cut, alive, [maker[node] for node in alive]))
        before = alive
    return segments


def _names(segments: list[tuple[list[fx.Node], fx.Node]], modules: dict[Any, Any]) -> list[str]:
    """Each level's last layer with parameters, or the block around it at whose end the level ends, if that is unique."""
    layers = [
        str(next(node for node in reversed(segment) if parameter_count(node, modules)).target)
        for segment, _ in segments
    ]
    blocks = [_common(layer, _path(after)) for layer, (_, after) in zip(layers, segments, strict=True)]
    return [block if block and blocks.count(block) == 1 else layer for layer, block in zip(layers, blocks, strict=True)]


def _path(node: fx.Node) -> str:
    """The module whose forward computes a node."""
    paths = [path for path, _ in node.meta.get("nn_module_stack", {}).values()]
    return paths[-1] if paths else ""


def _common(left: str, right: str) -> str:
    """The innermost module in which both lie."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(left.split("."), right.split("."), strict=False))
    return ".".join(part for part, _ in same)


def _build_level(
    name: str,
    segment: _Segment,
    modules: dict[Any, Any],
    folds: dict[str, tuple[tuple, ...]],
    parts: dict[fx.Node, int],
    *,
    head: bool,
    axes: Callable[[fx.Node, str], int],
    adding: bool,
) -> Level:
    """
    Args:
        axes: gives the neuron axis of a node's output in a level of this name.
        parts: of the boundaries, see `_parts_per_sample`.
        adding: whether a level may be layers and the sum behind them, and vectors before them.
    """
    holders = [node for node in segment.nodes if parameter_count(node, modules)]
    owners = [node for node in holders if not (adding and _is_vector(node, modules))]
    summed, stream = _summed(segment, owners, modules) if adding else ([], None)
    function = _function(segment, summed, modules)
    layers = summed or owners
    why, made = _why_not_affine(owners, summed, modules), segment.after
    follows = "" if why or summed else _follows(segment, owners, modules)
    if follows and adding and head and _makes_classes(owners[0], segment.after, modules):
        made = owners[0]
    else:
        why = why or follows
    tables = [modules[node.target] for node in layers if node.op == "call_module" and not why]
    tables = tables if tables and isinstance(tables[0], nn.Embedding) else []
    prefix = None
    if not why:
        reads = [layer.args[0] for layer in layers] + ([stream] if stream else [])
        apart = {**parts, stream: parts[segment.after]} if stream else parts
        prefix = _graph_module(segment.nodes, segment.before, reads, modules, parts, apart)
    alive = tuple(
        _alive(node, name, axes, parts, maker) for node, maker in zip(segment.alive, segment.makers, strict=True)
    )
    at = segment.alive.index(segment.after)
    end = alive[at] if made is segment.after else _alive(made, name, axes, {made: 0}, segment.makers[at])
    return Level(
        name=name,
        module=_graph_module(segment.nodes, segment.before, segment.alive, modules, parts, parts),
        width=end.width,
        axis=end.axis,
        positions=end.positions,
        head=head,
        tail=made is not segment.after,
        layers=() if why or tables else tuple(modules[node.target] for node in layers),
        tables=tuple(tables),
        prefix=prefix,
        why_not_affine=why,
        folds=tuple(fold for node in owners for fold in folds.get(str(node.target), ())),
        residual=[node.op for node in segment.before] != ["placeholder"] and _is_residual(segment, modules),
        adds=stream is not None and not why,
        function=_graph_module(function, [summed[0]], [function[-1]], modules, {}, {})
        if function and not why
        else None,
        paths=() if why else tuple(str(node.target) for node in layers),
        vectors=()
        if why
        else tuple(name for node in holders if node not in owners for name in _vectors(node, modules)),
        alive=alive,
        at=at if len(alive) > 1 else None,
    )


def _is_vector(node: fx.Node, modules: dict[Any, Any]) -> bool:
    """Whether a node's parameters may be numbers for each neuron: those of a norm, or a parameter of the model's own."""
    return node.op == "get_attr" or isinstance(modules[node.target], (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm))


def _vectors(node: fx.Node, modules: dict[Any, Any]) -> list[str]:
    if node.op == "get_attr":
        return [str(node.target)]
    return [f"{node.target}.{name}" for name, _ in modules[node.target].named_parameters()]


def _summed(segment: _Segment, owners: list[fx.Node], modules: dict[Any, Any]) -> tuple[list[fx.Node], fx.Node | None]:
    """The layers whose outputs go into the sum at which a level ends, one or two, none where it ends otherwise; and what is
    there already, to which those of one layer are added."""
    layers = [node for node in owners if is_layer(node, modules) and sum_behind(node, modules) is segment.after]
    layers = layers or [
        node for node in owners if is_layer(node, modules) and function_sum(node, modules) is segment.after
    ]
    sides = [side for side in segment.after.all_input_nodes if not any(_leads(layer, side) for layer in layers)]
    return layers, sides[0] if layers and sides else None


def _function(segment: _Segment, summed: list[fx.Node], modules: dict[Any, Any]) -> list[fx.Node]:
    """The nodes between a layer and the sum to which its outputs go, where they change them."""
    if len(summed) != 1 or function_sum(summed[0], modules) is not segment.after:
        return []
    nodes, node = [], next(iter(summed[0].users))
    while node is not segment.after:
        nodes.append(node)
        node = next(iter(node.users))
    return nodes


def _leads(layer: fx.Node, side: fx.Node) -> bool:
    """Whether a side of a sum is a layer's output, which goes nowhere else."""
    while layer is not side and len(layer.users) == 1:
        layer = next(iter(layer.users))
        if is_sum(layer):
            return False
    return layer is side


def _alive(
    node: fx.Node, name: str, axes: Callable[[fx.Node, str], int], parts: dict[fx.Node, int], maker: int
) -> Alive:
    if not node.meta["is_tensor"]:
        raise ValueError(
            f"after level {name!r} {node.name!r} is alive, which is several tensors in one. Let levels end elsewhere "
            "(boundaries=[module names])."
        )
    shape = node.meta["value"]
    axis = axes(node, name)
    width = shape[axis]
    samples = shape[0]
    if parts[node]:  # the boundary gets an axis for the parts; where neurons were last they still are
        samples //= parts[node]
        axis = -1 if axis in (-1, len(shape) - 1) else axis + 1
    return Alive(axis, width, shape.numel() // (samples * width), maker)


def _parts_per_sample(name: str, cut: fx.Node, samples: int) -> int:
    """Entries of the first axis per sample, if tokens or frames were folded into it; 0 if it counts samples."""
    shape = tuple(cut.meta["value"])
    if not shape or shape[0] % samples:
        raise ValueError(_not_by_samples(name, shape))
    return 0 if shape[0] == samples else shape[0] // samples


def _is_residual(segment: _Segment, modules: dict[Any, Any]) -> bool:
    """Whether a sum adds the input, the only tensor there, through no parameters and at an unchanged shape."""
    if len(segment.before) > 1:
        return False
    before, after = segment.before[0], segment.after
    free = {before}
    for node in segment.nodes:
        tensors = [other for other in node.all_input_nodes if other.meta.get("is_tensor")]
        if tensors and all(other in free for other in tensors) and not parameter_count(node, modules):
            free.add(node)
    skips = [other for node in segment.nodes if is_sum(node) and node not in free for other in node.all_input_nodes]
    return before.meta["value"] == after.meta["value"] and any(other in free for other in skips)


def _why_not_affine(owners: list[fx.Node], summed: list[fx.Node], modules: dict[Any, Any]) -> str:
    """The reason why a level's layers are not affine ones that can be fitted together, empty where they are.

    Args:
        owners: all nodes with parameters.
        summed: see `_summed`.
    """
    if not owners:
        return "it holds no Linear or convolution"
    if len(owners) != (len(summed) or 1) or len({node.target for node in owners}) != len(owners):
        return f"it holds {len(owners)} layers with parameters ({', '.join(str(node.target) for node in owners[:4])})"
    for node in owners:
        target = modules[node.target]
        if isinstance(target, nn.Embedding) and (len(owners) > 1 or target.max_norm is not None):
            others = [modules[node.target] for node in owners]
            if not all(isinstance(other, nn.Embedding) for other in others):
                return "it adds embeddings to the outputs of a layer"
            if any(other.max_norm is not None for other in others):
                return f"the rows of its Embedding {node.target!r} are shortened as it runs (max_norm)"
        if not isinstance(target, LAYERS):
            return f"its parameters belong to a {type(target).__name__}, not to a Linear or a convolution"
        if type(target).forward not in AFFINE_FORWARDS:
            return f"its {type(target).__name__} has a forward of its own, which may use the weights otherwise"
        for computed in computed_weights(target):
            return f"the {computed.tensor} of {node.target!r} is computed from other tensors ({computed.by})"
        groups = getattr(target, "groups", 1)
        if any(getattr(modules[other.target], "groups", 1) != groups for other in owners):
            return f"its outputs, in {groups} groups, are added to those of a layer with other groups"
    return ""


def _follows(segment: _Segment, layers: list[fx.Node], modules: dict[Any, Any]) -> str:
    """What comes between the layer and the end of its level, as a reason; empty if nothing that changes its outputs."""
    if not layers or layers[0] not in segment.nodes or segment.after not in segment.nodes:
        return ""
    start, end = (segment.nodes.index(node) for node in (layers[0], segment.after))
    others = [
        node
        for node in segment.nodes[start + 1 : end + 1]
        if not (node.op == "call_module" and isinstance(modules[node.target], TRANSPARENT))
    ]
    return f"{others[0].name!r} comes after its affine layer" if others else ""


def _makes_classes(layer: fx.Node, output: fx.Node, modules: dict[Any, Any]) -> bool:
    """Whether the network's last layer makes one neuron for each class, sample by sample, whatever follows."""
    made, classes = layer.meta["value"], output.meta["value"]
    axis = -1 if isinstance(modules[layer.target], nn.Linear) else 1
    return made[0] == classes[0] and made[axis] == classes[-1]


def _graph_module(
    segment: list[fx.Node],
    before: list[fx.Node],
    ends: list[Any],
    modules: dict[Any, Any],
    parts: dict[fx.Node, int],
    apart: dict[fx.Node, int],
) -> nn.Module:
    """The part of the graph from the tensors `before` to the tensors `ends` as a module that shares the parameters; several
    tensors go in and out as a tuple.

    Args:
        parts: where the model folds parts of samples into the first axis, the boundary before keeps them apart:
            (samples, parts, ...).
        apart: the same for the ends.
    """
    graph = fx.Graph()
    start = graph.placeholder("x")
    copies: dict[fx.Node, Any] = {before[0]: start}
    if len(before) > 1:
        copies = {node: graph.call_function(operator.getitem, (start, k)) for k, node in enumerate(before)}
    first = copies[before[0]]
    samples = before[0].meta["value"][0] // (parts.get(before[0]) or 1)  # of the example
    for node in before:
        if parts.get(node):
            copies[node] = graph.call_method("flatten", (copies[node], 0, 1))
    needed = _needed_for(ends, segment, before)

    def copy_of(node: fx.Node) -> Any:
        if node not in copies:  # a constant, or an integer from an earlier level
            is_constant = node.op == "get_attr"
            copies[node] = graph.node_copy(node) if is_constant else _integer(node, graph, first, samples, copy_of)
        return copies[node]

    for node in segment:
        if node in needed and node not in copies:
            copies[node] = graph.node_copy(node, copy_of)
    outputs = [
        graph.call_method("unflatten", (copies[end], 0, (-1, apart[end]))) if apart.get(end) else copies[end]
        for end in ends
    ]
    graph.output(outputs[0] if len(outputs) == 1 else tuple(outputs))
    used = {str(node.target) for node in graph.nodes if node.op in ("call_module", "get_attr")}
    return fx.GraphModule({name: modules[name] for name in sorted(used)}, graph).eval()


def _needed_for(ends: list[fx.Node], segment: list[fx.Node], before: list[fx.Node]) -> set[fx.Node]:
    inside, needed, todo = set(segment), set(), list(ends)
    while todo:
        node = todo.pop()
        if node in inside and node not in needed and node not in before:
            needed.add(node)
            todo.extend(node.all_input_nodes)
    return needed


def _integer(node: fx.Node, graph: fx.Graph, start: fx.Node, samples: int, copy_of: Callable[[fx.Node], Any]) -> Any:
    """An integer that an earlier level computed: a batch size is read off this level's input, the rest is fixed."""
    is_batch = (node.target is operator.getitem and node.args[1] == 0 and _is_shape(node.args[0])) or (
        node.op == "call_method" and node.target == "size" and node.args[1:] == (0,)
    )
    if is_batch:  # a multiple of it, where parts of samples lie along the first axis
        size = graph.call_method("size", (start, 0))
        return (
            size
            if node.meta["value"] == samples
            else graph.call_function(operator.mul, (size, node.meta["value"] // samples))
        )
    if isinstance(node.meta["value"], int) and any(arg.meta.get("is_tensor") is False for arg in node.all_input_nodes):
        return graph.node_copy(node, copy_of) if not _is_shape(node.args[0]) else node.meta["value"]
    return node.meta["value"]


def _is_shape(node: Any) -> bool:
    return isinstance(node, fx.Node) and isinstance(node.meta.get("value"), torch.Size) and not node.meta["is_tensor"]


def _refuse_tied_weights(levels: list[Level]) -> None:
    owners: dict[int, tuple[str, int]] = {}
    for index, level in enumerate(levels):
        for name, parameter in level.module.named_parameters():
            first_name, first = owners.setdefault(id(parameter), (name, index))
            if first != index:
                raise ValueError(
                    f"levels {levels[first].name!r} and {level.name!r} share the weights {first_name!r}: tied weights "
                    "cannot be fitted one level at a time. Cut so that both uses lie in one level (boundaries=[...]) and "
                    "fit it by gradient, or give each layer weights of its own."
                )


def _refuse_batch_statistics(graph: fx.Graph, modules: dict[Any, Any]) -> None:
    layers = [node.target for node in graph.nodes if node.op == "call_module"]
    refuse_batch_statistics((str(name), modules[name]) for name in dict.fromkeys(layers))
    for node in graph.nodes:
        if operation(node) == "batch_norm":
            names = ("input", "running_mean", "running_var", "weight", "bias", "training")
            arguments = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
            if arguments.get("running_mean") is None or arguments.get("training") is True:
                raise ValueError(batch_statistics(node.name))


@torch.no_grad()
def _check_samples(levels: list[Level], example: Tensor, *, opposite: bool) -> None:
    """Levels are compared sample by sample, so one sample alone must give the first part of what a batch gives.

    Args:
        opposite: whether a sample's negative is a sample too.
    """
    alone: Boundary = example[:1]
    # whole numbers, such as tokens, have no opposite
    both: Boundary = torch.cat([example[:1], -example[:1] if opposite else example[-1:]])
    for level in levels:
        try:
            alone, both = level.module(alone), level.module(both)
        except Exception as error:  # whatever an operation raises on another number of samples
            raise ValueError(
                f"level {level.name!r} does not run on a batch of another size: {first_line(error)}"
            ) from error
        for one, batch in zip(*((end,) if isinstance(end, Tensor) else end for end in (alone, both)), strict=True):
            same = one.shape == batch[:1].shape
            if not same or not torch.allclose(
                one, batch[:1], rtol=1e-4, atol=1e-4 * max(1.0, batch.abs().max().item()), equal_nan=True
            ):
                raise ValueError(_not_by_samples(level.name, tuple(batch.shape)))


def _not_by_samples(name: str, shape: tuple[int, ...]) -> str:
    return (
        f"level {name!r} ends with a tensor of shape {shape}, whose first axis does not count samples, nor samples and their "
        "tokens in this order. Keep samples first there, or let levels end elsewhere (boundaries=[module names])."
    )


@torch.no_grad()
def _check_composition(model: nn.Module, levels: list[Level], example: Tensor, *, exact: bool) -> None:
    expected = model(example)
    try:
        composed = compose(levels, example)
    except Exception as error:  # whatever an operation raises on a shape that does not fit
        raise ValueError(
            f"partition does not reproduce the model: {first_line(error)}. Name other boundaries."
        ) from error
    gap = (expected - composed).abs().max().item() if expected.shape == composed.shape else float("inf")
    tolerance = 0.0 if exact else 1e-4 * max(1.0, expected.abs().max().item())
    if not gap <= tolerance and torch.isfinite(expected).all():
        raise ValueError(
            f"partition does not reproduce the model: outputs differ by up to {gap:.2g} (tolerance {tolerance:.2g}). "
            "Is its forward random or dependent on earlier calls? Name other boundaries with boundaries=[...]."
        )
