"""Networks that run the same code: cut once, each with its own weights."""

import copy
from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..copies import TABLES
from ..hooks import hook_names, modules_of
from .level import Level


def code_of(model: nn.Module) -> Hashable:
    """What decides a network's graph: equal for networks that differ in weights alone. None if hooks may change what it computes.

    That is its modules with all their attributes, and its tensors' shapes, ties, places in memory, and integers (indices).
    """
    if hook_names(model):
        return None
    modules = [(path, type(module), _attributes(module)) for path, module in modules_of(model)]
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


def _attributes(module: nn.Module) -> str:
    return repr({k: v for k, v in vars(module).items() if k not in TABLES and not isinstance(v, nn.Module)})


@torch.no_grad()
def levels_of_twin(levels: Sequence[Level], model: nn.Module, twin: nn.Module) -> list[Level]:
    """The levels of a network, given those of one that runs the same code (`code_of`).

    Args:
        levels: of `model`, as they were cut: nothing is fitted yet.
    """
    memo: dict[int, Any] = {}
    storages = memo.setdefault("torch", {})  # type: ignore[call-overload]
    for (_, module), (_, other) in zip(modules_of(model), modules_of(twin), strict=True):
        memo[id(module)] = other
        for tensor, theirs in zip(_tensors(module).values(), _tensors(other).values(), strict=True):
            memo[id(tensor)] = theirs
            # parts of a tensor, such as the queries' weights of an attention, become parts of the other's
            storages[tensor.untyped_storage()._cdata] = theirs.untyped_storage()
    for level in levels:
        for shared in (level.writes, level.carried, level.alive, level.output):
            memo[id(shared)] = shared
    twins = copy.deepcopy(list(levels), memo)
    for level in twins:
        for fold in reversed(level.folds):  # one may be made of the layer of another
            fold.renew()
    return twins
