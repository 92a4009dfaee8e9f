"""What a fit is: how a level's weights are brought to its targets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...networks.levels import Alive, Boundary, Level, each
from ...system.device import Stopwatch
from ...system.monitor import Monitor
from ...system.settings import Value
from ..grouping import Grouping
from ..targets import Targets
from ..walk import Step
from .mapping import Groups, mapped_weights, neurons_read


@dataclass(frozen=True, eq=False)
class Fitting:
    """A level that is about to be fitted, and everything a fit may use."""

    step: Step
    """The fused network's level, the parents' of the same index, and what flows into them"""
    before: tuple[Groups | None, ...] | None
    """The groups of the neurons in each tensor at the boundary before the level, None for the network's input; None at the
    first level"""
    known: Tensor | None
    """(m,) the groups of neurons that a level before has made, such as those of a residual stream that the level writes to; -1
    for those that begin here; None where all do"""
    parts: Tensor | None
    """(m,) the fused network's part to which each neuron is assigned, of grouped convolutions whose parts levels before this one
    have grouped"""
    branched: bool
    """Whether levels of this network lie inside of blocks"""
    attends: bool
    """Whether some of them make queries, keys and values of attentions"""
    first_parent_state: dict[str, Tensor]
    """All tensors of parent 0's levels, under their names in the model"""
    generator: torch.Generator
    monitor: Monitor
    clock: Stopwatch

    @property
    def stream(self) -> Tensor | None:
        """(m,) the groups of all neurons of the level, where levels before it decide them."""
        return None if self.known is None or (self.known < 0).any() else self.known

    @property
    def reads(self) -> tuple[Groups | None, ...] | None:
        """For each layer of the level the groups of the fused neurons over which its input columns run in order (None: it reads
        the network's input); None if one does not read its inputs neuron by neuron."""
        return _reads(self.step.level, self.step.boundary, self.before)

    def parents_weights(self) -> Tensor:
        """W0 (p, m): the parents' own weights on the fused network's inputs.

        Raises:
            ValueError: the level does not read its inputs neuron by neuron, or a parent has other inputs.
        """
        level = self.step.level
        return mapped_weights(
            level, self.step.parents, _known_reads(level, self.reads), self.parts if level.partwise else None
        )


def _reads(
    level: Level, boundary: Boundary, before: Sequence[Groups | None] | None
) -> tuple[Groups | None, ...] | None:
    """See `Fitting.reads`."""
    if before is None or level.channelwise:  # each channel reads itself
        return (None,) * len(level.layers)
    try:
        return tuple(neurons_read(level, k, boundary, before) for k in range(len(level.layers)))
    except LookupError:
        return None


def _known_reads(level: Level, reads: tuple[Groups | None, ...] | None) -> tuple[Groups | None, ...]:
    if reads is None:
        raise ValueError(
            f"level {level.name!r} does not read its inputs channel by channel, so the parents' weights cannot be "
            "mapped onto the fused inputs. Use toward='zero' and refit=True."
        )
    return reads


@torch.no_grad()
def check_mapped(fused: Sequence[Level], parents: Sequence[Sequence[Level]], example: Tensor) -> None:
    """Refuse, before any work, levels onto whose inputs the parents' weights cannot be mapped, whatever the groups will be.

    Args:
        example: (B, ...) a few inputs, on the device.
    Raises:
        ValueError: see `Fitting.parents_weights`.
    """

    def groups(tensor: Alive) -> Groups | None:
        if tensor.maker < 0:
            return None
        made, widths = fused[tensor.maker], [levels[tensor.maker].width for levels in parents]
        labels = torch.cat([torch.arange(width, device=example.device) % made.width for width in widths])
        return Groups(labels, widths, made.width, tensor.axis, tensor.maker if made.stream is None else made.stream)

    generator, boundary = torch.Generator().manual_seed(0), example
    for index, level in enumerate(fused):
        if level.layers:
            before = tuple(map(groups, fused[index - 1].alive)) if index else None
            # not the values there, which a target's weights may make zero
            probe = each(boundary, lambda z: torch.randn(z.shape, generator=generator).to(z)) if index else boundary
            reads = _known_reads(level, _reads(level, probe, before))
            if not level.partwise:
                mapped_weights(level, [levels[index] for levels in parents], reads)
        boundary = level.module(boundary)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A level whose neurons can be grouped now."""

    gram: Tensor
    """(m, m) inner products by which neurons are grouped"""
    fit: Callable[[Grouping, Targets, Tensor], dict[str, Any]]
    """(groups, targets, scores (m,)) -> facts for the level's report; writes the weights that fit the targets into the level"""


@dataclass(frozen=True)
class Fit(Value):
    """Base of the fits. A new one is a class with `prepare`, and one line in FITS; its fields are its options."""

    needs_affine: ClassVar[bool] = False
    """Whether every level must be affine in its weights"""
    needs_inputs: ClassVar[bool] = False
    """Whether it works on sums over the fused network's inputs, and not on their outputs alone"""
    least_samples: ClassVar[int] = 2
    levels: ClassVar[str] = "preactivations"
    """Where levels end by default; see `partition`"""

    @property
    def epochs_range(self) -> tuple[int, int]:
        """Fewest and most epochs that each level is trained for; (0, 0): it is solved. A fit that trains has the fields
        batch_size and validation too, as in `Gradient`."""
        return 0, 0

    def check(self, fused: Sequence[Level], parents: Sequence[Sequence[Level]], example: Tensor) -> None:
        """Refuse, before any work, levels that it cannot fit.

        Args:
            example: (B, ...) a few inputs, on the device.
        Raises:
            ValueError: names the level, the reason and the way out.
        """

    def products(self, weights: torch.dtype, device: torch.device) -> torch.dtype:
        """Precision of the products whose sums it works on, for networks with such weights."""
        return weights

    def prepare(self, fitting: Fitting, sums: Any) -> Prepared:
        """Get ready to group a level's neurons, and to fit it then.

        Args:
            sums: `Moments` or `Rows` of the level.
        """
        raise NotImplementedError
