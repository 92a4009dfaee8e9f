"""Deep copies of networks whose functions are copied too.

`copy.deepcopy` keeps functions as they are. A network whose forward was replaced (`old = net.forward; net.forward = lambda x:
old(x).float()`), or that keeps a lambda or a hook that uses its parts, would run the original's weights in every copy.
"""

import copy
from collections.abc import Iterator
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

#: Other objects among a network's attributes are its own, and were copied.
NO_HOLDERS = (nn.Module, Tensor, type, ModuleType, FunctionType, MethodType, partial)


class _DetachingKept(TorchFunctionMode):
    """Within it, a deep copy of a tensor with a graph has none; PyTorch refuses to copy it.

    Networks keep such tensors: features of the last batch, and weights that a hook computes.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__deepcopy__ and not args[0].is_leaf:
            tensor, memo = args
            memo[id(tensor)] = tensor.detach().clone()
            return memo[id(tensor)]
        return func(*args, **(kwargs or {}))


def duplicate(network: nn.Module, memo: dict[int, Any] | None = None) -> nn.Module:
    """A deep copy, in which functions that hold parts of the network hold the copy's.

    Args:
        memo: as of `copy.deepcopy`.
    """
    memo = {} if memo is None else memo
    with torch.inference_mode(False), _DetachingKept():
        copied = copy.deepcopy(network, memo)
    holders, seen = list[object](copied.modules()), set[int]()
    while holders:
        own = vars(holders.pop())
        for name in own.keys() - {"_parameters", "_buffers", "_modules"}:
            own[name] = _with_copies(own[name], memo)
            if hasattr(own[name], "__dict__") and not isinstance(own[name], NO_HOLDERS) and id(own[name]) not in seen:
                seen.add(id(own[name]))
                holders.append(own[name])  # an object of the network's, such as one that is called as its forward
    return copied


def _with_copies(value: Any, memo: dict[int, Any]) -> Any:
    """A function, or a container of functions, with the copies of what it holds; anything else as it is."""
    if id(value) in memo:
        return memo[id(value)]
    if not _holds_copied(value, memo, set()):
        return value
    if isinstance(value, MethodType):
        return MethodType(_with_copies(value.__func__, memo), _with_copies(value.__self__, memo))
    if isinstance(value, partial):
        args, keywords = (_with_copies(held, memo) for held in (value.args, value.keywords))
        return type(value)(_with_copies(value.func, memo), *args, **keywords)
    if isinstance(value, tuple):
        return tuple(_with_copies(held, memo) for held in value)
    memo.setdefault(id(memo), []).append(value)  # as copy.deepcopy does: its id must not be given again
    if isinstance(value, (list, dict)):
        memo[id(value)] = same = copy.copy(value)
        for place, held in value.items() if isinstance(value, dict) else enumerate(value):
            same[place] = _with_copies(held, memo)
        return same
    cells = tuple(CellType() for _ in value.__closure__ or ())
    scope = _globals_of(value)
    names = {name: held for name, held in scope.items() if _holds_copied(held, memo, set())}
    # A function that names a network outside itself gets a scope of its own, with the copy under that name.
    own_scope = dict(value.__globals__) if names else value.__globals__
    copied = memo[id(value)] = FunctionType(value.__code__, own_scope, value.__name__, closure=cells)
    copied.__defaults__ = _with_copies(value.__defaults__, memo)
    copied.__kwdefaults__ = _with_copies(value.__kwdefaults__, memo)
    copied.__qualname__, copied.__dict__ = value.__qualname__, dict(vars(value))
    own_scope.update({name: _with_copies(held, memo) for name, held in names.items()})
    for new, cell in zip(cells, value.__closure__ or (), strict=True):
        for held in _contents(cell):
            new.cell_contents = _with_copies(held, memo)
    return copied


def _holds_copied(value: object, memo: dict[int, Any], seen: set[int]) -> bool:
    """Whether something that was copied is reached from a value through functions and containers."""
    if id(value) in memo:
        return True
    if id(value) in seen:
        return False
    seen.add(id(value))
    return any(_holds_copied(held, memo, seen) for held in _held(value))


def _held(value: object) -> Iterator[object]:
    if isinstance(value, MethodType):
        yield from (value.__func__, value.__self__)
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, (list, tuple)):
        yield from value
    elif isinstance(value, FunctionType):
        yield from (value.__defaults__, value.__kwdefaults__, *_globals_of(value).values())
        for cell in value.__closure__ or ():
            yield from _contents(cell)


def _contents(cell: CellType) -> tuple[Any, ...]:
    """What a variable of a closure holds; nothing before it is set."""
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _globals_of(function: FunctionType) -> dict[str, Any]:
    """The networks, functions and bound methods that a function names outside itself."""
    kinds = (nn.Module, FunctionType, MethodType, partial)
    named = {name: function.__globals__.get(name) for name in _names_in(function.__code__)}
    return {
        name: value
        for name, value in named.items()
        if isinstance(value, kinds)
        and (not isinstance(value, FunctionType) or value.__globals__ is function.__globals__)
    }


def _names_in(code: CodeType) -> set[str]:
    return {*code.co_names}.union(*(_names_in(part) for part in code.co_consts if isinstance(part, CodeType)))
