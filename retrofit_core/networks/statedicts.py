"""Tensors of networks by name: those that a network needs, and those that a file has."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

#: Prefixes that DataParallel and torch.compile put before all names.
PREFIXES = ("module.", "_orig_mod.")
STEPS = "num_batches_tracked"  # BatchNorm needs it only for an average over all batches


def tensors_in(module: nn.Module) -> dict[str, Tensor]:
    """The state dict without extra state that is no tensor (`get_extra_state`)."""
    return {name: value for name, value in module.state_dict().items() if isinstance(value, Tensor)}


def unwrapped(state: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """The tensors under their names, and then without each prefix that all names share."""
    state = dict(state)
    yield state
    while state and (prefix := next(iter(state)).partition(".")[0] + ".") in PREFIXES:
        if not all(name.startswith(prefix) for name in state):
            return
        state = {name.removeprefix(prefix): tensor for name, tensor in state.items()}
        yield state


def state_for(model: nn.Module, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A file's tensors as the network names them: one of two names of a tied tensor is enough, counters of BatchNorm may be
    missing, and buffers that the network no longer saves are left out."""
    expected = model.state_dict()
    spare = {name for name, _ in model.named_buffers()} - expected.keys()
    whole = {name: tensor for name, tensor in state.items() if name not in spare}
    for names in tied(model):
        if there := [whole[name] for name in names if name in whole]:
            whole = {**dict.fromkeys(names, there[0]), **whole}
    return {name: torch.zeros((), dtype=torch.int64) for name in expected if name.endswith(STEPS)} | whole


def tied(model: nn.Module) -> list[list[str]]:
    """The names of each tensor that has several in the network."""
    by_tensor: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        by_tensor.setdefault(id(tensor), []).append(name)
    return [names for names in by_tensor.values() if len(names) > 1]


def untied(model: nn.Module, state: Mapping[str, Tensor]) -> Iterator[tuple[str, str]]:
    """Pairs of names of one tensor in the network for which the state has different tensors."""
    for first, *others in tied(model):
        yield from ((first, other) for other in others if not torch.equal(state[first], state[other]))
