"""Networks that run the same code: cut once, each with its own weights."""

import copy
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..copies import TABLES
from ..hooks import hook_names, modules_of
from .level import Level


def code_of(model: nn.Module) -> Hashable:
    """What decides a network's graph: equal for networks that differ in weights alone. None if hooks may change what it
    computes, or if it is not known.

    That is its modules with all their attributes, and its tensors' shapes, ties, places in memory, and integers (indices).
    """
    if hook_names(model):
        return None
    try:
        modules = [
            (
                path,
                type(m),
                repr({k: v for k, v in vars(m).items() if k not in TABLES and not isinstance(v, nn.Module)}),
            )
            for path, m in modules_of(model)
        ]
    except Exception:  # whatever the code of an attribute raises when it is shown
        return None
    tensors, first = [], dict[int, str]()
    for path, module in modules_of(model):
        for name, tensor in _tensors(module).items():
            same = first.setdefault(id(tensor), f"{path}.{name}")
            index = tuple(tensor.flatten().tolist()) if tensor.ndim and not tensor.is_floating_point() else ()
            place = tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype, tensor.device
            tensors.append((same, place, index))
    return tuple(modules), tuple(tensors)


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    own = {**module._parameters, **module._buffers}
    return {name: tensor for name, tensor in own.items() if tensor is not None}


@torch.no_grad()
def levels_of_twin(levels: Sequence[Level], model: nn.Module, twin: nn.Module) -> list[Level]:
    """The levels of a network, given those of one that runs the same code (`code_of`).

    Args:
        levels: of `model`, as they were cut: nothing is fitted yet.
    """
    memo = _counterparts(model, twin, [level.module for level in levels])
    for level in levels:
        for shared in (level.writes, level.blocks, level.reads, level.carried, level.alive):
            memo[id(shared)] = shared
    twins = copy.deepcopy(list(levels), memo)
    for level in twins:
        for fold in reversed(level.folds):  # one may be made of the layer of another
            fold.renew()
    return twins


def _counterparts(model: nn.Module, twin: nn.Module, holders: Iterable[nn.Module]) -> dict[int, Any]:
    """The twin's module or tensor for each of a network's, by id, for `copy.deepcopy`.

    Args:
        holders: their parameters may be parts of the network's tensors, such as the weight that makes an attention's queries.
    """
    memo, owners = dict[int, Any](), dict[int, Tensor]()
    for (_, module), (_, other) in zip(modules_of(model), modules_of(twin), strict=True):
        memo[id(module)] = other
        for tensor, theirs in zip(_tensors(module).values(), _tensors(other).values(), strict=True):
            memo[id(tensor)] = owners[tensor.untyped_storage()._cdata] = theirs
    for part in (part for holder in holders for part in holder.parameters() if id(part) not in memo):
        if (owner := owners.get(part.untyped_storage()._cdata)) is not None:
            same = owner.detach().as_strided(part.shape, part.stride(), part.storage_offset())
            memo[id(part)] = nn.Parameter(same, part.requires_grad)
    return memo
