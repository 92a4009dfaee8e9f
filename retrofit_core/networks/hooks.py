"""Forward hooks of a network: which change what it computes, which leave something that it reads, and which only look."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from .copies import sharing_parameters, tried
from .wrappers import Wrapper, class_name

BEFORE, AFTER = "_forward_pre_hooks", "_forward_hooks"
BACKWARD = ("_backward_pre_hooks", "_backward_hooks")


@dataclass(eq=False)
class Hook:
    """A forward hook, as it behaved when the network ran."""

    place: tuple[str, str, int]
    """Path of its module, table of the module's hooks, number in the table"""
    name: str
    changes: bool = False
    """Whether it returned or modified what the module reads or returns"""
    read: bool = False
    """Whether the network's code may read what it leaves: it assigned something within the network, such as a weight that it
    computes, or the network does not run without it, as where it collects outputs in a list"""


@torch.no_grad()
def hooks_of(model: nn.Module, example: Tensor) -> list[Hook]:
    """The forward hooks of a network, found by running an example through a copy.

    Args:
        example: (B, ...) input; a network that does not run on it has hooks that only look.
    """
    if not any(getattr(module, table) for _, module in modules_of(model) for table in (BEFORE, AFTER)):
        return []
    watched = sharing_parameters(model)
    hooks = []
    for path, module in list(modules_of(watched)):
        for table in (BEFORE, AFTER):
            for number, function in vars(module)[table].items():
                hook = Hook((path, table, number), _name(function))
                hooks.append(hook)
                vars(module)[table][number] = _watching(hook, function, watched)
    if not isinstance(tried(watched, example.clone()), Exception) and not all(hook.read for hook in hooks):
        alone = sharing_parameters(model)
        remove_looking_hooks(alone, hooks)
        if isinstance(tried(alone, example.clone()), Exception):
            for hook in hooks:
                hook.read = True
    return hooks


def hook_names(model: nn.Module) -> dict[str, list[str]]:
    """The names of each module's forward hooks, for the modules that have some."""
    names = {
        path: [_name(hook) for table in (BEFORE, AFTER) for hook in vars(m)[table].values()]
        for path, m in modules_of(model)
    }
    return {path: found for path, found in names.items() if found}


def refuse_changing_hooks(model: nn.Module, hooks: list[Hook]) -> None:
    """Refuse hooks that change values: what a network computes cannot be followed through them.

    Raises:
        ValueError: names the first such hook and its layer.
    """
    for hook in hooks:
        path, table, _ = hook.place
        if hook.changes:
            where = f"layer {path!r}" if path else "the network itself"
            what = "reads" if table == BEFORE else "returns"
            raise ValueError(
                f"{class_name(model)}: the forward hook {hook.name!r} of {where} changes what it {what}, and what a network "
                "computes cannot be followed through hooks. Do the same in the code of forward, or in a module of its own, and "
                "remove the hook; or use a method that only averages or runs networks, such as Average, KD or Ensemble."
            )


def remove_looking_hooks(model: nn.Module, hooks: list[Hook]) -> None:
    """Remove from a copy of a network all hooks but those whose traces its code may read."""
    needed = {hook.place for hook in hooks if hook.read}
    for path, module in modules_of(model):
        for table in (BEFORE, AFTER):
            for number in list(vars(module)[table]):
                if (path, table, number) not in needed:
                    del vars(module)[table][number]
        for table in BACKWARD:
            vars(module)[table].clear()


def modules_of(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """All modules with their paths; of our wrappers also the network inside, under the path of the wrapper."""
    yield from model.named_modules()
    while isinstance(model, Wrapper):
        model = model.wrapped
        yield "", model


def _name(function: Any) -> str:
    function = function.func if isinstance(function, partial) else function
    return getattr(function, "__qualname__", type(function).__name__).rpartition("<locals>.")[2]


def _watching(hook: Hook, function: Callable[..., Any], model: nn.Module) -> Callable[..., Any]:
    """The hook's function, which notes what it does."""

    def watching(module: nn.Module, *arguments: Any) -> Any:
        seen = arguments if hook.place[1] == BEFORE else arguments[-1]
        before, held = tree_leaves(seen), _held(model)
        versions = [_version(leaf) for leaf in before]
        result = function(module, *arguments)
        after = before if result is None else tree_leaves(result)
        same = len(after) == len(before) and all(map(lambda one, other: one is other, after, before))
        unchanged = [_version(leaf) for leaf in tree_leaves(seen)] == versions
        hook.changes |= not (same and unchanged)
        hook.read |= _held(model) != held
        return result

    return watching


def _version(leaf: Any) -> tuple[int, int]:
    """Which object it is, and how often it was written in place."""
    return id(leaf), leaf._version if isinstance(leaf, Tensor) and not leaf.is_inference() else 0


def _held(model: nn.Module) -> list[Any]:
    """What the modules of a network hold in attributes, lists and dicts."""
    return [_version(leaf) for _, module in modules_of(model) for leaf in tree_leaves(vars(module))]
