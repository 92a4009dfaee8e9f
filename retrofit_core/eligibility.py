"""What may be fused with what, and how: decided before any work, one sentence per refusal."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from .budget import check_memory
from .device import MEMORY, same
from .fit import FITS
from .grouping import GROUPINGS
from .levels import Level, merged, partition
from .registry import find
from .training_flags import evaluating

MIN_SAMPLES = {"ridge": 2, "gradient": 10}


@dataclass(frozen=True)
class Plan:
    """Everything a fusion works on, checked."""

    parents: list[list[Level]]
    """The levels of each parent, on the device"""
    model: nn.Module
    """The network that becomes the fused one: a copy of the target or of parent 0"""
    fused: list[Level]
    """Its levels"""
    grouping: Callable[..., Any]
    fit: str


def check(
    models: Sequence[nn.Module],
    inputs: Tensor,
    *,
    target: nn.Module | None,
    grouping: str | Callable[..., Any],
    fit: str,
    device: torch.device,
    memory: int = MEMORY,
    boundaries: str | int | Sequence[str] = "auto",
    **partition_options: Any,
) -> Plan:
    """Partition parents and target and refuse what cannot work, naming the level and the way out.

    Networks of different depth are aligned: between two changes of the number of positions (the stages of a
    convolutional network) the deeper ones join neighbouring levels until all have equally many.

    Args:
        boundaries: see `partition`; "auto" is "preactivations" for the ridge and "blocks" for gradient fits.

    Raises:
        ValueError: in every case that the paper's methods do not cover; see the sentences below.
    """
    chosen = find(GROUPINGS, grouping, "grouping")
    find(FITS, str(fit), "fit")
    check_inputs(models, inputs, target=target, least=MIN_SAMPLES[fit], who=f"fit={fit!r}")
    if isinstance(boundaries, str) and boundaries == "auto":
        boundaries = "blocks" if fit == "gradient" else "preactivations"
    partition_options["boundaries"] = boundaries
    example = inputs[:2].to(device)
    parents = [
        _levels(on_device(model, device), example, f"parent {index}", partition_options)
        for index, model in enumerate(models)
    ]
    model = copy.deepcopy(target if target is not None else models[0]).to(device)
    fused = _levels(model, example, "the target", partition_options)
    *parents, fused = _aligned([*parents, fused])
    _check_shapes(parents, fused)
    _check_grouping(parents, fused, chosen)
    _check_folds(fused)
    if fit == "ridge":
        _check_affine(fused, boundaries)
    check_memory([*parents, fused], len(inputs), memory, fit)
    return Plan(parents, model, fused, chosen, fit)


def check_inputs(
    models: Sequence[nn.Module], inputs: Tensor, *, target: nn.Module | None, least: int, who: str
) -> None:
    """What every method asks of parents and fusion data, whatever it does with them.

    Args:
        least: number of samples that `who` needs.
    Raises:
        ValueError: no parents; NaN, no or mixed floating-point weights; too few, integer or infinite samples.
    """
    check_models(models)
    _check_data(inputs, least, who)
    everyone = [*models, *([target] if target is not None else [])]
    for index, model in enumerate(everyone):
        _check_weights(model, f"parent {index}" if index < len(models) else "the target")
    _check_precision(everyone)


def check_models(models: Any) -> None:
    """Refuse what is no list of networks.

    Raises:
        ValueError: another type, an empty list, or an entry that is no torch.nn.Module.
    """
    if not isinstance(models, (list, tuple, nn.ModuleList)):
        raise ValueError(f"the parents are {type(models).__name__}, not a list. Pass a list of torch.nn.Modules.")
    if not len(models):
        raise ValueError("there is no parent to fuse. Pass a list of at least one model.")
    for index, model in enumerate(models):
        if not isinstance(model, nn.Module):
            raise ValueError(
                f"parent {index} is {type(model).__name__}, not a torch.nn.Module. Read checkpoints with load_model(FILE)[0]."
            )


def check_outputs(models: Sequence[nn.Module], inputs: Tensor) -> None:
    """Run one sample through every network, for methods that do not look at neurons.

    Raises:
        ValueError: a network does not take it, or their outputs have different shapes.
    """
    shapes = []
    for index, model in enumerate(models):
        own = next(model.parameters())
        try:
            with torch.no_grad(), evaluating(model):
                shapes.append(tuple(model(inputs[:1].to(own.device, own.dtype)).shape[1:]))
        except Exception as error:  # whatever the network's own code raises
            raise ValueError(
                f"parent {index} does not run on an input of shape {tuple(inputs[:1].shape)}: "
                f"{str(error).splitlines()[0]}. Pass data of the shape that it was trained on."
            ) from error
    if len(set(shapes)) > 1:
        raise ValueError(
            f"the networks have {' and '.join('x'.join(map(str, shape)) for shape in shapes)} classes; class c is fused with "
            "class c. Give all of them the same classes."
        )


def _check_data(inputs: Tensor, least: int, who: str) -> None:
    if len(inputs) < least:
        raise ValueError(
            f"the fusion set holds {len(inputs)} sample{'s' * (len(inputs) != 1)}; {who} needs at least {least}, and the "
            "paper uses 400."
        )
    if not inputs.dtype.is_floating_point:
        raise ValueError(
            f"the fusion data are {inputs.dtype}, not floating-point. Normalise them as the parents' training did."
        )
    finite = torch.isfinite(inputs).flatten(1).all(1)
    if not finite.all():
        first = int((~finite).nonzero()[0])
        raise ValueError(
            f"fusion sample {first} holds NaN or infinity ({int((~finite).sum())} samples do). Remove them."
        )


def _check_weights(model: nn.Module, who: str) -> None:
    for name, tensor in model.state_dict().items():
        if tensor.dtype.is_floating_point and not torch.isfinite(tensor).all():
            raise ValueError(f"{who} has NaN or infinity in {name!r}. Load an earlier checkpoint of it.")
    kinds = {parameter.dtype for parameter in model.parameters()}
    if not kinds:
        raise ValueError(f"{who} has no parameters, so there is nothing to fuse.")
    if not kinds <= {torch.float32, torch.float64}:
        raise ValueError(f"{who} has {', '.join(map(str, kinds))} parameters. Convert it with model.float().")


def _check_precision(models: Sequence[nn.Module]) -> None:
    dtypes = [parameter.dtype for model in models for parameter in model.parameters()]
    if len(set(dtypes)) > 1:
        raise ValueError(
            f"the parents and the target mix {' and '.join(sorted(map(str, set(dtypes))))}. "
            "Convert all of them with model.float()."
        )


def on_device(model: nn.Module, device: torch.device) -> nn.Module:
    """The model if it is there, else a copy."""
    there = all(same(parameter.device, device) for parameter in model.parameters())
    return model if there else copy.deepcopy(model).to(device)


def _levels(model: nn.Module, example: Tensor, who: str, options: dict[str, Any]) -> list[Level]:
    dtype = next(model.parameters()).dtype
    try:
        return partition(model, example.to(dtype), **options)
    except ValueError as error:
        raise ValueError(f"{who}: {error}") from error


def _aligned(networks: list[list[Level]]) -> list[list[Level]]:
    """Equally many levels in every stage, where the networks have the same stages; else as they are."""
    stages = [[list(group) for _, group in groupby(levels[:-1], lambda level: level.positions)] for levels in networks]
    orders = [[stage[0].positions for stage in network] for network in stages]
    if len({len(levels) for levels in networks}) == 1 or any(order != orders[0] for order in orders):
        return networks
    counts = [min(map(len, alike)) for alike in zip(*stages, strict=True)]
    return [
        [merged(part) for stage, count in zip(network, counts, strict=True) for part in _parts(stage, count)]
        + levels[-1:]
        for network, levels in zip(stages, networks, strict=True)
    ]


def _parts(stage: list[Level], count: int) -> list[list[Level]]:
    """A stage in `count` runs of levels, as equal as possible, the longer ones last."""
    ends = [len(stage) * (k + 1) // count for k in range(count)]
    return [stage[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _check_shapes(parents: list[list[Level]], fused: list[Level]) -> None:
    counts = [len(levels) for levels in parents]
    if set(counts) != {len(fused)}:
        raise ValueError(
            f"the parents have {counts} levels and the fused network {len(fused)}; they must have equally many, or "
            "change the number of positions alike. Cut them alike with boundaries=<number of levels> or [module names]."
        )
    for index, level in enumerate(fused):
        here = [levels[index] for levels in parents]
        positions = [other.positions for other in here]
        if set(positions) != {level.positions}:
            raise ValueError(
                f"level {level.name!r}: the parents have {positions} positions per sample and the fused network "
                f"{level.positions}; outputs can be compared only position by position. Cut elsewhere (boundaries=[...])."
            )
        widths = [other.width for other in here]
        if level.head and set(widths) != {level.width}:
            raise ValueError(
                f"level {level.name!r}: the parents have {widths} classes and the fused network {level.width}; class c "
                "is fused with class c. Give all of them the same classes."
            )
        if level.width > sum(widths):
            raise ValueError(
                f"level {level.name!r}: {level.width} fused neurons for {sum(widths)} parents' neurons; some would "
                f"stand for nothing. Use a target of at most {sum(widths)} there."
            )


def _check_grouping(parents: list[list[Level]], fused: list[Level], grouping: Callable[..., Any]) -> None:
    for index, level in enumerate(fused):
        widths = tuple(levels[index].width for levels in parents)
        if grouping is GROUPINGS["same_index"] and set(widths) != {level.width}:
            raise ValueError(
                f"level {level.name!r}: same_index needs equal widths; found widths {widths} and fused width "
                f"{level.width}. Use grouping='kmeans'."
            )
        if grouping is not GROUPINGS["hungarian"]:
            continue
        if len(widths) != 2 or set(widths) != {level.width}:
            raise ValueError(
                f"level {level.name!r}: hungarian pairs exactly two parents of the fused width; found widths {widths} "
                f"and fused width {level.width}. Use grouping='kmeans' (KF-Linear, KF-Gradient)."
            )


def _check_affine(fused: list[Level], boundaries: str | int | Sequence[str]) -> None:
    otherwise = "" if boundaries == "preactivations" else ", or cut the model with boundaries='preactivations'"
    for level in fused:
        if level.affine is None:
            raise ValueError(
                f"level {level.name!r} is not affine in its weights: {level.why_not_affine}. Use fit='gradient' "
                f"(HF-Gradient, KF-Gradient){otherwise}."
            )


def _check_folds(fused: list[Level]) -> None:
    for level in fused:
        if any(affine.bias is None and norm.bias is None for _, affine, norm in level.folds):
            raise ValueError(
                f"level {level.name!r}: the fused bias has no place, for neither the layer nor the BatchNorm behind it "
                "has one. Pass a target whose BatchNorm has affine=True or whose layer has bias=True."
            )
