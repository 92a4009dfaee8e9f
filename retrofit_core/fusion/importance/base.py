"""What a score is: the neurons of one parent that it sees, the base class of all scores, and the two that compute nothing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from ...networks.levels import Level, is_branched
from ...networks.outputs import check_class_scores
from ...system.labels import as_labels
from ...system.monitor import Monitor
from ...system.settings import Value, setting
from ..samples import read_once

#: Added to every score, so that classes which a parent never saw keep a tiny weight (docs/method.md).
EPSILON = 1e-8
#: Maximum bytes of a batch's activations and gradients.
BATCH_BYTES = 2**30


@dataclass(frozen=True)
class Place:
    """A tensor of a network that holds neurons, where no level ends."""

    name: str
    axis: int
    """Neuron axis"""
    width: int
    """Number of neurons"""


@dataclass(frozen=True, eq=False)
class Neurons:
    """The neurons of one parent that are scored, wherever they are; the last are the classes.

    Called with inputs (B, ...), it returns the tensors that hold them, (B, ...) each. These have gradients where gradients are
    enabled, and can be differentiated with respect to each other.
    """

    places: Sequence[Level] | Sequence[Place]
    """Name, axis and width of each tensor; levels, with their modules and weights, if all neurons are levels' outputs"""
    run: Callable[[Tensor], list[Tensor]]
    """Inputs, with gradients if these are enabled -> the tensors"""

    @classmethod
    def of(cls, levels: Sequence[Level]) -> "Neurons":
        """The outputs of a network's levels."""
        return cls(levels, partial(_outputs, levels))

    def __call__(self, x: Tensor) -> list[Tensor]:
        return self.run(x.detach().requires_grad_(torch.is_grad_enabled()))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.places)

    @property
    def levels(self) -> list[Level]:
        """The network's levels; none if neurons are scored elsewhere."""
        return [place for place in self.places if isinstance(place, Level)]

    @property
    def in_chain(self) -> bool:
        """Whether each tensor is all that is alive there, so that a change of the logits passes through it."""
        return bool(self.levels) and not is_branched(self.levels)

    def batch(self, copies: int) -> int:
        """Samples (1 to 64) for which `copies` of all levels' outputs, float32, fit into BATCH_BYTES."""
        numbers = sum(level.width * level.positions for level in self.levels)
        return max(1, min(64, BATCH_BYTES // (4 * copies * max(1, numbers))))


def _outputs(levels: Sequence[Level], boundary: Tensor) -> list[Tensor]:
    outputs = []
    for level in levels:
        boundary = level.module(boundary)
        outputs.append(level.of(boundary))
    return outputs


@dataclass(frozen=True)
class Scores:
    """Raw scores of one parent, and facts about how they were computed."""

    values: list[Tensor]
    """One (width,) tensor per place, not negative"""
    report: dict[str, Any] = field(default_factory=dict)
    """For attributions in a chain: `completeness_gap` per level, |sum of attributions - (f_y(x) - f_y(0))| relative to the
    latter"""


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

    data: Any = field(default=None)
    """Data for the scores: one (inputs, labels) per parent (in the paper, its own training data), or "fusion" for the fusion
    data"""
    normalise_scores: bool = setting(
        True, "normalise the scores of each level and parent to sum to 1", title="Scores sum to one"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "data", read_once(self.data))

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

    def check(self, neurons: Neurons) -> None:
        """Check before any work that the score covers these neurons.

        Raises:
            ValueError: says what it does not cover, and a solution.
        """

    def scores(self, neurons: Neurons, x: Tensor, y: Tensor | None, *, monitor: Monitor) -> Scores | Sequence[Tensor]:
        """One (width,) tensor per place, not negative; the caller adds 1e-8 and normalises them. Gradients are enabled.

        Args:
            x: (B, ...) all inputs, on the network's device; the score itself splits them into batches (`neurons.batch`).
            y: (B,) int64 labels of the network's classes. None only if `needs_labels` is false; other scores assert that
                they are given.
            monitor: `monitor.each("step", batches, name=)` shows progress, and stops where that was requested.
        """
        raise NotImplementedError(f"{type(self).__name__} has no scores(self, neurons, x, y, *, monitor).")


@dataclass(frozen=True, eq=False)
class Uniform(Importance):
    """Equal importance of all neurons (paper sec. 2.2); needs no data."""

    needs_data: ClassVar[bool] = False
    needs_labels: ClassVar[bool] = False
    widths_only: ClassVar[bool] = True

    def scores(self, neurons: Neurons, x: Tensor, y: Tensor | None, *, monitor: Monitor) -> Scores:
        """1/width for each neuron, (width,) each."""
        return Scores([torch.full((place.width,), 1 / place.width, dtype=torch.float64) for place in neurons])


@dataclass(frozen=True, eq=False)
class Custom(Importance):
    """Importance from a function `(neurons, x, y) -> Scores`, or one (width,) tensor or array per place."""

    reads_logits: ClassVar[bool] = False  # left to the function

    function: Callable[..., Any] = field(kw_only=True)
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keywords passed to the function"""

    @property
    def __name__(self) -> str:
        """The function's name, for records and messages."""
        return getattr(self.function, "__name__", str(self.function))

    def scores(self, neurons: Neurons, x: Tensor, y: Tensor | None, *, monitor: Monitor) -> Any:
        """The function's result."""
        return self.function(neurons, x, y, **self.options)


def summed(
    name: str,
    attribute: Callable[[Tensor, Tensor], tuple[Sequence[Tensor], float]],
    neurons: Neurons,
    x: Tensor,
    y: Tensor,
    monitor: Monitor,
    *,
    copies: int,
) -> Scores:
    """Scores from attributions, batch by batch.

    Args:
        attribute: (inputs, labels) -> the attributions of the scored tensors, (B, ...) each, and the sum of f_y(x) - f_y(0),
            which the attributions of each tensor of a chain should add up to.
        copies: of all tensors that it holds at once.
    """
    axes, size = [place.axis for place in neurons], neurons.batch(copies)
    sums: list[Tensor | float] = [0.0] * len(axes)
    signed, change = torch.zeros(len(axes), dtype=torch.float64, device=x.device), 0.0
    batches = list(zip(x.split(size), as_labels(y).split(size), strict=True))
    for inputs, labels in monitor.each("step", batches, name=name):
        attributions, of_batch = attribute(inputs, labels)
        for index, attribution in enumerate(attributions):
            values = attribution.movedim(axes[index], -1).flatten(0, -2)
            sums[index] = sums[index] + values.abs().double().sum(0)  # of samples and positions
            signed[index] += attribution.sum(dtype=torch.float64)
        change += of_batch
    report: dict[str, Any] = {"samples": len(x)}
    if neurons.in_chain:
        report["completeness_gap"] = [abs(total - change) / max(abs(change), 1e-12) for total in signed.tolist()]
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
