"""Readers of parameters: each takes a text and gives a value, or raises ValueError with what it has to be."""

import math
import re
from collections.abc import Callable, Collection
from typing import Any

Reader = Callable[[str], Any]
MOST_DIGITS = 12  # of a whole number


def one_of(names: Collection[str] | Callable[[], Collection[str]], what: str = "") -> Reader:
    """One of some words, or of those that a function gives whenever one is read.

    Args:
        what: they name, for the line that says why another word was ignored: "level of this run"; "" to list them there.
    """

    def read(text: str) -> str:
        words = names() if callable(names) else names
        name = spelled(text, words)
        if name is None:
            raise ValueError(f"no such {what}" if what else f"it is one of {', '.join(words)}")
        return name

    return read


def several_of(names: Collection[str], what: str) -> Reader:
    """Some of these words between commas, each once."""

    def read(text: str) -> tuple[str, ...]:
        words = [word for word in text.split(",") if word]
        found = [spelled(word, names) for word in words]
        if None in found:
            raise ValueError(f"there is no {what} {words[found.index(None)][:40]}")
        return tuple(dict.fromkeys(name for name in found if name))

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


def runs(most: int, names: Collection[str] | None = None) -> Reader:
    """Up to so many names of runs between bars, each once.

    Args:
        names: of finished runs, to which they have to belong.
    """

    def read(text: str) -> tuple[str, ...]:
        named = tuple(dict.fromkeys(texts(text)))
        if len(named) > most:
            raise ValueError(f"it is a list of up to {most} runs, separated by |")
        if names is not None and (unknown := [name for name in named if name not in names]):
            raise ValueError(f"there is no finished run {unknown[0][:40]}")
        return named

    return read


def matching(pattern: str, what: str) -> Reader:
    """A text of this form, or none."""

    def read(text: str) -> str:
        if text and not re.fullmatch(pattern, text):
            raise ValueError(what)
        return text

    return read


def joined(sign: str) -> Callable[[tuple[Any, ...]], str]:
    """The inverse of the readers of lists."""
    return lambda values: sign.join(map(str, values))
