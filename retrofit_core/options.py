"""What one method can be told besides the fields of a run: read from its signature, explained by its docstring."""

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from .methods import METHODS
from .ranges import RANGES, Range
from .registry import find
from .settings import DEFAULTS, GRADIENT_OPTIONS, HELP

#: Keywords that a run's configuration decides in fields of its own.
FIELDS = {"importance", "target", "boundaries", "toward", "head", "preset", "seed", "device", "memory", "ridge"}
#: Of gradient fits only.
OF_GRADIENT = {*GRADIENT_OPTIONS, "weighted_loss"}
PLAIN = (bool, int, float, str, NoneType)
NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a word", NoneType: "null"}


@dataclass(frozen=True)
class Option:
    """One keyword of a method."""

    default: Any
    kinds: tuple[type, ...]
    """Some of bool, int, float, str, NoneType; no str where `words` are given"""
    words: tuple[str, ...]
    """The words that it knows"""
    help: str
    range: Range | None = None
    """The numbers among its values"""

    def takes(self, value: Any) -> bool:
        """Whether a value has one of the kinds and is in range; a whole number is a number, true is none."""
        if isinstance(value, str) and str not in self.kinds:
            return value in self.words
        if type(value) not in self.kinds and not (type(value) is int and float in self.kinds):
            return False
        return self.range is None or value is None or self.range.holds(value)

    @property
    def known(self) -> str:
        """What it takes, in words."""
        numbers = {int, float} if self.range else set()
        kinds = [NAMES[kind] for kind in self.kinds if kind not in numbers]
        return ", ".join([*self.words, *([str(self.range)] if self.range else []), *kinds])


def options_of(method: str) -> dict[str, Option]:
    """The options of a method, in the order of its signature; the paper's four have the settings of their fit.

    Raises:
        ValueError: unknown method.
    """
    called = find(METHODS, method, "method")
    bound = getattr(called, "keywords", {})
    function = getattr(called, "func", called)
    hints, helps = get_type_hints(function), {**HELP, **_explained(function)}
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        kinds, words = _kinds(hints.get(name, Any))
        if parameter.kind is parameter.KEYWORD_ONLY and kinds + words and name not in {*FIELDS, *bound}:
            found[name] = Option(parameter.default, kinds, words, helps.get(name, ""), _range(name))
        elif parameter.kind is parameter.VAR_KEYWORD:
            settings = {setting: value for setting, value in DEFAULTS.items() if setting not in FIELDS}
            found |= {
                setting: Option(value, (type(value),), (), helps[setting], _range(setting))
                for setting, value in settings.items()
            }
    return {name: option for name, option in found.items() if bound.get("fit") != "ridge" or name not in OF_GRADIENT}


def checked(method: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The options that differ from the method's defaults, None if there are none: the same work has one form.

    Raises:
        ValueError: an option that the method does not have, or a value of another kind or out of range.
    """
    known = options_of(method)
    for name, value in options.items():
        if name not in known:
            others = [other for other in METHODS if name in options_of(other)]
            where = f" It is an option of {', '.join(others)}." if others else ""
            raise ValueError(f"{method} has no option {name!r}. Known: {', '.join(known) or 'none'}.{where}")
        if not known[name].takes(value):
            raise ValueError(f"option {name} of {method} is {value!r}. It takes: {known[name].known}.")
    return {name: value for name, value in options.items() if value != known[name].default} or None


def read_options(texts: list[str]) -> dict[str, Any]:
    """Options from words NAME=VALUE: true, false, null and numbers as in JSON, everything else as text.

    Raises:
        ValueError: a word without a name or a sign of equality, or a name twice.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name or name in found:
            raise ValueError(f"--option {text!r}: write each option once, as NAME=VALUE.")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


def written(options: Mapping[str, Any] | None) -> list[str]:
    """The inverse of `read_options`."""
    return [
        f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in (options or {}).items()
    ]


def _range(name: str) -> Range | None:
    """Without "or none", which is a kind of its own among an option's kinds."""
    return dataclasses.replace(RANGES[name], none=False) if name in RANGES else None


def _kinds(hint: Any) -> tuple[tuple[type, ...], tuple[str, ...]]:
    """The plain types and the words of an annotation; none where anything else may be given as well."""
    if get_origin(hint) is Literal:
        return (), get_args(hint)
    parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return (tuple(parts), ()) if set(parts) <= set(PLAIN) else ((), ())


def _explained(function: Callable[..., Any]) -> dict[str, str]:
    """keyword -> sentence, from the part "Args:" of a docstring."""
    text = inspect.getdoc(function) or ""
    part = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    entries = re.findall(r"^    (\w[\w, ]*): (.*?)(?=^    \w|\Z)", part[1] if part else "", re.MULTILINE | re.DOTALL)
    return {name: " ".join(sentence.split()) for names, sentence in entries for name in names.split(", ")}
