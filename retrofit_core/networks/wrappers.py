"""Networks in torch's wrappers, such as torch.compile and DataParallel, which compute the same."""

import copy

from torch import fx, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

#: Wrappers that hold the network as `module`.
PARALLEL = (DataParallel, DistributedDataParallel, AveragedModel)


def unwrapped(model: nn.Module) -> nn.Module:
    """The same network and tensors, running the original code, so that hooks fire and it can be traced.

    Removes, at the top and around submodules, torch.compile (of a module, or in place), DataParallel,
    DistributedDataParallel and AveragedModel. Anything else is returned unchanged.
    """
    return _unwrapped(model, {})


def _unwrapped(module: nn.Module, known: dict[int, nn.Module]) -> nn.Module:
    if id(module) not in known and _archive(module) is None:
        inside = _inside(module)
        known[id(module)] = module  # first, because a child may hold it
        known[id(module)] = _uncompiled(module, known) if inside is None else _unwrapped(inside, known)
    return known.get(id(module), module)


def _uncompiled(module: nn.Module, known: dict[int, nn.Module]) -> nn.Module:
    """A module other than torch's wrappers, with original code for itself and its submodules."""
    parts = {name: part if part is None else _unwrapped(part, known) for name, part in module._modules.items()}
    compiled = getattr(module, "_compiled_call_impl", None) is not None
    if compiled or any(part is not module._modules[name] for name, part in parts.items()):
        module = copy.copy(module)  # shares its dictionaries and tensors
        module.__dict__["_modules"] = parts
        module.__dict__.pop("_compiled_call_impl", None)
    return module


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
