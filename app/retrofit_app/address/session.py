"""What the session knows of the address, and the widgets that hold its values.

The address is the truth. A page reads it before it draws; a widget's callback writes the new value, which makes one entry in
the browser's history. Callbacks change the address as they last knew it, not as the browser sends it: the second of two quick
changes leaves the browser before the first has changed the address there.

Streamlit's own binding (`bind="query-params"`, tried with 1.67) does not do: a changed value replaces the entry of the history,
so that Back leaves the workbench; a callback that changes two parameters makes two entries; what cannot be shown is dropped from
the address without a word; so is the value of a control that another view hides; an option is written as its label, so that
rewording breaks links; and what is picked in figures is no widget.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, cast

import streamlit as st

from retrofit_app.figures import escaped

from .rule import Parameter, parameters_of, texts_of, values_of

BUTTON = "go-"  # key prefix of buttons that change parameters of pages with lists
Value = TypeVar("Value")


@dataclass
class Memory:
    """What the session knows about one scope."""

    parameters: dict[str, Parameter] = field(default_factory=dict)
    """Name -> parameter, as last read"""
    values: dict[str, Any] = field(default_factory=dict)
    """Name -> value, as last read or written"""


@dataclass
class Address:
    """What the session knows about the address."""

    texts: dict[str, str] = field(default_factory=dict)
    """Word -> text, as last read or written"""
    scopes: dict[str, Memory] = field(default_factory=dict)
    """By page"""
    shown: set[str] = field(default_factory=set)
    """Scopes of the shown page"""


@dataclass(frozen=True)
class Scope:
    """One page's parameters, separate from other pages'; the scope "" belongs to all pages."""

    page: str

    def key(self, name: str) -> str:
        """The key of a parameter's widget."""
        return f"{self.page}-{name}" if self.page else name

    def read(self, kind: Callable[..., Value], parameters: Sequence[Parameter] = ()) -> Value:
        """A frozen value of these parameters and of those it declares, with their widgets set to it. Call it before drawing
        these.

        A warning names values in the address that cannot be shown. They stay there until they are changed: rewriting them
        now would add a history entry, and Back would lead nowhere.
        """
        if is_dataclass(declaring := cast(Any, kind)):
            every = {each.name: each for each in (*parameters_of(declaring), *parameters)}
            parameters = [every[each.name] for each in fields(declaring)]
        address, memory = _address(), self._memory()
        values, ignored = values_of(parameters, address.texts)
        for sentence in ignored:
            st.warning(escaped(sentence))
        address.shown.add(self.page)
        memory.parameters |= {parameter.name: parameter for parameter in parameters}
        memory.values |= values
        st.session_state.update({self.key(name): value for name, value in values.items()})
        return kind(**values)

    def one(self, parameter: Parameter) -> Any:
        """The value of a single parameter; see `read`."""
        return self.read(dict, [parameter])[parameter.name]

    def parameter(self, name: str) -> Parameter:
        """A parameter as last read."""
        return self._memory().parameters[name]

    def current(self, name: str) -> Any:
        """A parameter's value as last read or written, whatever its widget holds."""
        return self._memory().values[name]

    def change(self, **values: Any) -> None:
        """Write parameters in one history entry. In the middle of a page, let it run again."""
        memory = self._memory()
        memory.values |= values
        parameters = [memory.parameters[name] for name in values]
        _write([each.word for each in parameters], texts_of(parameters, values))

    def start_from(self, **values: Any) -> None:
        """Write these parameters, and reset the page's others to their defaults."""
        every = self._memory().parameters.values()
        self.change(**{each.name: each.default for each in every} | values)

    def control(
        self,
        name: str,
        read: Callable[[Any], Any] = lambda value: value,
        change: Callable[[Any], None] | None = None,
    ) -> dict[str, Any]:
        """The key and callback that make a widget, drawn next, the control of a parameter. An emptied one keeps its value.

        So does one that arrives with the press of a key or button: browsers send all controls with every press, and the
        second of two quick presses brings what a list showed before the first.

        Args:
            read: turns the widget's value into the parameter's.
            change: writes it, if other parameters change with it.
        """
        key = self.key(name)
        st.session_state[key] = self.current(name)  # a fragment may not have read it

        def write() -> None:
            # Not items(): a component's key may be listed before it has a value.
            pressed = any(
                str(each).startswith(BUTTON) and st.session_state.get(each) for each in list(st.session_state)
            )
            if (value := st.session_state[key]) is not None and not pressed:
                change(read(value)) if change else self.change(**{name: read(value)})

        return {"key": key, "on_change": write}

    def address(self) -> dict[str, str]:
        """The page's choices, as a link to it carries them."""
        memory = self._memory()
        return texts_of(memory.parameters.values(), memory.values)

    def _memory(self) -> Memory:
        return _address().scopes.setdefault(self.page, Memory())


#: What all pages share: the run.
ALL = Scope("")


def begin() -> None:
    """Read the address; for the start of a page."""
    _address().texts = dict(st.query_params)
    _address().shown.clear()


def open_run(name: str, same_networks: bool = True) -> None:
    """Show another run, and reset parameters that it may lack. In the middle of a page, let it run again."""
    address, words = _address(), []
    for page, memory in address.scopes.items():
        for each in memory.parameters.values():
            if each.until_run or (each.of_run and not same_networks):
                memory.values[each.name] = each.default
                words += [each.word] if page in address.shown else []
    ALL._memory().values["run"] = name
    _write(["run", *words], texts_of([ALL.parameter("run")], {"run": name}))


def _address() -> Address:
    return st.session_state.setdefault("_address", Address())


def _write(words: Sequence[str], texts: dict[str, str]) -> None:
    """Replace these words of the address by their new texts, in one message, which makes one history entry."""
    address = _address()
    others = {word: text for word, text in address.texts.items() if word not in words}
    if (whole := {**others, **texts}) != address.texts:
        address.texts = whole
        st.query_params.from_dict(whole)
