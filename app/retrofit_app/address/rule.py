"""A page's parameters: one pure rule for the address, its last reading, and the widgets; and how forms ask for them.

The address is the truth: each change writes it once, in the callback of the used widget. If it changed without us
(a link, Back, an edit by hand), it wins over the widgets; otherwise the widgets win.

Streamlit's own binding (`bind="query-params"`, tried with 1.67) does not do: a chosen value replaces the entry of the history,
so that Back leaves the workbench; a callback that changes two parameters makes two entries; what cannot be shown is dropped from
the address without a word; so is the value of a control that another view hides; an option is written as its label, so that
rewording breaks links; and what is picked in figures is no widget.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from .readers import Reader, Switch, number, one_of, path

#: Most characters of a value; longer ones are nonsense. Every second of 2,000 neurons has to fit.
LONGEST = 8000
Query = Mapping[str, Sequence[str]]


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

    def write(self, value: Any) -> str:
        """A value's text."""
        return getattr(self.read, "write", str)(value)


@dataclass(frozen=True)
class Settled:
    """What a page shows, what its address should say, and what was ignored."""

    values: dict[str, Any]
    address: dict[str, str]
    """Without defaults, so that clean addresses stay clean"""
    ignored: list[str]
    """A sentence for each ignored value"""
    moved: bool
    """The widgets hold something the address lacks"""


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


def switch(what: str) -> Any:
    """A `declared` field that is on or off (the default)."""
    return declared(False, Switch(what))


def parameters_of(value: Any) -> list[Parameter]:
    """The parameters that a dataclass declares; an instance's values become the defaults. Fields without a reader depend
    on the run."""
    return [Parameter(each.name, getattr(value, each.name), **each.metadata) for each in fields(value) if each.metadata]


def settle(parameters: Sequence[Parameter], url: Query, seen: Query, widgets: Mapping[str, Any]) -> Settled:
    """Let the address or the widget decide, parameter by parameter.

    Args:
        url: the current address; of a repeated word, the last value counts.
        seen: the address as last read or written; empty on a new visit.
        widgets: name -> what was chosen in widgets since the page was last shown. (What they merely hold may be another
            run's default.)
    """
    values, ignored, moved = {}, [], False
    for parameter in parameters:
        word, texts = parameter.word, list(url.get(parameter.word, ()))
        asked, why = understood(parameter, texts[-1]) if texts else (parameter.default, "")
        if why:
            default = parameter.write(parameter.default) or "none"
            ignored.append(f"Ignored {word}={texts[-1][:60]} in the address: {why}. Shown instead: {default}.")
        elif len(texts) > 1:
            ignored.append(f"{word} is {len(texts)} times in the address; the last one counts.")
        values[parameter.name] = asked
        held = widgets.get(parameter.name)
        if held is not None and texts == list(seen.get(word, ())):
            held, why = understood(parameter, held if isinstance(held, str) else parameter.write(held))
            if not why:
                values[parameter.name] = held
                moved |= held != asked
    return Settled(values, canonical(parameters, values), ignored, moved)


def understood(parameter: Parameter, text: str) -> tuple[Any, str]:
    """A text's value and "", or the default and why the text was not understood."""
    if len(text) > LONGEST:
        return parameter.default, f"it is longer than {LONGEST} characters"
    try:
        return parameter.read(text), ""
    except ValueError as error:
        return parameter.default, str(error)


def canonical(parameters: Sequence[Parameter], values: Mapping[str, Any]) -> dict[str, str]:
    """The values that differ from their defaults, as an address, in the parameters' order."""
    changed = [each for each in parameters if values[each.name] != each.default]
    return {each.word: each.write(values[each.name]) for each in changed}


def merged(url: Query, parameters: Sequence[Parameter], address: Mapping[str, str]) -> dict[str, str]:
    """The whole address after a change of these parameters, with one value per word; other words keep theirs."""
    words = {parameter.word for parameter in parameters}
    return {**{word: texts[-1] for word, texts in url.items() if texts and word not in words}, **address}


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
