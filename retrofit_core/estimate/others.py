"""Methods that do not go level by level: whether they work, by their own checks, and what can be counted of their work."""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .. import device as devices
from ..baselines import distillation, ensembling, linear_probe
from ..baselines.layersums import affine_layers
from ..data import Images
from ..eligibility import check_outputs
from ..methods import METHODS, settings_of, suited
from ..monitor import Event, Monitor
from ..options import options_of
from ..registry import find
from ..runs import UNASKED, RunConfig
from ..symmetry import neuron_groups
from .memory import LEVEL_FACTS, PROCESS, RUN_FACTS, held_bytes
from .pace import Pace, step_seconds
from .seconds import importance_seconds


class _Begun(Exception):  # noqa: N818 - not an error: the checks are over
    """The method has begun to work."""


@dataclass(frozen=True)
class Rehearsed:
    """A method that found nothing to refuse."""

    function: Any
    """The method itself, without the keywords that its name fixes"""
    keywords: set[str]
    """that it takes"""
    parents: list[nn.Module]
    fused: list[nn.Module]
    """The networks that its result is made of: one, or all parents side by side"""
    widths: list[list[int]]
    """Of each neuron group that it aligns, those of the parents; empty for methods that align nothing"""


def rehearse(
    config: RunConfig,
    models: list[nn.Module],
    target: nn.Module | None,
    data: Images,
    images: int,
    counts: list[int] | None,
    shares: Tensor | None,
) -> Rehearsed:
    """Call the method on networks without weights, up to where its work begins.

    Raises:
        ValueError: its refusal.
    """
    inputs = torch.zeros(1, *data.shape).expand(images, -1, -1, -1)
    check_outputs([*models, *([target] if target is not None else [])], inputs)  # most methods see this late
    few = [(inputs[:2], torch.zeros(2, dtype=torch.long))] * len(models)
    given = {
        "importance": config.importance,
        "importance_data": few,
        "target": target,
        "toward": config.toward,
        "boundaries": config.boundaries,
        "memory": config.memory or devices.MEMORY,
        "head": config.head,
        "class_shares": shares,
        "sample_counts": counts,
        "preset": config.preset,
        "seed": config.seed,
        "device": "cpu",
        "monitor": Monitor(_begin),
        **({} if config.ridge == "auto" else {"ridge": config.ridge}),
    }
    method = find(METHODS, config.method, "method")
    with contextlib.suppress(_Begun):
        method(models, inputs, **suited(config.method, given, UNASKED), **(config.options or {}))
    function = getattr(method, "func", method)
    keywords = settings_of(config.method)
    widths = _widths(models, inputs[:1]) if "leaves" in keywords else []
    fused = models if function is ensembling else [target if target is not None else models[0]]
    return Rehearsed(function, keywords, models, fused, widths)


def _begin(event: Event) -> None:
    """Phases may come before the last check; everything else is work."""
    if event["kind"] != "phase":
        raise _Begun


def _widths(models: Sequence[nn.Module], example: Tensor) -> list[list[int]]:
    groups = [neuron_groups(model, example) for model in models]
    return [[group.width for group in alike] for alike in zip(*groups, strict=True)]


def method_seconds(
    config: RunConfig, found: Rehearsed, images: int, paces: Sequence[Pace], place: torch.device
) -> tuple[tuple[float, float], bool]:
    """Seconds of what can be counted (at least, at most), and whether that is all of it.

    Args:
        paces: of the parents, then of the fused network.
    """
    *parents, fused = paces
    if not found.widths and found.function not in (distillation, linear_probe):
        whole = "importance_data" not in found.keywords  # averages and ensembles
        passes = 0.0 if whole else images * sum(pace.forward for pace in parents)
        return (passes, passes), whole
    always = images * sum(pace.forward for pace in parents)
    if found.widths:
        always += importance_seconds(config, len(found.widths), parents)
        return (always, always), False
    settings = {name: option.default for name, option in options_of(config.method).items()} | (config.options or {})
    student = fused if found.function is distillation else Pace(step_seconds(place.type), 0.0)
    if settings.get("fit") == "ridge":
        return (always, always), True
    train, held_out = images * (1 - settings["validation"]), images * settings["validation"]
    steps = math.ceil(train / settings["batch_size"]) * max(student.fixed, step_seconds(place.type))
    epoch = steps + train * student.each + held_out * student.forward
    fewest = min(settings["epochs"], (settings["patience"] or settings["epochs"]) + 1)
    most = settings["epochs"] * epoch
    if settings.get("budget") is not None:
        most = min(most, settings["budget"] + epoch)
    return (always + min(fewest * epoch, most), always + most), True


def memory_bytes(found: Rehearsed, images: int, data: Images, training: int) -> int:
    """At the peak: networks, data, and the most that the method or the training of parents takes beside them.

    Args:
        training: bytes of a training step of the parents, 0 if they are there.
    """
    weights = sum(map(_bytes, [*found.parents, *found.fused]))
    own = 0
    if found.widths:  # sums of all groups in float64, their products, and what all samples are at one operation
        own = 2 * 8 * sum(sum(widths) ** 2 for widths in found.widths)
        own += 4 * images * max(outputs(found.fused[0], data.shape))
    elif found.function is distillation:
        own = step_bytes(found.fused[0], data.shape, min(images, 64))
    elif "importance_data" in found.keywords:  # inputs of every layer, all at once
        layers = affine_layers(found.fused[0]).values()
        own = 2 * 8 * len(found.parents) * sum(layer.weight[0].numel() ** 2 for layer in layers)
    return PROCESS + weights + held_bytes(images, data) + max(own, training)


def step_bytes(model: nn.Module, shape: Sequence[int], batch: int) -> int:
    """Of a training step: gradients, two moments and the best weights; activations and their gradients."""
    return 4 * _bytes(model) + 2 * 4 * batch * sum(outputs(model, shape))


def outputs(model: nn.Module, shape: Sequence[int]) -> list[int]:
    """Numbers that each module without parts of its own hands on for an image."""
    found: list[int] = [0]
    leaves = [module for module in model.modules() if not list(module.children())]
    hooks = [
        leaf.register_forward_hook(lambda _, __, out: found.append(out.numel()) if isinstance(out, Tensor) else None)
        for leaf in leaves
    ]
    with torch.no_grad():
        model(torch.zeros(1, *shape))
    for hook in hooks:
        hook.remove()
    return found


def disk_bytes(found: Rehearsed, missing: Sequence[int]) -> int:
    """The parents that are trained, the result, and what the record keeps of each neuron group."""
    groups = sum(LEVEL_FACTS + 4 * sum(widths) ** 2 + 24 * sum(widths) for widths in found.widths)
    trained = sum(_bytes(found.parents[index]) for index in missing)
    return RUN_FACTS + trained + sum(map(_bytes, found.fused)) + groups


def _bytes(model: nn.Module) -> int:
    return 4 * sum(value.numel() for value in model.state_dict().values())
