"""What an importance score is: one number per neuron, level and parent."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from ...networks.levels import Level
from ...networks.outputs import check_class_scores
from ...system.monitor import Monitor
from ...system.settings import Value, setting

#: Added to every score, so that a class which a parent never saw keeps a vanishing weight, not none (docs/method.md).
EPSILON = 1e-8
#: Bytes of activations and gradients that one batch of samples may take.
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
    """Base of the importance scores: what they are computed on, what they need, what they cost.

    A new score is a class with `scores`, and one line in IMPORTANCE; its fields are its options.
    """

    title: ClassVar[str] = ""
    """Its name in words, for pages; the class's name where it says none"""
    needs_data: ClassVar[bool] = True
    needs_labels: ClassVar[bool] = True
    """Whether it explains decisions for the true classes"""
    reads_logits: ClassVar[bool] = True
    """Where it needs labels: whether it reads the logit of the true class, which outputs of other shapes do not have"""
    widths_only: ClassVar[bool] = False
    """Whether it looks at nothing but the widths of levels, so that anything with neurons has scores"""
    scores_anywhere: ClassVar[bool] = False
    """Whether it has `scores_at`, for neurons inside blocks, where no level ends"""

    data: Any = field(default=None)
    """What the scores are computed on: one (inputs, labels) per parent (the paper: its own training data), or "fusion" for
    the fusion data"""
    normalise_scores: bool = setting(
        True, "importance scores of each level and parent sum to 1", title="Scores sum to one"
    )

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "title" not in vars(cls):
            cls.title = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", cls.__name__).capitalize()

    def on(self, data: object) -> Self:
        """The same score on these data.

        Raises:
            ValueError: it has data already.
        """
        if self.data is not None:
            raise ValueError(
                f"importance_data are given beside data inside {type(self).__name__}(...). Give one of them."
            )
        return replace(self, data=data)

    def for_whole_numbers(self, whole: Tensor) -> Self:
        """The same score for networks that read whole numbers, which cannot be halved.

        Args:
            whole: which numbers of a sample are whole, in a form that broadcasts over samples.
        Raises:
            ValueError: the score is not known there.
        """
        return self

    def check(self, levels: Sequence[Level]) -> None:
        """Refuse, before any work, a network that the score does not cover.

        Raises:
            ValueError: says what is not covered, and the way out.
        """

    def passes(self, levels: int) -> float:
        """Passes forward and backward that a sample takes through a network of so many levels; at 0 the estimate leaves the
        scores out."""
        return 0.0

    def scores(
        self, levels: Sequence[Level], x: Tensor, y: Tensor | None, *, monitor: Monitor
    ) -> Scores | Sequence[Tensor]:
        """One (width,) tensor per level of one parent, not negative; 1e-8 is added, and they are normalised, afterwards.

        Gradients are on. The tensor after the last level holds the logits.

        Args:
            x: (B, ...) all inputs, on the levels' device: the score itself takes them in batches (`samples_per_batch`).
            y: (B,) int64 labels of classes that the network has. None only if `needs_labels` is false: other scores assert
                that there are some.
            monitor: to be asked before each batch (`check`), and told of it (`emit("step", index=, total=, name=)`).
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
        """The same wherever a network can be watched, where `scores_anywhere`.

        Args:
            run: (inputs, with_gradients=) -> the tensors that are scored, the last one being the outputs.
            axes: the neuron axis of each.
        """
        raise NotImplementedError


def samples_per_batch(levels: Sequence[Level], copies: int, bytes_per_number: int = 4) -> int:
    """Samples whose activations at all levels, `copies` times over, fit into BATCH_BYTES."""
    numbers = sum(level.width * level.positions for level in levels)
    return max(1, min(64, BATCH_BYTES // (bytes_per_number * copies * numbers)))


def absolute_sum(attribution: Tensor, axis: int) -> Tensor:
    """(width,) sum of |attribution| over samples and positions: the absolute value comes before any sum."""
    moved = attribution.movedim(axis, -1)
    return moved.abs().reshape(-1, moved.shape[-1]).double().sum(0)


def gaps(signed: Sequence[float], change: float) -> list[float]:
    """Relative completeness gap of each level: signed attributions should sum to f_y(x) - f_y(0)."""
    return [abs(total - change) / max(abs(change), 1e-12) for total in signed]


def true_logits(outputs: Tensor, y: Tensor) -> Tensor:
    """f_y(x): (B,) each sample's logit of its own label.

    Raises:
        ValueError: outputs that are no class scores.
    """
    check_class_scores(
        outputs.shape[1:], "the logit of the true class", "Use importance='uniform'.", ("importance", "uniform")
    )
    return outputs.gather(1, y[:, None].to(torch.int64))[:, 0]
