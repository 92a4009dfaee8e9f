"""Convert values to command-line words and back."""

import dataclasses
import itertools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def floats(text: str) -> tuple[float, ...]:
    """Numbers separated by spaces or commas.

    Raises:
        ValueError: a word that is not a number.
    """
    try:
        return tuple(map(float, text.replace(",", " ").split()))
    except ValueError as error:
        raise ValueError(f"--mean and --std: {text!r} are not numbers ({error}).") from None


def path(text: str) -> str:
    """A path in its shortest form: no `./`, no trailing slash."""
    return str(Path(text))


def flag(name: str) -> str:
    """The command-line option of a field."""
    return "--" + name.replace("_", "-")


def changed(value: "DataclassInstance") -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults, by name."""
    entries = ((entry.name, entry.default, getattr(value, entry.name)) for entry in dataclasses.fields(value))
    return {name: given for name, default, given in entries if given != default}


def option_words(value: "DataclassInstance", without: Collection[str] = ()) -> list[str]:
    """Command-line options for the fields of a dataclass that differ from their defaults.

    Args:
        without: names of fields that are not options.
    """
    words = []
    for name, given in changed(value).items():
        if name in without:
            continue
        if given is True:
            words.append(flag(name))
        elif isinstance(given, tuple) and isinstance(given[0], str):  # one option each
            words += [word for entry in given for word in (flag(name), entry)]
        else:
            words += [flag(name), " ".join(map(str, given)) if isinstance(given, tuple) else str(given)]
    return words


def told_words(options: Mapping[str, Any]) -> list[str]:
    """Command-line options for a method's settings."""
    words = []
    for name, value in options.items():
        words += [flag(name if value else f"no_{name}")] if isinstance(value, bool) else [flag(name), _written(value)]
    return words


def read_options(texts: Sequence[str]) -> dict[str, Any]:
    """Parse options NAME=VALUE, see `read_value`.

    Raises:
        ValueError: a missing name or equals sign, or a repeated name.
    """
    options: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name or name in options:
            raise ValueError(f"option {text!r}: write each option once, as NAME=VALUE.")
        options[name] = read_value(value)
    return options


def read_value(text: str) -> Any:
    """A setting's value: true, false, none and numbers as such, names with commas as a tuple, the rest as text."""
    if text == "none":
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return tuple(filter(None, text.split(","))) if "," in text else text


def written_options(options: Mapping[str, Any] | None) -> list[str]:
    """The inverse of `read_options`."""
    return [f"{name}={_written(value)}" for name, value in (options or {}).items()]


def _written(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return "".join(f"{word}," for word in value) if len(value) < 2 else ",".join(value)
    return value if isinstance(value, str) else json.dumps(value)


def names_apart(names: Iterable[str]) -> list[str]:
    """The same names, with a number after each that occurs before: of two networks called A, the second is A (2)."""
    apart: list[str] = []
    for name in names:
        numbered = (f"{name} ({number})" for number in itertools.count(2))
        apart.append(name if name not in apart else next(each for each in numbered if each not in apart))
    return apart
