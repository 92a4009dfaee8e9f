"""Find which neuron of the previous level each input of a layer comes from, by changing neurons."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from .level import Level

#: Samples of a probe; many, because a single one may hit a flat part of an activation function.
SAMPLES = 64
#: Owners of numbers that depend on no neuron, or on several.
NOBODY, SEVERAL = -1, -2


@torch.no_grad()
def owners(read: Callable[[Tensor], Tensor], first: Tensor, second: Tensor, axis: int) -> Tensor:
    """The neuron of a tensor that each number read from it depends on, or `NOBODY`, or `SEVERAL`.

    Changes all neurons that share a binary digit at once, so log2(neurons) probes suffice.
    Args:
        read: tensor -> (B, numbers).
        first, second: (B, ...) two values of the tensor.
        axis: neuron axis.
    """
    before, neurons = read(first.clone()), torch.arange(first.shape[axis], device=first.device)

    def changed(chosen: Tensor) -> Tensor:
        h = torch.where(chosen, second.movedim(axis, -1), first.movedim(axis, -1)).movedim(-1, axis)
        return ((read(h) - before).abs() > 1e-5 * before.abs().max()).any(0)

    reached, owner = changed(neurons >= 0), torch.zeros_like(before[0], dtype=torch.int64)
    for digit in range((len(neurons) - 1).bit_length()):
        one = (neurons >> digit) % 2 == 1
        with_one = changed(one)
        owner += with_one.long() << digit
        owner[(with_one ^ changed(~one)) != reached] = SEVERAL * len(neurons)
    return torch.where(owner < 0, SEVERAL, torch.where(reached, owner, NOBODY))


def reads_one_by_one(reader: Level, width: int) -> bool:
    """Whether a chain's level is one layer that may read `width` neurons, each at equally many places."""
    layer = reader.affine
    if layer is None or len(reader.form.layers) != 1 or reader.form.adds or reader.form.parts:
        return False
    return layer.in_features % width == 0 if isinstance(layer, nn.Linear) else layer.in_channels == width


@torch.no_grad()
def places_read(reader: Level, axis: int, boundary: Tensor) -> tuple[Tensor, Tensor] | None:
    """Positions of each neuron of the previous level among a layer's inputs for one sample, in an order that all share.

    Returns:
        (width, places) positions; and (places,) what is read there of a probe equal for all neurons, which identifies the
        order. None if inputs mix several neurons or the orders differ.
    Args:
        reader: see `reads_one_by_one`.
        axis: neuron axis.
        boundary: before the reader, any values.
    """
    generator = torch.Generator().manual_seed(0)
    shape, width = (SAMPLES, *boundary.shape[1:]), boundary.shape[axis]
    first, second = (torch.randn(shape, generator=generator).to(boundary) for _ in range(2))

    def read(h: Tensor) -> Tensor:
        return reader.form.read(h.contiguous())[0][0].flatten(1)

    owner = owners(read, first, second, axis)
    if (owner == SEVERAL).any():
        return None
    reached = owner >= 0
    numbers = reached.nonzero()[:, 0]
    counts = owner[numbers].bincount(minlength=width)
    if not counts[0] or not (counts == counts[0]).all():
        return None
    places = numbers[owner[numbers].argsort(stable=True)].view(width, -1)
    others = first.select(axis, 0).shape
    alike = torch.randn(others, generator=generator.manual_seed(1)).to(boundary).unsqueeze(axis).expand(shape)
    shared = read(alike)[:, places]
    if not torch.allclose(shared, shared[:, :1].expand_as(shared), rtol=1e-4, atol=1e-5):
        return None
    return places, shared[0, 0]
