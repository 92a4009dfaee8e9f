"""Looking a name up in one of the tables (METHODS, GROUPINGS, IMPORTANCE, ...), with an error that helps."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, get_args


def find(table: Mapping[str, Any], name: str | Callable[..., Any], what: str) -> Any:
    """The table's entry for `name`; a function passes through, so that a user's own needs no registration.

    Raises:
        ValueError: the name is not in the table. The message lists the known names and the nearest one.
    """
    return name if callable(name) else table[known_name(table, name, what)]


def known_name(table: Mapping[str, Any], name: str, what: str) -> str:
    """The name as the table writes it: `kf-linear` is as good as `KF-Linear` on a command line.

    Raises:
        ValueError: as `find`.
    """
    lower = {known.lower(): known for known in table}
    if str(name).lower() in lower:
        return lower[str(name).lower()]
    near = get_close_matches(str(name).lower(), lower, n=1)
    nearest = lower[near[0]] if near else None
    hint = f" Did you mean {nearest!r}?" if nearest else ""
    raise ValueError(f"unknown {what} {name!r}. Known: {', '.join(table)}.{hint}")


def check_words(**options: tuple[str, Any]) -> None:
    """Refuse words that an option does not know.

    Args:
        options: name=(value, Literal of the known words).
    Raises:
        ValueError: names the option and lists the known words.
    """
    for name, (value, words) in options.items():
        if value not in get_args(words):
            raise ValueError(f"unknown {name} {value!r}. Known: {', '.join(get_args(words))}.")
