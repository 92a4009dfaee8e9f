"""Levels of a model: traced, cut where exactly one tensor is alive, checked (paper sec. 3; docs/method.md)."""

import operator
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..outputs import as_classifier
from .axes import neuron_axis as find_axis
from .cuts import choose_cuts
from .kinds import AFFINE, TRANSPARENT, is_sum, parameter_count
from .level import Level, compose
from .tracing import trace
from .weights import batch_statistics, computed_weights, refuse_batch_statistics

#: What is to be said of a network that is one level, which is not affine.
SINGLE = (
    "The network is one single level, for its code cannot be followed inside or has no place where one tensor is alive: fitting "
    "it is distillation, not fusion level by level."
)
#: A subclass that computes something else from its weights is not affine in them.
AFFINE_FORWARDS = tuple(kind.forward for kind in AFFINE)


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
            "preactivations" where there are no such blocks), a number of levels, or names of modules after
            which to cut.
        leaves: names of submodules to take whole; those inside of the model whose code torch.fx cannot follow are taken so by
            themselves, up to the whole model but for its last layers: see `SINGLE`.
        neuron_axis: axis of the neurons at all boundaries; default: read off the model.
    Raises:
        ValueError: the model cannot be traced or cut this way (with the reason and the way out), a parameter would
            lie in two levels, a BatchNorm keeps no running statistics, or a level ends where the first axis counts
            neither samples nor samples and their tokens.
    """
    model = as_classifier(model.eval(), example)
    graph, modules, folds = trace(model, leaves, example=example, whole=True)
    _refuse_batch_statistics(graph, modules)
    cuts = choose_cuts(graph, modules, boundaries, model)
    segments = list(_segments(graph, cuts))
    names = _names([(segment, after) for segment, _, after in segments], modules)
    parts = {cut: _parts_per_sample(name, cut, len(example)) for name, cut in zip(names, cuts, strict=True)}
    if parts[cuts[-1]]:
        raise ValueError(_not_by_samples(names[-1], tuple(cuts[-1].meta["value"])))
    levels = [
        _build_level(name, segment, before, after, modules, folds, parts, head=after is cuts[-1], axis=neuron_axis)
        for name, (segment, before, after) in zip(names, segments, strict=True)
    ]
    _refuse_tied_weights(levels)
    _check_composition(model, levels, example, exact=not folds)
    if any(parts.values()):
        _check_samples(levels, example)
    return levels


def single_level(kinds: Sequence[str]) -> str:
    """What is to be said of levels of these kinds: that they are one, which is not affine; "" else."""
    return SINGLE if list(kinds) == ["not affine"] else ""


def _segments(graph: fx.Graph, cuts: list[fx.Node]) -> Iterable[tuple[list[fx.Node], fx.Node, fx.Node]]:
    before = next(node for node in graph.nodes if node.op == "placeholder")
    segment: list[fx.Node] = []
    pending = list(cuts)
    for node in graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        segment.append(node)
        if node is pending[0] and len(pending) > 1:
            yield segment, before, pending.pop(0)
            before, segment = node, []
    yield segment, before, pending[0]


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
    segment: list[fx.Node],
    before: fx.Node,
    after: fx.Node,
    modules: dict[Any, Any],
    folds: dict[str, tuple],
    parts: dict[fx.Node, int],
    *,
    head: bool,
    axis: int | None,
) -> Level:
    """
    Args:
        parts: of the boundaries, see `_parts_per_sample`.
    """
    owners = [node for node in segment if parameter_count(node, modules)]
    why = _why_not_affine(segment, owners, after, modules)
    affine = None if why else modules[owners[0].target]
    prefix = None if why else _graph_module(segment, before, owners[0].args[0], modules, parts)
    shape = after.meta["value"]
    axis = find_axis(after, modules, name, axis)
    width = shape[axis]
    samples = shape[0]
    if parts[after]:  # the boundary gets an axis for the parts; where neurons were last they still are
        samples //= parts[after]
        axis = -1 if axis in (-1, len(shape) - 1) else axis + 1
    return Level(
        name=name,
        module=_graph_module(segment, before, after, modules, parts),
        width=width,
        axis=axis,
        positions=shape.numel() // (samples * width),
        head=head,
        affine=affine,
        prefix=prefix,
        why_not_affine=why,
        folds=tuple(folds[str(node.target)] for node in owners if str(node.target) in folds),
        residual=before.op != "placeholder" and _is_residual(segment, before, after, modules),
    )


def _parts_per_sample(name: str, cut: fx.Node, samples: int) -> int:
    """Entries of the first axis per sample, if tokens or frames were folded into it; 0 if it counts samples."""
    shape = tuple(cut.meta["value"])
    if not shape or shape[0] % samples:
        raise ValueError(_not_by_samples(name, shape))
    return 0 if shape[0] == samples else shape[0] // samples


def _is_residual(segment: list[fx.Node], before: fx.Node, after: fx.Node, modules: dict[Any, Any]) -> bool:
    """Whether a sum adds the input `before`, through no parameters and at an unchanged shape."""
    free = {before}
    for node in segment:
        tensors = [other for other in node.all_input_nodes if other.meta.get("is_tensor")]
        if tensors and all(other in free for other in tensors) and not parameter_count(node, modules):
            free.add(node)
    skips = [other for node in segment if is_sum(node) and node not in free for other in node.all_input_nodes]
    return before.meta["value"] == after.meta["value"] and any(other in free for other in skips)


def _why_not_affine(segment: list[fx.Node], owners: list[fx.Node], after: fx.Node, modules: dict[Any, Any]) -> str:
    if len(owners) != 1:
        return f"it holds {len(owners)} layers with parameters ({', '.join(str(node.target) for node in owners[:4])})"
    target = modules[owners[0].target]
    if not isinstance(target, AFFINE):
        return f"its parameters belong to a {type(target).__name__}, not to a Linear or Conv2d"
    if type(target).forward not in AFFINE_FORWARDS:
        return f"its {type(target).__name__} has a forward of its own, which may use the weights otherwise"
    for computed in computed_weights(target):
        return f"the {computed.tensor} of {owners[0].target!r} is computed from other tensors ({computed.by})"
    if isinstance(target, nn.Conv2d) and target.groups > 1:
        return f"its convolution is grouped (groups={target.groups})"
    behind = segment[segment.index(owners[0]) + 1 : segment.index(after) + 1]
    others = [
        node for node in behind if not (node.op == "call_module" and isinstance(modules[node.target], TRANSPARENT))
    ]
    return f"{others[0].name!r} comes after its affine layer" if others else ""


def _graph_module(
    segment: list[fx.Node], before: fx.Node, after: Any, modules: dict[Any, Any], parts: dict[fx.Node, int]
) -> nn.Module:
    """The part of the graph from tensor `before` to tensor `after` as a module that shares the parameters.

    Where the model folds parts of samples into the first axis (`parts`), the boundary keeps them apart: (samples, parts, ...).
    """
    graph = fx.Graph()
    start = graph.placeholder("x")
    copies: dict[fx.Node, Any] = {before: start}
    if parts.get(before):
        copies[before] = graph.call_method("flatten", (start, 0, 1))
    needed = _needed_for(after, segment, before)

    def copy_of(node: fx.Node) -> Any:
        if node not in copies:  # an integer from an earlier level
            copies[node] = _integer(node, graph, start, copy_of)
        return copies[node]

    for node in segment:
        if node in needed:
            copies[node] = graph.node_copy(node, copy_of)
    end = copies[after]
    graph.output(graph.call_method("unflatten", (end, 0, (-1, parts[after]))) if parts.get(after) else end)
    used = {str(node.target) for node in graph.nodes if node.op in ("call_module", "get_attr")}
    return fx.GraphModule({name: modules[name] for name in sorted(used)}, graph).eval()


def _needed_for(after: fx.Node, segment: list[fx.Node], before: fx.Node) -> set[fx.Node]:
    inside, needed, todo = set(segment), set(), [after]
    while todo:
        node = todo.pop()
        if node in inside and node not in needed and node is not before:
            needed.add(node)
            todo.extend(node.all_input_nodes)
    return needed


def _integer(node: fx.Node, graph: fx.Graph, start: fx.Node, copy_of: Callable[[fx.Node], Any]) -> Any:
    """An integer that an earlier level computed: a batch size is read off this level's input, the rest is fixed."""
    is_batch = (node.target is operator.getitem and node.args[1] == 0 and _is_shape(node.args[0])) or (
        node.op == "call_method" and node.target == "size" and node.args[1:] == (0,)
    )
    if is_batch:
        return graph.call_method("size", (start, 0))
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
        if node.op == "call_function" and getattr(node.target, "__name__", "") == "batch_norm":
            names = ("input", "running_mean", "running_var", "weight", "bias", "training")
            arguments = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
            if arguments.get("running_mean") is None or arguments.get("training") is True:
                raise ValueError(batch_statistics(node.name))


@torch.no_grad()
def _check_samples(levels: list[Level], example: Tensor) -> None:
    """Levels are compared sample by sample, so one sample alone must give the first part of what a batch gives."""
    alone, batch = example[:1], torch.cat([example[:1], -example[:1]])
    for level in levels:
        alone, batch = level.module(alone), level.module(batch)
        same = alone.shape == batch[:1].shape
        if not same or not torch.allclose(alone, batch[:1], rtol=1e-4, atol=1e-4 * max(1.0, batch.abs().max().item())):
            raise ValueError(_not_by_samples(level.name, tuple(batch.shape)))


def _not_by_samples(name: str, shape: tuple[int, ...]) -> str:
    return (
        f"level {name!r} ends with a tensor of shape {shape}, whose first axis does not count samples, nor samples and their "
        "tokens in this order. Keep samples first there, or let levels end elsewhere (boundaries=[module names])."
    )


@torch.no_grad()
def _check_composition(model: nn.Module, levels: list[Level], example: Tensor, *, exact: bool) -> None:
    expected, composed = model(example), compose(levels, example)
    gap = (expected - composed).abs().max().item() if expected.shape == composed.shape else float("inf")
    tolerance = 0.0 if exact else 1e-4 * max(1.0, expected.abs().max().item())
    if not gap <= tolerance and torch.isfinite(expected).all():
        raise ValueError(
            f"partition does not reproduce the model: outputs differ by up to {gap:.2g} (tolerance {tolerance:.2g}). "
            "Is its forward random or dependent on earlier calls? Name other boundaries with boundaries=[...]."
        )
