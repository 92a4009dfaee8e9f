"""Importance: how much each neuron matters to its parent's decisions (paper sec. 2.2 and App. F).

A score is a subclass of `Importance`, whose fields are its options, and one line in IMPORTANCE. Users pass their own as a
function `(levels, x, y) -> list of one (width,) tensor per level`, alone or as `Custom(data, function=...)`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...networks.copies import copies
from ...networks.levels import Level, is_branched, partition
from ...networks.wrappers import unwrapped
from ...system.device import exact
from ...system.labels import check_classes, class_labels
from ...system.monitor import Monitor
from ...system.refusals import Refusal
from ...system.registry import made, name_of
from ..samples import ordinary
from .base import EPSILON, Importance, Scores
from .conductance import Conductance
from .custom import Custom
from .deeplift import DeepLift
from .uniform import Uniform

IMPORTANCE: dict[str, type[Importance]] = {
    "uniform": Uniform,
    "conductance": Conductance,
    "deeplift": DeepLift,
}

__all__ = [
    "EPSILON",
    "IMPORTANCE",
    "Conductance",
    "Custom",
    "DeepLift",
    "Importance",
    "Scores",
    "Uniform",
    "as_importance",
    "check_labels",
    "checked_scores",
    "importance_name",
    "importance_scores",
    "scores_inside",
]


def as_importance(importance: str | Importance | Callable[..., Any], **options: object) -> Importance:
    """Make an importance from a name, a class or a function.

    Args:
        options: fields of a name's or class's value, or keywords of a function.
    Raises:
        ValueError: unknown name or field, or a wrong value of a field.
    """
    if callable(importance) and not isinstance(importance, (type, Importance)):
        shared: dict[str, Any] = {name: options.pop(name) for name in ("data", "normalise_scores") if name in options}
        return Custom(function=importance, options=options, **shared)
    return made({**IMPORTANCE, "custom": Custom}, importance, "importance", **options)


def importance_name(importance: Importance) -> str:
    """The name of a score in tables, records and messages."""
    return name_of(IMPORTANCE, importance)


def check_labels(y: Tensor | None, importance: Importance) -> Tensor | None:
    """Labels (B,) as int64, if the score needs them; others are returned as they are.

    Raises:
        ValueError: needed labels are missing, or are not integers.
    """
    name = importance_name(importance)
    if not importance.needs_labels:
        return y
    if y is None:
        raise ValueError(
            f"importance {name!r} needs labels. Pass one (inputs, labels) per parent as importance data, or use "
            "importance='uniform'."
        )
    return class_labels(y, f"importance {name!r}")


@exact()
def importance_scores(
    model: nn.Module | Sequence[Level],
    x: Tensor,
    y: Tensor | None,
    importance: str | Importance | Callable[..., Any] = "conductance",
    *,
    monitor: Monitor | None = None,
    **options: object,
) -> Scores:
    """Scores of one parent's neurons at every level, + 1e-8, normalised to sum 1 per level; on the device of the inputs.

    Args:
        model: a module, or its levels.
        x: (B, ...) inputs on the model's device.
        y: (B,) labels; attributions explain the logit of the true class.
        importance: a value, a name in IMPORTANCE, or a function `(levels, x, y)`.
        options: fields of a named score; `normalise_scores=False` keeps raw scores (parents with larger logits then
            weigh more).
    Raises:
        ValueError: unknown name, missing labels, or scores that are negative, not finite or of the wrong shape.
    """
    value = as_importance(importance, **options)
    x, y = ordinary(x), None if y is None else ordinary(y)
    levels = _levels_of_copy(model, x) if isinstance(model, nn.Module) else list(model)
    check_covered(value, levels)
    y = check_labels(y, value)
    if y is not None and value.needs_labels and value.reads_logits:
        check_classes(y, levels[-1].width, f"importance {importance_name(value)!r}", "the network")
    with torch.enable_grad():
        if is_branched(levels) and not value.widths_only:
            assert y is not None
            scores = _at_outputs(value, levels, x, y, monitor or Monitor())
        else:
            scores = value.scores(levels, x, y, monitor=monitor or Monitor())
    scores = scores if isinstance(scores, Scores) else Scores([torch.as_tensor(score) for score in scores])
    widths = [(level.name, level.width) for level in levels]
    return checked_scores(scores, value, widths, x.device)


def _levels_of_copy(model: nn.Module, x: Tensor) -> list[Level]:
    (copied,) = copies({"the network": unwrapped(model)}).values()
    return partition(copied, x[:2])


def check_covered(importance: Importance, levels: Sequence[Level]) -> None:
    """Check before any work that a score covers all levels.

    Raises:
        ValueError: says what it does not cover, and a solution.
    """
    if is_branched(levels) and not importance.widths_only:
        check_anywhere(importance)
    importance.check(levels)


def check_anywhere(importance: Importance) -> None:
    """Check that a score is defined inside blocks.

    Raises:
        ValueError: names others.
    """
    others = [other for other, score in IMPORTANCE.items() if score.scores_anywhere or score.widths_only]
    if not importance.scores_anywhere:
        raise Refusal(
            f"importance {importance_name(importance)!r} is defined only at the ends of levels, but this network has "
            f"neurons inside blocks. Use importance={' or '.join(map(repr, others))}.",
            *(("importance", other) for other in others),
        )


def _at_outputs(value: Importance, levels: Sequence[Level], x: Tensor, y: Tensor, monitor: Monitor) -> Scores:
    """Scores at the outputs of levels, some of them inside blocks."""

    def run(inputs: Tensor, *, with_gradients: bool) -> list[Tensor]:
        boundary, outputs = inputs.detach().requires_grad_(with_gradients), []
        with torch.set_grad_enabled(with_gradients):
            for level in levels:
                boundary = level.module(boundary)
                outputs.append(level.of(boundary))
        return outputs

    return scores_inside(value, run, [level.axis for level in levels], x, y, monitor)


def scores_inside(
    importance: Importance,
    run: Callable[..., list[Tensor]],
    axes: Sequence[int],
    x: Tensor,
    y: Tensor,
    monitor: Monitor,
) -> Scores:
    """`Importance.scores_at` without the completeness gap: inside a block, attributions do not sum to f_y(x) - f_y(0)."""
    scores = importance.scores_at(run, axes, x, y, monitor=monitor)
    return Scores(scores.values, {name: fact for name, fact in scores.report.items() if name != "completeness_gap"})


def checked_scores(
    scores: Scores, importance: Importance, widths: Sequence[tuple[str, int]], device: torch.device
) -> Scores:
    """Check raw scores, and return them as float64, + 1e-8, normalised if the importance says so.

    Args:
        widths: (name, number of neurons) of each level or neuron group.
    Raises:
        ValueError: wrong number of levels or neurons; negative or non-finite scores.
    """
    name = importance_name(importance)
    if len(scores.values) != len(widths):
        raise ValueError(f"importance {name!r} returned {len(scores.values)} tensors for {len(widths)} levels.")
    for value, (level, width) in zip(scores.values, widths, strict=True):
        if value.shape != (width,):
            raise ValueError(
                f"importance {name!r} returned shape {tuple(value.shape)} for level {level!r}; it has {width} neurons."
            )
    sizes = [width for _, width in widths]
    values = torch.cat([value.detach() for value in scores.values]).to(device, torch.float64).split(sizes)
    usable = torch.stack([(torch.isfinite(value) & (value >= 0)).all() for value in values]).tolist()  # one sync
    if not all(usable):
        level = widths[usable.index(False)][0]
        raise ValueError(f"importance {name!r} returned negative or non-finite scores for level {level!r}.")
    values = [value + EPSILON for value in values]
    normalised = [value / value.sum() for value in values] if importance.normalise_scores else values
    return Scores(normalised, scores.report)
