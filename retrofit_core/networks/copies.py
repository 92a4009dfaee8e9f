"""Networks stay as they are: copies that cannot reach them, whatever is run or written there; and networks run and watched."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from ..system.duplicates import duplicate
from ..system.registry import first_line
from .wrappers import class_name

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
                f"{name} ({class_name(network)}) cannot be copied, and methods work on copies, so that networks stay as they "
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
        id(tensor): f"the weights of {name} ({class_name(network)}), here {path!r}"
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


def sharing_parameters(network: nn.Module) -> nn.Module:
    """A copy with the network's own parameters; buffers and other attributes are copies."""
    return duplicate(network, {id(parameter): parameter for parameter in network.parameters()})


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


def fed(model: nn.Module, inputs: Tensor) -> Tensor:
    """A copy of samples (B, ...) on a network's device, in its precision where both are floating-point."""
    first = next(model.parameters(), None)
    if first is None:
        return inputs.clone()
    floating = inputs.is_floating_point() and first.is_floating_point()
    return inputs.to(first.device, first.dtype if floating else None, copy=True)


@torch.no_grad()
def tried(model: nn.Module, inputs: Tensor) -> Any:
    """What a network returns in evaluation mode, or the exception that its code raises.

    Args:
        inputs: (B, ...), see `fed`.
    Raises:
        OutOfMemoryError: says nothing about the network.
    """
    try:
        with evaluating(model):
            return model(inputs)
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


@contextmanager
def watching(layers: Mapping[str, nn.Module], note: Callable[[str, Tensor, Tensor], object]) -> Iterator[None]:
    """Call `note` with a layer's name, input and output whenever it runs.

    `note` must copy what it keeps, because later in-place operations may write into the tensors.
    """

    def hook(name: str, _: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, Tensor], output: Tensor) -> None:
        note(name, args[0] if args else kwargs["input"], output)

    hooks = [layer.register_forward_hook(partial(hook, name), with_kwargs=True) for name, layer in layers.items()]
    try:
        yield
    finally:
        for handle in hooks:
            handle.remove()
