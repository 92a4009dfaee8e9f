"""Networks in wrappers that compute the same, torch.compile's and DataParallel's: the network inside."""

import copy
from functools import lru_cache
from typing import Any

from torch import fx, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

#: Wrappers that hold the network as `module`.
PARALLEL = (DataParallel, DistributedDataParallel, AveragedModel)
#: Where torch.compile notes what it has compiled.
ORIGINAL = "_torchdynamo_orig_callable"


def unwrapped(model: Any) -> Any:
    """The same network, with the same tensors, run by its own code: hooks fire, and its operations can be followed.

    Taken off, at the top and around submodules: torch.compile (of a module, in place, or of `forward`), DataParallel,
    DistributedDataParallel and AveragedModel. What had none comes back as it is; what is no module too.
    """
    return _unwrapped(model, {}) if isinstance(model, nn.Module) else model


def _unwrapped(module: nn.Module, known: dict[int, nn.Module]) -> nn.Module:
    if id(module) in known:
        return known[id(module)]
    if _archive(module) is not None:
        return module
    inside = _inside(module)
    if inside is not None:
        known[id(module)] = _unwrapped(inside, known)
        return known[id(module)]
    known[id(module)] = module  # while its children are looked at: one of them may hold it
    parts = {name: part if part is None else _unwrapped(part, known) for name, part in module._modules.items()}
    own = vars(module).get("forward")
    compiled = getattr(module, "_compiled_call_impl", None) is not None or hasattr(own, ORIGINAL)
    plain_class = _plain_class(type(module))
    changed = any(part is not module._modules[name] for name, part in parts.items())
    if not (changed or compiled or plain_class is not type(module)):
        return module
    same = copy.copy(module)  # its own dictionaries are shared, its tensors too
    same.__dict__["_modules"] = parts
    same.__dict__.pop("_compiled_call_impl", None)
    if hasattr(own, ORIGINAL):
        del same.__dict__["forward"]
    same.__class__ = plain_class
    known[id(module)] = same
    return same


def _inside(module: nn.Module) -> nn.Module | None:
    """The network that a wrapper holds; None for other modules."""
    if isinstance(module, PARALLEL):
        return module.module
    inside = module._modules.get("_orig_mod")
    return inside if type(module).__name__ == "OptimizedModule" else None


@lru_cache(maxsize=64)
def _plain_class(cls: type[nn.Module]) -> type[nn.Module]:
    """The class whose forward is not compiled; the class itself where it is not."""
    forward: Any = cls.forward
    if not hasattr(forward, ORIGINAL) or hasattr(forward, "_torchdynamo_disable"):
        return cls
    plain: Any = type(cls.__name__, (cls,), {"forward": getattr(forward, ORIGINAL), "__module__": cls.__module__})
    return plain


def refuse_archived(model: nn.Module, network: str) -> None:
    """Refuse networks whose layers are no longer modules of Python: TorchScript's and torch.export's.

    Args:
        network: its name, at the start of the sentence.
    Raises:
        ValueError: says which part it is, and how to come by a network that can be fused.
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
    # known by name, for importing torch.jit's classes takes time and torch means to drop them
    names = {cls.__name__ for cls in type(module).__mro__}
    if names & {"ScriptModule", "ScriptFunction"}:
        return "TorchScript (torch.jit)"
    return "torch.export" if isinstance(module, fx.GraphModule) and "eval" in vars(module) else None
