"""Look names up in tables (METHODS, GROUPINGS, IMPORTANCE, ...), with helpful errors."""

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any


def find(table: Mapping[str, Any], name: object, what: str) -> Any:
    """The table's entry for `name`; a function is returned as is, so that users need not register theirs.

    Raises:
        ValueError: unknown name; the message lists the known names and the nearest one.
    """
    return name if callable(name) else table[known_name(table, name, what)]


def known_name(table: Mapping[str, Any], name: object, what: str) -> str:
    """The name as the table spells it: `kf-linear` means `KF-Linear`.

    Raises:
        ValueError: as in `find`.
    """
    if isinstance(name, str) and name in table:
        return name
    written = {_plain(key): key for key in table}
    if isinstance(name, str) and _plain(name) in written:
        return written[_plain(name)]
    near = get_close_matches(_plain(str(name)), written, n=1)
    hint = f" Did you mean {written[near[0]]!r}?" if near else ""
    raise ValueError(f"unknown {what} {name!r}. Known: {', '.join(table)}.{hint}")


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def as_value(table: Mapping[str, type], value: object, what: str, **options: object) -> Any:
    """Make an object from a name or a class; objects, and functions if they can do the work, are returned as they are.

    A class need not be in the table, if it has the table's base. A function can replace objects with a single operation,
    such as a grouping; a fit has more than one.

    Args:
        options: fields of the object, for a name or a class.
    Raises:
        ValueError: an unknown name, a value of another kind, or an invalid field.
    """
    if isinstance(value, str):
        value = find(table, value, what)
    base = base_of(table)
    if inspect.isclass(value) and issubclass(value, base):
        fields = getattr(value, "__dataclass_fields__", {})
        for option in options:
            if option not in fields:
                known_name(fields, option, f"{what} setting of {value.__name__}:")
        return value(**options)
    is_one_call = any("__call__" in vars(cls) for cls in base.__mro__)
    if inspect.isclass(value) or not (isinstance(value, base) or (is_one_call and callable(value))):
        # Do not show its contents: a score may hold images.
        kind = f"the class {value.__name__}" if inspect.isclass(value) else f"of type {type(value).__name__}"
        names = ", ".join(cls.__name__ for cls in table.values())
        raise ValueError(
            f"{what} is {kind}. Pass one of {names}, or a name ({', '.join(table)}){', or a function' * is_one_call}."
        )
    for option, chosen in options.items():
        said = f"{type(value).__name__}(..., {option}={chosen!r})"
        raise ValueError(f"{what} is given as a value, so {option} belongs inside it: {said}.")
    return value


def base_of(table: Mapping[str, type]) -> type:
    """The nearest common base of a table's classes."""
    first, *others = table.values()
    return next(cls for cls in first.__mro__ if all(issubclass(other, cls) for other in others))


def name_of(table: Mapping[str, type], value: object) -> str:
    """The table's name for one of its classes, an instance or a name in any spelling; else a function's own name."""
    if isinstance(value, str):
        return known_name(table, value, "name")
    names = [name for name, cls in table.items() if type(value) is cls or value is cls]
    return names[0] if names else getattr(value, "__name__", type(value).__name__)


def first_line(error: BaseException) -> str:
    """The first line of another library's error, shortened for our messages."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
