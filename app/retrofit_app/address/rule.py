"""Parameters of pages: how each is read and written, and how forms ask for it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from .readers import Reader, number, one_of, path

#: Most characters of a value; longer ones are nonsense. Every second of 2,000 neurons has to fit.
LONGEST = 8000


@dataclass(frozen=True)
class Parameter:
    """One parameter of a page."""

    name: str
    """The field of the page's value; addresses write - for _"""
    default: Any
    read: Reader
    of_run: bool = False
    """Another run may lack this value"""
    until_run: bool = False
    """Opening another run resets it, whatever its networks"""
    control: Any = None
    """How a form asks for it: a `Control`"""

    @property
    def word(self) -> str:
        """Its name in the address."""
        return self.name.replace("_", "-")

    def value(self, text: str) -> Any:
        """A text's value; raises ValueError with what is expected."""
        if len(text) > LONGEST:
            raise ValueError(f"it is longer than {LONGEST} characters")
        return self.read(text)

    def text(self, value: Any) -> str:
        """A value's text."""
        return getattr(self.read, "write", str)(value)


def option(name: str, options: Sequence[str], default: str, what: str, **ends: bool) -> Parameter:
    """A parameter with a list of possible values.

    Args:
        what: what the options name, for the message about an unknown one: "level of this run".
        ends: of_run or until_run.
    """
    return Parameter(name, default, one_of(options, what), **ends)


def declared(default: Any, read: Reader, **more: Any) -> Any:
    """A field of a page's frozen value that the address holds; see `parameters_of`, and `Parameter` for the rest."""
    return field(default=default, metadata={"read": read, **more})


def parameters_of(value: Any) -> list[Parameter]:
    """The parameters that a dataclass declares; an instance's values become the defaults. Fields without a reader depend
    on the run."""
    return [Parameter(each.name, getattr(value, each.name), **each.metadata) for each in fields(value) if each.metadata]


def values_of(parameters: Iterable[Parameter], texts: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The parameters' values by name, from an address, and a sentence on each text that cannot be read."""
    values, ignored = {}, []
    for parameter in parameters:
        values[parameter.name], text = parameter.default, texts.get(parameter.word)
        try:
            if text is not None:
                values[parameter.name] = parameter.value(text)
        except ValueError as error:
            default = parameter.text(parameter.default) or "none"
            ignored.append(
                f"Ignored {parameter.word}={str(text)[:60]} in the address: {error}. Shown instead: {default}."
            )
    return values, ignored


def texts_of(parameters: Iterable[Parameter], values: Mapping[str, Any]) -> dict[str, str]:
    """The values that differ from their defaults, as an address, in the parameters' order."""
    changed = [each for each in parameters if values[each.name] != each.default]
    return {each.word: each.text(values[each.name]) for each in changed}


# --- fields of forms: one declaration says what the address holds and how the form asks for it ----


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
