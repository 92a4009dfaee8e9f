"""Wrapped networks: torch.compile and DataParallel, which compute the same, and our wrappers with another forward."""

import copy
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeVar

from torch import fx, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from ..system.duplicates import duplicate

#: Wrappers that hold the network as `module`.
PARALLEL = (DataParallel, DistributedDataParallel, AveragedModel)
#: Attribute where torch.compile keeps the original.
ORIGINAL = "_torchdynamo_orig_callable"


class Wrapper(nn.Module):
    """A network with another forward.

    Tensors, submodules, flags, attributes and checkpoints are the network's, under its own names. The network's hooks see what
    the network itself reads and returns.
    """

    wrapped: nn.Module
    takes_its_own: ClassVar[bool] = False
    """Whether its forward takes other arguments than the network's"""
    own: ClassVar[frozenset[str]] = frozenset(name for name in vars(nn.Module()) if "forward" in name)
    """Tables of hooks that are not the network's"""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self._hold(network)

    def _hold(self, network: nn.Module) -> None:
        tables = vars(nn.Module()).keys() - {"training"} - self.own
        shared = {name: table for name, table in vars(network).items() if name in tables}
        vars(self).pop("training", None)
        vars(self).update(shared, wrapped=network)

    def around(self, network: nn.Module) -> Self:
        """The same wrapper around another network."""
        same = copy.copy(self)
        vars(same).update({name: copy.copy(vars(self)[name]) for name in self.own})
        same._hold(network)
        return same

    def forward(self, *args: object, **kwargs: object) -> Any:
        """Run the network."""
        return self.wrapped(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if "wrapped" not in vars(self) or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.wrapped, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self.wrapped, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.wrapped, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        memo[id(self)] = same = self.around(duplicate(self.wrapped, memo))
        return same

    # Methods that a network's class may override.

    def train(self, mode: bool = True) -> Self:
        """Set the network's mode."""
        self.wrapped.train(mode)
        return self

    def state_dict(self, *args: object, **kwargs: object) -> Any:
        """The network's."""
        return self.wrapped.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load the network's."""
        return self.wrapped.load_state_dict(state_dict, strict, assign)

    def _get_name(self) -> str:
        return class_name(self.wrapped)


class Uncompiled(Wrapper):
    """A network whose class has a compiled forward, running the original code."""

    own = frozenset()

    def forward(self, *args: object, **kwargs: object) -> Any:
        """Run the original forward of the class; the network's hooks have already been called."""
        return getattr(type(self.wrapped).forward, ORIGINAL)(self.wrapped, *args, **kwargs)


W = TypeVar("W", bound=Wrapper)


def wrapper_of(model: nn.Module, kind: type[W]) -> W | None:
    """The outermost wrapper of this kind around a network, else None."""
    while isinstance(model, Wrapper):
        if isinstance(model, kind):
            return model
        model = model.wrapped
    return None


def class_name(model: object) -> str:
    """The name of a network's class, ignoring our wrappers."""
    while isinstance(model, Wrapper):
        model = model.wrapped
    return type(model).__name__


def entry_point(model: nn.Module) -> Callable[..., Any]:
    """The forward whose signature shows a network's inputs, skipping wrappers that take the same."""
    while isinstance(model, Wrapper) and not model.takes_its_own:
        model = model.wrapped
    return model.forward


def unwrapped(model: object) -> Any:
    """The same network and tensors, running the original code, so that hooks fire and it can be traced.

    Removes, at the top and around submodules, torch.compile (of a module, in place, or of `forward`), DataParallel,
    DistributedDataParallel and AveragedModel. Anything else is returned unchanged.
    """
    return _unwrapped(model, {}) if isinstance(model, nn.Module) else model


def _unwrapped(module: nn.Module, known: dict[int, nn.Module]) -> nn.Module:
    if id(module) not in known and _archive(module) is None:
        inside = _inside(module)
        known[id(module)] = module  # first, because a child may hold it
        known[id(module)] = _uncompiled(module, known) if inside is None else _unwrapped(inside, known)
    return known.get(id(module), module)


def _uncompiled(module: nn.Module, known: dict[int, nn.Module]) -> nn.Module:
    """A module other than torch's wrappers, with original code for itself and its submodules."""
    if isinstance(module, Wrapper):
        network = _unwrapped(module.wrapped, known)
        if isinstance(module, Uncompiled) and isinstance(network, Uncompiled):
            network = network.wrapped
        return module if network is module.wrapped else module.around(network)
    parts = {name: part if part is None else _unwrapped(part, known) for name, part in module._modules.items()}
    forward_of_instance = vars(module).get("forward")
    compiled = getattr(module, "_compiled_call_impl", None) is not None or hasattr(forward_of_instance, ORIGINAL)
    if compiled or any(part is not module._modules[name] for name, part in parts.items()):
        module = copy.copy(module)  # shares its dictionaries and tensors
        module.__dict__["_modules"] = parts
        module.__dict__.pop("_compiled_call_impl", None)
        if hasattr(forward_of_instance, ORIGINAL):
            del module.__dict__["forward"]
    forward = type(module).forward
    is_compiled = hasattr(forward, ORIGINAL) and not hasattr(forward, "_torchdynamo_disable")
    return Uncompiled(module) if is_compiled else module


def _inside(module: nn.Module) -> nn.Module | None:
    """The network in one of torch's wrappers; None for other modules."""
    if isinstance(module, PARALLEL):
        return module.module
    inside = module._modules.get("_orig_mod")
    return inside if type(module).__name__ == "OptimizedModule" else None


def refuse_archived(model: nn.Module, network: str) -> None:
    """Refuse networks whose layers are no longer Python modules: TorchScript's and torch.export's.

    Args:
        network: its name, to start the message.
    Raises:
        ValueError: says which part it is, and how to get a network that can be fused.
    """
    for path, module in model.named_modules():
        kind = _archive(module)
        if kind is not None:
            where = f" (its part {path!r})" if path else ""
            raise ValueError(
                f"{network}{where} was made by {kind}, which hides its layers. Make the network in Python, give it these weights "
                "(network.load_state_dict(archived.state_dict())), and fuse that."
            )


def _archive(module: nn.Module) -> str | None:
    # by name: importing torch.jit is slow, and torch is deprecating it
    names = {cls.__name__ for cls in type(module).__mro__}
    if names & {"ScriptModule", "ScriptFunction"}:
        return "TorchScript (torch.jit)"
    return "torch.export" if isinstance(module, fx.GraphModule) and "eval" in vars(module) else None
