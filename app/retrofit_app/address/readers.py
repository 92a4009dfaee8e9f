"""Readers of parameters: each takes a text and gives a value, or raises ValueError with what it has to be."""

import math
from collections.abc import Callable, Collection
from typing import Any

Reader = Callable[[str], Any]
MOST_DIGITS = 12  # of a whole number


def one_of(names: Collection[str]) -> Reader:
    """One of some words."""
    return one_of_table(lambda: names)


def one_of_table(table: Callable[[], Collection[str]]) -> Reader:
    """One of the names in a table that is looked at when a name is read."""

    def read(text: str) -> str:
        names = table()
        name = spelled(text, names)
        if name is None:
            raise ValueError(f"it is one of {', '.join(names)}")
        return name

    return read


def spelled(text: str, names: Collection[str]) -> str | None:
    """The name that a text means, as the table writes it: `kf-gradient`, as on the command line, is KF-Gradient.

    None where it is no name, or the spelling of several.
    """
    if text in names:
        return text
    same = [name for name in names if _plain(name) == _plain(text)]
    return same[0] if len(same) == 1 else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def whole(least: int, most: int) -> Reader:
    """A whole number within limits."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or len(text) > MOST_DIGITS or not least <= int(text) <= most:
            raise ValueError(f"it is a whole number from {least} to {most}")
        return int(text)

    return read


def decimal(least: float, most: float, digits: int) -> Reader:
    """A number within limits, rounded."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise ValueError(f"it is a number from {least:g} to {most:g}")
        return round(value, digits)

    return read


def numbers(most: int) -> Reader:
    """Up to so many numbers between commas; none for an empty text."""

    def read(text: str) -> tuple[float, ...]:
        try:
            values = tuple(float(word) for word in text.split(",") if word.strip())
        except ValueError:
            values = (math.nan,)
        if not all(map(math.isfinite, values)) or len(values) > most:
            raise ValueError("it is a list of numbers such as 0.49,0.48,0.45")
        return values

    return read


def path(text: str) -> str:
    """A text that a file system could take."""
    if "\0" in text:
        raise ValueError("it is the path of a file or folder")
    return text


def texts(text: str) -> tuple[str, ...]:
    """Texts between bars."""
    return tuple(filter(None, path(text).split("|")))


def joined(sign: str) -> Callable[[tuple[Any, ...]], str]:
    """The inverse of the readers of lists."""
    return lambda values: sign.join(map(str, values))
