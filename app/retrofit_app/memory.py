"""A cache for all sessions: values by key, up to a number of bytes; the least recently used are dropped first.

Streamlit limits bytes only for caches that return copies; records, networks and pictures are shared.
"""

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from contextlib import nullcontext
from functools import wraps
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, ParamSpec, TypeVar

import streamlit as st

MEBI = 2**20
NUMBER = 32  # bytes of a number in a list, with its place
MOST_PARTS = 200_000  # parts of a value to measure; the rest counts as nothing
PLAIN = (type(None), bool, int, float, complex, str, bytes)
SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType)  # parts that no value owns
Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


def cached(most: int, spinner: str = "") -> Callable[[Callable[Arguments, Value]], Callable[Arguments, Value]]:
    """Cache a function's results by its positional arguments, not by named ones. Values are shared: do not modify them.

    Args:
        most: bytes of all values together; the newest stays however large.
        spinner: text shown while it computes.
    """

    def decorate(make: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
        cache = _Cache(most)

        @wraps(make)
        def get(*arguments: Arguments.args, **hidden: Arguments.kwargs) -> Value:
            def made() -> Value:
                with st.spinner(spinner) if spinner else nullcontext():
                    return make(*arguments, **hidden)

            return cache.get(_hashable(arguments), made)

        return get

    return decorate


def weight(value: Any) -> int:
    """A value's approximate bytes: arrays, tables and texts exactly, everything else roughly."""
    total, seen, parts = 0, set(), [value]
    while parts and len(seen) < MOST_PARTS:
        part = parts.pop()
        if isinstance(part, PLAIN):
            total += sys.getsizeof(part)
            continue
        if id(part) in seen or isinstance(part, SHARED):
            continue
        seen.add(id(part))
        if isinstance(size := getattr(part, "nbytes", None), int):
            total += size
        elif hasattr(part, "memory_usage"):  # a table
            total += int(part.memory_usage(deep=True).sum())
        elif hasattr(part, "to_plotly_json"):
            parts.append(part.to_plotly_json())
        elif isinstance(part, Mapping):
            parts += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set | frozenset):
            numbers = part and isinstance(next(iter(part)), int | float)
            total += NUMBER * len(part)
            parts += [] if numbers else part
        else:
            parts += vars(part).values() if hasattr(part, "__dict__") else []
    return total


def _hashable(value: Any) -> Hashable:
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    return tuple((key, _hashable(inner)) for key, inner in value.items()) if isinstance(value, dict) else value


class _Cache:
    """Values by key, the last used at the end. If several sessions ask for a value at once, it is made once."""

    def __init__(self, most: int) -> None:
        self.most, self.bytes = most, 0
        self.values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self.making: dict[Hashable, threading.RLock] = {}
        self.lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        with self.lock:
            if key in self.values:
                return self._used(key)
            making = self.making.setdefault(key, threading.RLock())
        with making:
            with self.lock:
                if key in self.values:
                    return self._used(key)
            try:
                value = make()
                size = weight(value)
                with self.lock:
                    self._keep(key, value, size)
            finally:
                with self.lock:
                    self.making.pop(key, None)
            return value

    def _used(self, key: Hashable) -> Any:
        self.values.move_to_end(key)
        return self.values[key][0]

    def _keep(self, key: Hashable, value: Any, size: int) -> None:
        self.bytes += size - self.values.pop(key, (None, 0))[1]
        self.values[key] = value, size
        while self.bytes > self.most and len(self.values) > 1:
            _, (_, freed) = self.values.popitem(last=False)
            self.bytes -= freed
