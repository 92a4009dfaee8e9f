"""The options of a method beside the fields of a run's config, read from the fields of its values."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from ..methods import METHODS
from ..system.registry import find
from ..system.settings import Setting


def options_of(method: str, fields: Collection[str] = (), **chosen: Any) -> dict[str, Setting]:
    """The options of a method by name.

    Args:
        fields: names of settings that are fields of a config, which are left out.
        chosen: grouping and importance, if they are chosen; else the options of all scores are listed.
    Raises:
        ValueError: unknown method, grouping or importance.
    """
    choices = {name: value for name, value in chosen.items() if value is not None}
    settings = find(METHODS, method, "method").settings(choices)
    return {name: setting for name, setting in settings.items() if name not in fields}


def checked(
    method: str, options: Mapping[str, Any], fields: Collection[str] = (), **chosen: Any
) -> dict[str, Any] | None:
    """The options that differ from the method's defaults, None if there are none: so equal options are stored equally.

    Raises:
        ValueError: an option that the method does not have, one named as a setting of the run, or a value of another kind
            or out of range.
    """
    settings = options_of(method, fields, **chosen)
    for name, value in options.items():
        if name in fields:
            raise ValueError(
                f"{method} has no option {name!r}: that is a setting of the run itself. Give it beside the options; an option "
                "of a method, grouping or score needs another name."
            )
        if name not in settings:
            raise ValueError(
                f"{method} has no option {name!r}. Known: {', '.join(settings) or 'none'}.{_owners(method, name, fields)}"
            )
        if not settings[name].takes(value):
            raise ValueError(f"option {name} of {method} is {value!r}. It takes: {settings[name].description}.")
    stored = {name: settings[name].normalised(value) for name, value in options.items()}
    return {name: value for name, value in stored.items() if value != settings[name].default} or None


def _owners(method: str, option: str, fields: Collection[str]) -> str:
    """Whose option it is, as a sentence."""
    owners = find(METHODS, method, "method").owners(option)
    if owners:
        return f" It belongs to {' or '.join(owners)}, which is not chosen."
    others = [other for other in METHODS if option in options_of(other, fields)]
    return f" It is an option of {', '.join(others)}." if others else ""


def read_options(texts: list[str]) -> dict[str, Any]:
    """Options from words NAME=VALUE: true, false, none and numbers as such, names with commas as lists, the rest as text.

    Raises:
        ValueError: a word without a name or a sign of equality, or a name twice.
    """
    options: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name or name in options:
            raise ValueError(f"--option {text!r}: write each option once, as NAME=VALUE.")
        options[name] = _read(value)
    return options


def _read(text: str) -> Any:
    if text == "none":
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return tuple(filter(None, text.split(","))) if "," in text else text


def written(options: Mapping[str, Any] | None) -> list[str]:
    """The inverse of `read_options`."""
    return [f"{name}={_written(value)}" for name, value in (options or {}).items()]


def _written(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return "".join(f"{word}," for word in value) if len(value) < 2 else ",".join(value)
    return value if isinstance(value, str) else json.dumps(value)
