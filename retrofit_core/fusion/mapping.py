"""Map the parents' weights to the fused network's inputs: W0 of the ridge towards the parents (docs/method.md)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..networks.levels import Affine as AffineForm
from ..networks.levels import Boundary, Level, each
from ..networks.levels.kinds import AffineLayer
from ..system.runtime import Runtime
from .joint_spaces import Levels
from .walk import Step, Walk


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of the parents' neurons at a level."""

    labels: Tensor
    """(m,) group of each neuron"""
    widths: Sequence[int]
    """Neurons of each parent"""
    width: int
    """Number of groups"""
    axis: int = 1
    """Neuron axis of the boundary tensor"""
    stream: int = 0
    """Tensors with the same number hold the same neurons"""


def parents_weights(step: Step) -> Tensor:
    """W0 (p, m): the parents' weights, mapped to the fused network's inputs.

    Raises:
        ValueError: see `mapped_weights`.
    """
    parts = step.parts if step.level.form.parts else None
    return mapped_weights(step.level, step.parents, reads(step, step.boundary), parts)


def reads(step: Step, boundary: Boundary) -> tuple[Groups | None, ...] | None:
    """For each layer of a step's level, the groups of the neurons that it reads in order (None: the network's input); None if
    a layer does not read its inputs neuron by neuron.

    Args:
        boundary: before the level, with any values.
    """
    level, walk = step.level, step.walk
    if any(other.crossed is not None for other in walk.fused[: step.index + 1]):
        return None
    if not step.index or level.form.channelwise:  # each channel reads itself
        return (None,) * len(level.form.layers)
    before = list[Groups | None]()
    for tensor in walk.fused[step.index - 1].alive:
        if tensor.maker < 0:  # the network's input
            before.append(None)
            continue
        report, number = walk.reports[tensor.maker], walk.levels.stream(tensor.maker)[0]
        before.append(Groups(report.labels.to(step.device), report.widths, report.width, tensor.axis, number))
    try:
        return tuple(neurons_read(level, k, boundary, before) for k in range(len(level.form.layers)))
    except LookupError:
        return None


@torch.no_grad()
def check_mapped(levels: Levels, example: Tensor) -> None:
    """Check before any work that the parents' weights can be mapped to every level's inputs, whatever the groups.

    Args:
        example: (B, ...) a few inputs, on the device.
    Raises:
        ValueError: see `mapped_weights`.
    """
    walk, generator = Walk(levels, example, Runtime(device=example.device)), torch.Generator().manual_seed(0)
    for index, level in enumerate(levels.fused):
        labels = torch.cat([torch.arange(width) % level.width for width in levels.widths(index)])
        walk.reports.append(Groups(labels, levels.widths(index), level.width))  # type: ignore[arg-type]
    for step in walk:
        if step.level.affine is None:
            continue
        boundary = step.boundary
        if step.index:  # random values, because a target's weights may make the real ones zero
            boundary = each(boundary, lambda z: torch.randn(z.shape, generator=generator).to(z))
        groups = reads(step, boundary)
        if groups is None or not step.level.form.parts:
            mapped_weights(step.level, step.parents, groups)


def mapped_weights(
    fused: Level, parents: Sequence[Level], reads: Sequence[Groups | None] | None, parts: Tensor | None = None
) -> Tensor:
    """W0 (p, m): each parent neuron's weights, with its inputs replaced by their fused neurons.

    Weights of several neurons in one group are summed; fused neurons without a member from that parent get 0; convolutions
    map each kernel position; the bias is the parent's.

    Args:
        reads: for each layer, the groups of the neurons that it reads, or None if it reads the network's input (which keeps
            the parents' weights). None: the level does not read its inputs neuron by neuron.
        parts: (m,) for grouped convolutions, the fused network's part to which each neuron is assigned; neurons read only
            their own part.
    Raises:
        ValueError: `reads` is None, or a parent's inputs do not correspond to the fused ones position by position.
    """
    if reads is None:
        raise ValueError(
            f"level {fused.name!r} does not read its inputs channel by channel, so the parents' weights cannot be "
            "mapped onto the fused inputs. Use toward='zero' and refit=True."
        )
    columns, form = [], fused.form
    assert isinstance(form, AffineForm)
    of_parents = [None] * len(parents) if parts is None else parts.split([parent.width for parent in parents])
    for k, parent in enumerate(parents):
        assert isinstance(parent.form, AffineForm)
        weights = [
            _mapped_layer(fused, k, layer, theirs, groups, of_parents[k])
            for layer, theirs, groups in zip(form.layers, parent.form.layers, reads, strict=True)
        ]
        biases = [theirs.bias.detach().double()[None] for theirs in parent.form.layers if theirs.bias is not None]
        if form.bias:
            weights.append(torch.stack(biases).sum(0) if biases else weights[0].new_zeros(1, weights[0].shape[1]))
        columns.append(torch.cat(weights))
    return torch.cat(columns, 1)


def _mapped_layer(
    fused: Level, k: int, layer: AffineLayer, theirs: AffineLayer, previous: Groups | None, parts: Tensor | None
) -> Tensor:
    """(p, neurons of parent k) the parent's mapped weights in one layer, without bias."""
    weights = theirs.weight.detach().flatten(1).T.double()  # (inputs of the parent, its neurons)
    mapped = weights
    if previous is not None and parts is not None:
        mapped = _mapped_part(layer, theirs, weights, previous.labels.split(list(previous.widths))[k], parts)
    elif previous is not None:
        groups = previous.labels.split(list(previous.widths))[k]
        positions = len(weights) // len(groups)  # kernel or spatial positions; inputs are channel-major
        mapped = weights.new_zeros(previous.width, positions, weights.shape[1])
        mapped.index_add_(0, groups, weights.reshape(len(groups), positions, -1))
        mapped = mapped.flatten(0, 1)
    p = layer.weight[0].numel()
    if mapped.shape[0] != p:
        raise ValueError(
            f"level {fused.name!r}: parent {k} has {len(weights)} inputs per neuron where the fused level has {p}; "
            "their weights cannot be mapped. Use toward='zero' and refit=True."
        )
    return mapped


def _mapped_part(layer: AffineLayer, theirs: AffineLayer, weights: Tensor, groups: Tensor, parts: Tensor) -> Tensor:
    """(p, neurons) weights of a parent's grouped convolution for the inputs of each neuron's fused part.

    Args:
        weights: (inputs of a part, neurons).
        groups: of all channels that the layer reads.
    """
    each, neurons = layer.weight.shape[1], torch.arange(weights.shape[1], device=weights.device)
    # (channels of a part, kernel positions, neurons)
    of_part = weights.reshape(theirs.weight.shape[1], -1, len(neurons))
    mapped = of_part.new_zeros(each, *of_part.shape[1:])
    first = theirs.weight.shape[1] * (neurons // (len(neurons) // theirs.groups))  # type: ignore[operator, union-attr]
    for channel, weight in enumerate(of_part):
        slots = groups[first + channel] - each * parts  # positions within the fused part
        mapped[slots, :, neurons] += weight.T
    return mapped.flatten(0, 1)


@torch.no_grad()
def neurons_read(level: Level, number: int, boundary: Boundary, before: Sequence[Groups | None]) -> Groups | None:
    """Groups of the neurons that a layer reads in order, each in equally many input columns; None if it reads the network's
    input.

    Args:
        number: index of the layer in its level.
        boundary: before the level.
        before: the groups of each boundary tensor.
    Raises:
        LookupError: the layer does not read neurons in order.
    """
    plain = _inputs(level, number, boundary)
    streams = {groups.stream: groups for groups in before if groups is not None}
    turned = {stream: _inputs(level, number, _turned(boundary, before, stream)) for stream in streams}
    read = [stream for stream in streams if len(before) == 1 or not torch.equal(plain, turned[stream])]
    if not read:
        return None
    groups = streams[read[0]]
    if len(read) == 1 and _in_blocks(plain, turned[read[0]], groups.width):
        return groups
    raise LookupError(level.name)


def _inputs(level: Level, number: int, boundary: Boundary) -> Tensor:
    """(positions, p) the input rows of one layer for one sample."""
    form = level.form
    assert isinstance(form, AffineForm)
    tensor = form.read(each(boundary, lambda tensor: tensor[:1]))[0][number]
    rows = form.alone(number).rows([tensor])
    return rows.flatten(1)  # all channels of grouped convolutions, part by part


def _turned(boundary: Boundary, before: Sequence[Groups | None], stream: int) -> Boundary:
    """The boundary tensors, (B, ...) each, with the neurons of one stream in reverse order."""
    tensors = (boundary,) if isinstance(boundary, Tensor) else boundary
    turned = tuple(
        tensor.flip(groups.axis) if groups is not None and groups.stream == stream else tensor
        for tensor, groups in zip(tensors, before, strict=True)
    )
    return turned[0] if isinstance(boundary, Tensor) else turned


def _in_blocks(plain: Tensor, turned: Tensor, width: int) -> bool:
    """Whether blocks of columns are reversed like the neurons, up to rounding: a mean over positions adds in an order that
    depends on the memory layout."""
    if plain.shape[1] % width:
        return False
    blocks = plain.reshape(len(plain), width, -1).flip(1).reshape(plain.shape)
    rounding = 100 * torch.finfo(plain.dtype).eps * plain.abs().max().item()
    return torch.allclose(blocks, turned, rtol=0, atol=rounding)
