"""A form's fields: one declaration says what the address holds and how the form asks for it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from .readers import number, one_of, path
from .rule import declared


@dataclass(frozen=True)
class Control:
    """How a form asks for a value: a list if there are options, a number if there are limits, else a text."""

    label: str
    width: Any = "stretch"
    """px, or "stretch" """
    options: Collection[str] = ()
    words: Callable[[str], str] = str
    """An option's label"""
    limits: tuple[float, float] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of Streamlit's control"""


def choice(default: str, options: Collection[str], label: str, width: Any = "stretch") -> Any:
    """A field for one of several values; a dict of options gives their labels."""
    words = options.__getitem__ if isinstance(options, Mapping) else str
    return declared(default, one_of(options), control=Control(label, width, options, words))


def amount(
    default: float, least: float, most: float, label: str, width: Any = "stretch", digits: int = 0, **settings: Any
) -> Any:
    """A field for a number within limits, an integer unless it has digits; `settings` are for st.number_input."""
    whole = {} if digits else {"step": 1}  # without it the control gives 7.0
    control = Control(label, width, limits=(least, most), settings={**whole, **settings})
    return declared(default, number(least, most, digits), control=control)


def text(label: str, placeholder: str, width: Any = "stretch") -> Any:
    """A field for a text that may be a path, empty by default."""
    return declared("", path, control=Control(label, width, settings={"placeholder": placeholder}))
