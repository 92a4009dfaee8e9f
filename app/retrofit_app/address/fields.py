"""Fields of a form: what its address holds, and how the form asks for it, declared in one place."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from .readers import number, one_of, path
from .rule import declared


@dataclass(frozen=True)
class Control:
    """How a form asks for a value: with a list if there are options, with a number if there are limits, else with a text."""

    label: str
    width: Any = "stretch"
    """px, or "stretch" """
    options: Collection[str] = ()
    words: Callable[[str], str] = str
    """What stands for an option"""
    limits: tuple[float, float] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What else Streamlit's control takes"""


def choice(default: str, options: Collection[str], label: str, width: Any = "stretch") -> Any:
    """A field with one of some values; a dict of options gives the words for each."""
    words = options.__getitem__ if isinstance(options, Mapping) else str
    return declared(default, one_of(options), control=Control(label, width, options, words))


def amount(
    default: float, least: float, most: float, label: str, width: Any = "stretch", digits: int = 0, **settings: Any
) -> Any:
    """A field with a number within limits, a whole one where no digits are asked for; `settings` of st.number_input."""
    whole = {} if digits else {"step": 1}  # without it the control gives 7.0
    control = Control(label, width, limits=(least, most), settings={**whole, **settings})
    return declared(default, number(least, most, digits), control=control)


def text(label: str, placeholder: str, width: Any = "stretch") -> Any:
    """A field with a text that may be a path, empty by default."""
    return declared("", path, control=Control(label, width, settings={"placeholder": placeholder}))
