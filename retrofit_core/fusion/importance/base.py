"""The base class of importance scores: one number per neuron, level and parent."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from ...networks.levels import Level
from ...networks.outputs import check_class_scores
from ...system.labels import as_labels
from ...system.monitor import Monitor
from ...system.settings import Value, setting

#: Added to every score, so that classes which a parent never saw keep a tiny weight (docs/method.md).
EPSILON = 1e-8
#: Maximum bytes of a batch's activations and gradients.
BATCH_BYTES = 2**30


@dataclass(frozen=True)
class Scores:
    """Raw scores of one parent, and facts about how they were computed."""

    values: list[Tensor]
    """One (width,) tensor per level, not negative"""
    report: dict[str, Any] = field(default_factory=dict)
    """For attributions: `completeness_gap` per level, |sum of attributions - (f_y(x) - f_y(0))| relative to the latter"""


@dataclass(frozen=True, eq=False)
class Importance(Value):
    """Base class of importance scores: their data, requirements and cost.

    A new score needs a method `scores` and one line in IMPORTANCE; its fields are its options.
    """

    title: ClassVar[str] = ""
    """Its displayed name, if that is not its name in the table"""
    needs_data: ClassVar[bool] = True
    needs_labels: ClassVar[bool] = True
    """Whether it explains decisions for the true classes"""
    reads_logits: ClassVar[bool] = True
    """If it needs labels: whether it reads the logit of the true class, so that outputs must be class scores"""
    widths_only: ClassVar[bool] = False
    """Whether it depends only on the widths of levels, so that anything with neurons has scores"""
    scores_anywhere: ClassVar[bool] = False
    """Whether it has `scores_at`, for neurons inside blocks"""

    data: Any = field(default=None)
    """Data for the scores: one (inputs, labels) per parent (in the paper, its own training data), or "fusion" for the fusion
    data"""
    normalise_scores: bool = setting(
        True, "normalise the scores of each level and parent to sum to 1", title="Scores sum to one"
    )

    def on(self, data: object) -> Self:
        """The same score on these data.

        Raises:
            ValueError: it already has data.
        """
        if self.data is not None:
            raise ValueError(
                f"importance_data is given in addition to data inside {type(self).__name__}(...). Pass only one of "
                "them."
            )
        return replace(self, data=data)

    def for_whole_numbers(self, whole: Tensor) -> Self:
        """The same score for networks with integer inputs, which cannot be scaled.

        Args:
            whole: mask of the integers in a sample, broadcastable over samples.
        Raises:
            ValueError: the score is undefined for them.
        """
        return self

    def check(self, levels: Sequence[Level]) -> None:
        """Check before any work that the score covers the network.

        Raises:
            ValueError: says what it does not cover, and a solution.
        """

    def passes(self, levels: int) -> float:
        """Forward and backward passes of each sample through a network with this number of levels; 0 if negligible."""
        return 0.0

    def scores(
        self, levels: Sequence[Level], x: Tensor, y: Tensor | None, *, monitor: Monitor
    ) -> Scores | Sequence[Tensor]:
        """One (width,) tensor per level of one parent, not negative; the caller adds 1e-8 and normalises them.

        Gradients are enabled. The tensor after the last level holds the logits.

        Args:
            x: (B, ...) all inputs, on the levels' device; the score itself splits them into batches (`samples_per_batch`).
            y: (B,) int64 labels of the network's classes. None only if `needs_labels` is false; other scores assert that
                they are given.
            monitor: call `check()` and `emit("step", index=, total=, name=)` before each batch.
        """
        raise NotImplementedError(f"{type(self).__name__} has no scores(self, levels, x, y, *, monitor).")

    def scores_at(
        self,
        run: Callable[..., list[Tensor]],
        axes: Sequence[int],
        x: Tensor,
        y: Tensor,
        *,
        monitor: Monitor,
    ) -> Scores:
        """The same for any tensors of a network, if `scores_anywhere`.

        Args:
            run: (inputs, with_gradients=) -> the tensors to score, ending with the outputs.
            axes: neuron axis of each.
        """
        raise NotImplementedError


def samples_per_batch(levels: Sequence[Level], copies: int, bytes_per_number: int = 4) -> int:
    """Samples (1 to 64) for which `copies` of all activations fit into BATCH_BYTES."""
    numbers = sum(level.width * level.positions for level in levels)
    return max(1, min(64, BATCH_BYTES // (bytes_per_number * copies * numbers)))


def absolute_sum(attribution: Tensor, axis: int) -> Tensor:
    """(width,) sum of |attribution| over samples and positions; the absolute value comes first."""
    moved = attribution.movedim(axis, -1)
    return moved.abs().reshape(-1, moved.shape[-1]).double().sum(0)


def summed(
    name: str,
    attribute: Callable[[Tensor, Tensor], tuple[Sequence[Tensor], float]],
    axes: Sequence[int],
    x: Tensor,
    y: Tensor,
    batch: int,
    monitor: Monitor,
) -> Scores:
    """Scores from attributions, batch by batch.

    Args:
        attribute: (inputs, labels) -> the attributions of the scored tensors, (B, ...) each, and the sum of f_y(x) - f_y(0),
            which the attributions of each tensor should add up to.
        axes: neuron axis of each.
    """
    sums: list[Tensor | float] = [0.0] * len(axes)
    signed, change = torch.zeros(len(axes), dtype=torch.float64, device=x.device), 0.0
    batches = list(zip(x.split(batch), as_labels(y).split(batch), strict=True))
    for inputs, labels in monitor.each("step", batches, name=name):
        attributions, of_batch = attribute(inputs, labels)
        for index, attribution in enumerate(attributions):
            sums[index] = sums[index] + absolute_sum(attribution, axes[index])
            signed[index] += attribution.sum(dtype=torch.float64)
        change += of_batch
    gaps = [abs(total - change) / max(abs(change), 1e-12) for total in signed.tolist()]
    report = {"samples": len(x), "completeness_gap": gaps}
    return Scores([torch.as_tensor(total / len(x)) for total in sums], report)


def true_logits(outputs: Tensor, y: Tensor) -> Tensor:
    """f_y(x): (B,) each sample's logit of its label.

    Raises:
        ValueError: outputs are no class scores.
    """
    check_class_scores(
        outputs.shape[1:], "the logit of the true class", "Use importance='uniform'.", ("importance", "uniform")
    )
    return outputs.gather(1, y[:, None].to(torch.int64))[:, 0]
