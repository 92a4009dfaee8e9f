"""Networks stay as they are: copies that cannot reach them, whatever is run or written there; and networks run and watched."""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from ..system.duplicates import duplicate
from ..system.registry import first_line
from .inputs import Inputs, arguments, each_of

#: Attributes of every module, which hold its tensors, submodules and hooks.
TABLES = frozenset(vars(nn.Module()))


def copies(networks: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """Deep copies in evaluation mode, which share with each other what the networks share; they can be trained.

    Args:
        networks: by names for the message.
    Raises:
        ValueError: names an attribute that cannot be copied.
    """
    memo: dict[int, Any] = {}
    copied = {}
    for name, network in networks.items():
        try:
            copied[name] = duplicate(network, memo)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever an attribute's code raises
            where, reason = _culprit(network, error)
            raise ValueError(
                f"{name} ({type(network).__name__}) cannot be copied, and methods work on copies, so that networks stay as they "
                f"are: {where}{reason}. Set what cannot be copied to None, or give its class a __deepcopy__."
            ) from error
        for module in copied[name].modules():
            module.training = False
    return copied


class _Reading(TorchFunctionMode):
    """Within it, operations that read one of the given tensors are noticed."""

    def __init__(self, named: Mapping[int, str]) -> None:
        super().__init__()
        self.named, self.read = named, dict[str, None]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.read |= {self.named[id(leaf)]: None for leaf in tree_leaves((args, kwargs)) if id(leaf) in self.named}
        return func(*args, **kwargs)


@contextmanager
def running_themselves(originals: Mapping[str, nn.Module]) -> Iterator[None]:
    """Within it, copies run, which must not read the weights of the originals.

    Raises:
        ValueError: they do, so that a copy with other weights would compute the same.
    """
    weights = {
        id(tensor): f"the weights of {name} ({type(network).__name__}), here {path!r}"
        for name, network in originals.items()
        for path, tensor in (*network.named_parameters(), *network.named_buffers())
    }
    with _Reading(weights) as reading:
        yield
    if reading.read:
        raise ValueError(
            f"a copy reads {next(iter(reading.read))}: its code reaches the network itself in another way than by self, so a "
            "network with other weights would compute the same. Write its forward as a method of its class, which uses self."
        )


def _culprit(network: nn.Module, error: Exception) -> tuple[str, str]:
    """Where the attribute is that cannot be copied, and why it cannot."""
    for path, module in network.named_modules():
        for attribute, value in vars(module).items():
            if attribute in TABLES or isinstance(value, nn.Module):
                continue
            try:
                copy.deepcopy(value)
            except Exception as reason:
                where = f"{path}.{attribute}" if path else attribute
                return f"its attribute {where!r} of {type(value).__name__}: ", first_line(reason)
    return "", first_line(error)


def run(model: nn.Module, inputs: Inputs) -> Any:
    """What a network returns for samples, which it gets as copies on its device, in its precision: it may write into them."""
    first = next(model.parameters(), torch.empty(0))

    def copied(tensor: Tensor) -> Tensor:
        floating = tensor.is_floating_point() and first.is_floating_point()
        return tensor.to(first.device, first.dtype if floating else None, copy=True)

    args, kwargs = arguments(each_of(inputs, copied))
    return model(*args, **kwargs)


def tried(model: nn.Module, inputs: Inputs) -> Any:
    """What a network returns for samples in evaluation mode, or the exception that its code raises.

    Raises:
        OutOfMemoryError: says nothing about the network.
    """
    try:
        # No gradients last: leaving inference mode allows them.
        with evaluating(model), torch.inference_mode(False), torch.no_grad():
            return run(model, inputs)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever the network's code raises
        return error


@contextmanager
def evaluating(*models: nn.Module) -> Iterator[None]:
    """Put models into evaluation mode; restores every submodule's training flag."""
    flags = [(module, module.training) for model in models for module in model.modules()]
    try:
        for module, _ in flags:
            module.training = False
        yield
    finally:
        for module, training in flags:
            module.training = training
