"""Readers of parameters: each turns a text into a value, or raises ValueError with what is expected.

A reader whose values `str` does not write has a method `write`, its inverse.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from retrofit_core.system.registry import known_name

Reader = Callable[[str], Any]
MOST_DIGITS = 12  # of an integer


def one_of(names: Collection[str] | Callable[[], Collection[str]], what: str = "") -> Reader:
    """One of several words, given directly or by a function; `kf-gradient`, as on the command line, is KF-Gradient.

    Args:
        what: what they name, for the message about an unknown word: "level of this run"; "" to list them.
    """

    def read(text: str) -> str:
        words = names() if callable(names) else names
        try:
            return known_name(dict.fromkeys(words), text, what)
        except ValueError:
            raise ValueError(f"no such {what}" if what else f"it is one of {', '.join(words)}") from None

    return read


def number(least: float = -math.inf, most: float = math.inf, digits: int = 12) -> Reader:
    """A finite number within limits, rounded; an integer if `digits` is 0."""

    def read(text: str) -> float:
        is_read = bool(digits) or (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS)
        try:
            value = (float if digits else int)(text if is_read else "")
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or not least <= value <= most:
            limits = f" from {least} to {most}" if math.isfinite(most) else ""
            raise ValueError(f"it is a {'number' if digits else 'whole number'}{limits}")
        return round(value, digits) if digits else value

    return read


def path(text: str) -> str:
    """A text that could be a path."""
    if "\0" in text:
        raise ValueError("it is the path of a file or folder")
    return text


@dataclass(frozen=True)
class Series:
    """Values separated by a sign."""

    sign: str
    each: Reader = path
    """Reads one value"""
    most: int = 10_000
    once: bool = False
    """Drop repeated values"""
    otherwise: tuple[Any, ...] = ()
    """The value of an empty list"""

    def __call__(self, text: str) -> tuple[Any, ...]:
        values = []
        for word in filter(str.strip, text.split(self.sign)):
            try:
                values.append(self.each(word))
            except ValueError as error:
                raise ValueError(f"{error} ({word[:40]})") from None
        if len(values) > self.most:
            raise ValueError(f"it is a list of up to {self.most}, separated by {self.sign}")
        return tuple(dict.fromkeys(values) if self.once else values) or self.otherwise

    def write(self, values: tuple[Any, ...]) -> str:
        """Their text."""
        return self.sign.join(map(str, values))
