"""Map the parents' weights to the fused network's inputs: W0 of the ridge towards the parents (docs/method.md)."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ..networks.levels import Affine as AffineForm
from ..networks.levels import Heads, Level
from ..networks.levels.kinds import AffineLayer
from .joint_spaces import Levels
from .walk import Step

#: For each parent (n_k,) the group of each of its neurons at a level; and the number of groups.
Groups = tuple[Sequence[Tensor], int]


def parents_weights(step: Step) -> Tensor:
    """W0 (p, m): the parents' weights, mapped to the fused network's inputs.

    Raises:
        ValueError: see `mapped_weights`.
    """
    parts = step.parts if step.level.form.parts else None
    return mapped_weights(step.level, step.parents, read_by(step), parts)


def read_by(step: Step) -> tuple[Groups | None, ...] | None:
    """For each layer of a step's level, the groups of the neurons that it reads, see `reads`."""

    def groups(maker: int) -> Groups:
        report = step.walk.reports[maker]
        return report.labels.to(step.device).split(report.widths), report.width

    return reads(step.walk.levels, step.index, groups)


def reads(levels: Levels, index: int, groups: Callable[[int], Groups]) -> tuple[Groups | None, ...] | None:
    """For each layer of a level, the groups of the neurons that it reads in order, each in equally many neighbouring columns
    (None: they keep their places, or each channel reads itself); None if a layer does not read its inputs neuron by neuron.

    Args:
        groups: level -> the groups of its neurons.
    """
    level, found = levels.fused[index], list[Groups | None]()
    if level.form.channelwise:
        return (None,) * len(level.form.layers)
    if any(other.crossed is not None for other in levels.fused[: index + 1]) or not level.reads:
        return None
    for read in level.reads:
        if read is None or (read.maker >= 0 and isinstance(levels.fused[read.maker].blocks, Heads)):
            return None
        if not torch.equal(read.index.flatten(), torch.arange(read.index.numel())):
            return None
        found.append(groups(read.maker) if read.maker >= 0 else None)
    return tuple(found)


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
        raise ValueError(_unmapped(fused))
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
    if previous is not None and parts is not None:
        return _mapped_part(layer, theirs, weights, previous[0][k], parts)
    positions = _inputs(fused, k, layer, theirs, previous)
    if previous is None:
        return weights
    groups, width = previous[0][k], previous[1]
    mapped = weights.new_zeros(width, positions, weights.shape[1])
    mapped.index_add_(0, groups, weights.reshape(len(groups), positions, -1))
    return mapped.flatten(0, 1)


def _inputs(
    fused: Level, k: int, layer: AffineLayer, theirs: AffineLayer | nn.Embedding, previous: Groups | None
) -> int:
    """The kernel or spatial positions of parent k's inputs, which are channel-major.

    Raises:
        ValueError: mapped, they are not as many as the fused layer's.
    """
    p, inputs = layer.weight[0].numel(), theirs.weight[0].numel()
    channels, width = (1, 1) if previous is None else (len(previous[0][k]), previous[1])
    positions = inputs // channels
    if width * positions != p:
        raise ValueError(
            f"level {fused.name!r}: parent {k} has {inputs} inputs per neuron where the fused level has {p}; "
            "their weights cannot be mapped. Use toward='zero' and refit=True."
        )
    return positions


def _unmapped(level: Level) -> str:
    return (
        f"level {level.name!r} does not read its inputs channel by channel, so the parents' weights cannot be "
        "mapped onto the fused inputs. Use toward='zero' and refit=True."
    )


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
