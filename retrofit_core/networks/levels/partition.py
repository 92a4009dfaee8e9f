"""Partition a model: trace it, cut it where one tensor is alive or after every layer, check (paper sec. 3; docs/method.md)."""

from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from ...system.device import exact
from ...system.registry import first_line
from ..copies import fed
from ..outputs import GivingLogits, as_classifier, say_left
from ..packing import TakingPacked
from ..wrappers import class_name, refuse_archived, unwrapped, wrapper_of
from .building import build_level
from .cuts import ancestors, choose_cuts
from .folds import folded
from .forms import Boundary, Lookup, Tied
from .kinds import BatchNorm, held, operation, parameter_count
from .level import Level, compose
from .plain import PARAMETERS
from .segments import PLAIN, Layout, cut_into_segments, layouts, names_of
from .tracing import Trace, rounding, trace

#: Message for a network that is a single level and not affine.
SINGLE = (
    "The network is a single level, because its code cannot be traced or has no place where one tensor is alive: "
    "fitting it is distillation, not fusion level by level."
)


def partition(
    model: nn.Module,
    example: Tensor,
    boundaries: str | int | Sequence[str] = "preactivations",
    *,
    leaves: Sequence[str] = (),
) -> list[Level]:
    """Cut a model into levels whose composition is the model.

    Folds BatchNorm into the affine layer directly before it, unless one of the two shares a weight with another layer. Where
    the model folds tokens or frames into the sample axis, (B * T, ...), levels pass on (B, T, ...). Puts the model into
    evaluation mode.

    Args:
        example: (B, ...) input, B >= 1; it fixes shapes and serves to check the composition.
        boundaries: "preactivations" (after every affine layer or residual sum where one tensor is alive),
            "activations" (after every activation function), "blocks" (stem, each residual block, head; as
            "preactivations" if there are no such blocks), "layers" (after every affine layer, also inside blocks, or
            after the sum that alone uses its outputs), a number of levels, or names of modules to cut after.
        leaves: names of submodules to trace as a whole. Submodules that torch.fx cannot follow are added automatically, up to
            the whole model but its last layers: see `SINGLE`.
    Raises:
        ValueError: the model cannot be traced or cut this way (the message says why and what to do), two levels would share
            a parameter, a BatchNorm keeps no running statistics, or a level ends where the first axis counts neither
            samples nor samples and their tokens.
    """
    return cut_trace(trace_classifier(model, example, leaves), boundaries)


@exact()
def trace_classifier(model: nn.Module, example: Tensor, leaves: Sequence[str] = ()) -> Trace:
    """Trace a model for `cut_trace`; see `partition`.

    Args:
        example: (B, ...) input.
    Raises:
        ValueError: the model cannot be traced.
    """
    return trace(classifier(model, example), leaves, example, whole=True)


def classifier(model: nn.Module, example: Tensor) -> nn.Module:
    """A model as it is traced: in evaluation mode, without torch's wrappers, with one output."""
    model = unwrapped(model)
    refuse_archived(model, class_name(model))
    return as_classifier(model.eval(), example)


@exact()
def cut_trace(trace: Trace, boundaries: str | int | Sequence[str] = "preactivations") -> list[Level]:
    """Cut a traced model into levels; see `partition`."""
    model, example, inside = trace.model, trace.example, boundaries == "layers"
    of_levels, folds = folded(trace, layers=inside)
    graph = of_levels.graph
    _refuse_batch_statistics(graph)
    cuts = choose_cuts(graph, boundaries, model)
    segments = cut_into_segments(graph, cuts)
    names = names_of(segments)
    parts = layouts(graph, example)
    for name, segment in zip(names, segments, strict=True):
        for node in segment.alive:
            if node.meta["is_tensor"] and node not in parts:
                parts[node] = _by_first_axis(name, node, len(example))
    if parts[cuts[-1]] != PLAIN:
        raise ValueError(_not_by_samples(names[-1], tuple(cuts[-1].meta["value"])))
    levels = [
        build_level(
            name,
            segment,
            folds,
            parts,
            head=segment.after is cuts[-1],
            trace=trace,
            adding=boundaries == "layers",
        )
        for name, segment in zip(names, segments, strict=True)
    ]
    _refuse_tied_weights(levels, inside=inside)
    check_composition(model, levels, example)
    if trace.sizes or any(parts.get(node) != PLAIN for segment in segments for node in segment.alive):
        _check_samples(levels, example, opposite=wrapper_of(model, TakingPacked) is None)
    return levels


def say_what_is_left(model: nn.Module, example: Tensor, traced: Trace | None = None) -> None:
    """Warn (`Notice`) of layers that only lead to outputs which are not fused: they do not fit the fused neurons that they read.

    Args:
        model: the network whose weights the fused network starts from.
        example: (B, ...) input; the first two samples are run.
        traced: its trace, if there is one.
    """
    if wrapper_of(model, GivingLogits) is None:
        return
    with suppress(ValueError):  # what cannot be traced is refused where that matters
        graph = (traced or trace(model, (), fed(model, example[:2]), whole=True)).graph
        needed = ancestors(next(node for node in graph.nodes if node.op == "output"))
        fused = {node.target for node in needed}  # a layer that also leads to the chosen output
        say_left(model, [str(n.target) for n in graph.nodes if parameter_count(n) and n.target not in fused])


def single_level(kinds: Sequence[str]) -> str:
    """`SINGLE` if there is one level and it is not affine, else ""."""
    return SINGLE if list(kinds) == ["not affine"] else ""


def _by_first_axis(name: str, cut: fx.Node, samples: int) -> Layout:
    """The layout of a tensor whose first axis counts samples, or samples and their tokens or frames.

    Raises:
        ValueError: it does not.
    """
    shape = tuple(cut.meta["value"])
    if not shape or shape[0] % samples:
        raise ValueError(_not_by_samples(name, shape))
    return Layout(0, shape[0] // samples)


def _refuse_tied_weights(levels: list[Level], *, inside: bool) -> None:
    """Refuse weights that two levels would fit, other than tables of embeddings that are looked up again, or tied to a head:
    the neurons are the same, and so are the rows that are written.

    Args:
        inside: whether levels end after every layer.
    """
    owners: dict[int, tuple[str, int]] = {}
    for index, level in enumerate(levels):
        for name, parameter in level.module.named_parameters():
            first_name, first = owners.setdefault(id(parameter), (name, index))
            again = inside and isinstance(levels[first].form, Lookup) and isinstance(level.form, (Lookup, Tied))
            if first != index and not again:
                raise ValueError(
                    f"levels {levels[first].name!r} and {level.name!r} share the weights {first_name!r}: tied "
                    "weights cannot be fitted one level at a time. Cut so that both uses are in one level "
                    "(boundaries=[...], or boundaries=1) and fit it by gradient, or give each layer its own weights."
                )


def _refuse_batch_statistics(graph: fx.Graph) -> None:
    """Refuse BatchNorms that normalise by the current batch, because their outputs depend on the batching."""
    for node in graph.nodes:
        names = []
        if operation(node) == "batchnorm":
            given = dict(zip(PARAMETERS[F.batch_norm], node.args, strict=False)) | dict(node.kwargs)
            names = [node.name] * (given.get("running_mean") is None or given.get("training") is True)
        elif node.op == "call_module":
            parts = held(node).named_modules(prefix=str(node.target))
            names = [name for name, part in parts if isinstance(part, BatchNorm) and part.running_mean is None]
        if names:
            raise ValueError(
                f"the BatchNorm {names[0]!r} keeps no running statistics, so what it computes depends on which samples share a "
                "batch, and no level can be fitted to that. Use one with track_running_stats=True there and pass training "
                "data through it in training mode, or use GroupNorm or InstanceNorm."
            )


@torch.no_grad()
def _check_samples(levels: list[Level], example: Tensor, *, opposite: bool) -> None:
    """Check that a sample gives the same alone as in a batch, because levels are compared sample by sample.

    Args:
        opposite: whether a sample's negative is a valid sample.
    """
    alone: Boundary = example[:1]
    # integers, such as tokens, cannot be negated
    both: Boundary = torch.cat([example[:1], -example[:1] if opposite else example[-1:]])
    for level in levels:
        try:
            alone, both = level.module(alone), level.module(both)
        except Exception as error:  # whatever an operation raises
            raise ValueError(
                f"level {level.name!r} does not run on a batch of another size: {first_line(error)}"
            ) from error
        for one, batch in zip(*((end,) if isinstance(end, Tensor) else end for end in (alone, both)), strict=True):
            first = batch[:1]
            if one.shape != first.shape or not torch.allclose(
                one.double(), first.double(), rtol=0, atol=rounding(batch), equal_nan=True
            ):
                raise ValueError(_not_by_samples(level.name, tuple(batch.shape)))


def _not_by_samples(name: str, shape: tuple[int, ...]) -> str:
    return (
        f"level {name!r} ends with a tensor of shape {shape}, whose first axis does not count samples, nor samples "
        "and their tokens in this order. Keep samples first there, or let levels end elsewhere (boundaries=[module "
        "names])."
    )


@torch.no_grad()
def check_composition(model: nn.Module, levels: Sequence[Level], example: Tensor) -> None:
    """Refuse levels whose composition is not the model."""
    expected = model(example.clone())  # the model may write into it
    try:
        composed = compose(levels, example)
    except Exception as error:  # whatever an operation raises on a wrong shape
        raise ValueError(
            f"partition does not reproduce the model: {first_line(error)}. Name other boundaries."
        ) from error
    gap = (expected - composed).abs().max().item() if expected.shape == composed.shape else float("inf")
    tolerance = rounding(expected)
    if not gap <= tolerance and torch.isfinite(expected).all():
        raise ValueError(
            f"partition does not reproduce the model: outputs differ by up to {gap:.2g} (tolerance {tolerance:.2g}). "
            "Is its forward random or dependent on earlier calls? Name other boundaries with boundaries=[...]."
        )
