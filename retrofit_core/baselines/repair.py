"""REPAIR: restore the variance of a merged network's neurons to that of the parents' (Jordan et al. 2023).

Averages of partly correlated neurons vary less than either, and more so from layer to layer. Statistics are exact over all
samples, layer by layer, after correcting the layers before; so nothing is random, and batches do not matter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..networks.copies import evaluating, watching
from ..networks.levels.kinds import AFFINE, LAYERS, is_plain
from ..networks.levels.weights import repeated
from ..networks.norm_statistics import (
    BATCH,
    Sums,
    channel_sums,
    is_dead,
    moments_of,
    stepwise,
)
from ..networks.symmetry import Group, TensorPart, mapped, tensors
from ..system import device as devices
from ..system.monitor import Monitor

#: Layer -> (mean, deviation) of its outputs, (channels,) each, float64.
Statistics = dict[str, tuple[Tensor, Tensor]]


@torch.no_grad()
def statistics(model: nn.Module, inputs: Tensor, *, monitor: Monitor | None = None) -> Statistics:
    """Mean and deviation of the outputs of every plain affine layer, over all samples and positions."""
    sums: dict[str, list[Sums]] = {}

    layers = {name: layer for name, layer in model.named_modules() if is_plain(layer, AFFINE)}

    def note(name: str, _: Tensor, output: Tensor) -> None:
        sums.setdefault(name, []).append(channel_sums([output], layers[name]))

    batches = inputs.split(BATCH)
    with evaluating(model), watching(layers, note):
        for x in (monitor or Monitor()).each("step", batches, name="statistics"):
            model(x.to(devices.of(model)))
    moments = {name: moments_of(of_layer) for name, of_layer in sums.items() if len(of_layer) == len(batches)}
    return {name: (mean, variance.sqrt()) for name, (mean, variance) in moments.items()}


@torch.no_grad()
def mapped_goals(
    fused: nn.Module,
    parents: Sequence[nn.Module],
    groups: Sequence[Sequence[Group]],
    targets: Sequence[Group],
    maps: Sequence[Mapping[str, Tensor]],
    inputs: Tensor,
    *,
    monitor: Monitor | None = None,
) -> Statistics:
    """Goals for parents with neurons in different orders: mean statistics of the members of each fused neuron.

    Args:
        groups: of each parent; targets: of the fused network.
        maps: maps[k][group] (n_k, d): the share of each of parent k's neurons in each fused one; a fused neuron's shares
            sum to one over all parents. Missing groups and the classes get no goals.
    """
    of_parents = [statistics(parent, inputs, monitor=monitor) for parent in parents]
    weights = {
        part.name
        for group in targets
        for part in group.parts
        if all(group.name in shares for shares in maps) and not group.fixed and _makes(part)
    }
    layers = [
        name for name in of_parents[0] if f"{name}.weight" in weights and all(name in stats for stats in of_parents)
    ]
    shapes = {name: tensor for name, tensor in tensors(fused).items() if name.removesuffix(".weight") in layers}

    def makers(of_network: Sequence[Group]) -> list[Group]:
        return [
            replace(group, parts=tuple(part for part in group.parts if _makes(part) and part.name in shapes))
            for group in of_network
        ]

    def joined(which: int) -> dict[str, Tensor]:
        shares_of_goals = [
            mapped(
                {f"{name}.weight": stats[name][which] for name in layers},
                shapes,
                makers(of_parent),
                makers(targets),
                {name: (T, T) for name, T in shares.items()},
            )
            for stats, of_parent, shares in zip(of_parents, groups, maps, strict=True)
        ]
        return {name: torch.stack([stats[f"{name}.weight"] for stats in shares_of_goals]).sum(0) for name in layers}

    means, deviations = joined(0), joined(1)
    return {name: (means[name], deviations[name]) for name in layers}


def _makes(part: TensorPart) -> bool:
    """Whether the neurons are a layer's outputs."""
    return part.kind == "out" and part.axis == 0


@torch.no_grad()
def rescale(
    model: nn.Module,
    goals: Statistics,
    inputs: Tensor,
    *,
    monitor: Monitor | None = None,
    leaves: Sequence[str] = (),
) -> dict[str, Any]:
    """Scale and shift the layers that have goals, in order, so that their outputs have exactly these statistics.

    Differences from the authors' code: exact statistics, one layer after another, where theirs come from training-mode
    batches of all layers at once; no + 1e-5 in the division; dead neurons are shifted, not scaled; in a layer without a
    bias only the deviation is corrected; layers that run more than once, or share a weight, stay.

    Args:
        inputs: (B, ...); all run one operation at a time, so their largest tensors must fit into memory.
    Returns:
        Facts: kind "rescale", number of "layers" and of their "dead" neurons.
    """
    facts = {"kind": "rescale", "layers": 0, "dead": 0}
    tied = repeated(layer for layer in model.modules() if isinstance(layer, LAYERS))

    def correct(name: str, layer: nn.Module, batches: list[Tensor]) -> None:
        if name not in goals or not isinstance(layer, AFFINE) or tied & {id(tensor) for tensor in layer.parameters()}:
            return
        mean, variance = moments_of([channel_sums([layer(x)], layer) for x in batches])
        goal_mean, goal = goals[name]
        dead, deviation = is_dead(mean, variance), variance.sqrt()
        scale = torch.where(dead, 1.0, goal / deviation.where(~dead, torch.ones_like(deviation)))
        layer.weight.mul_(scale.to(layer.weight).reshape(-1, *[1] * (layer.weight.ndim - 1)))
        if layer.bias is not None:
            layer.bias.copy_((layer.bias.double() - mean) * scale + goal_mean)
        facts["layers"] += 1
        facts["dead"] += int(dead.sum())

    stepwise(model, inputs, correct, monitor=monitor, leaves=leaves)
    return facts
