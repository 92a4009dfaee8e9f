"""The session's side of the address: what was last read or written, and the widgets that hold its values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

import streamlit as st

from retrofit_app.figures import escaped, listing

from .rule import Parameter, canonical, merged, parameters_of, settle

BUTTON = "go-"  # key prefix of buttons that change parameters of pages with lists
Value = TypeVar("Value")
Change = tuple[Sequence[Parameter], dict[str, str]]
"""Parameters, and their new part of the address"""


@dataclass
class Memory:
    """What the session knows about one scope."""

    parameters: dict[str, Parameter] = field(default_factory=dict)
    """Name -> parameter, as last read"""
    values: dict[str, Any] = field(default_factory=dict)
    """As last read or written"""
    seen: dict[str, list[str]] = field(default_factory=dict)
    """Word -> the address's texts, as last read or written"""
    used: set[str] = field(default_factory=set)
    """Words that the page's run has used"""


@dataclass(frozen=True)
class Scope:
    """One page's parameters, separate from other pages'; the scope "" belongs to all pages."""

    page: str
    optional: tuple[str | type, ...] = ()
    """Parameters that the page does not always read, by name, or all of a dataclass"""

    def key(self, name: str) -> str:
        """The key of a parameter's widget."""
        return f"{self.page}-{name}" if self.page else name

    def read(self, kind: Callable[..., Value], parameters: Sequence[Parameter] = ()) -> Value:
        """A frozen value of these parameters and of those it declares, with their widgets set to it. Call it before drawing
        these.

        A warning names values in the address that cannot be shown; they stay there until the next change: rewriting them
        now would add a history entry, and Back would lead nowhere.

        Raises:
            ValueError: a parameter has the name of one that belongs to all pages.
        """
        if is_dataclass(declaring := cast(Any, kind)):
            known = {each.name: each for each in (*parameters_of(declaring), *parameters)}
            parameters = [known[each.name] for each in fields(declaring)]
        memory, url = self._memory(), _url()
        words = {parameter.word for parameter in parameters}
        if self.page and (taken := words & ALL._memory().seen.keys()):
            raise ValueError(
                f"{listing(sorted(taken))} is a parameter of all pages: give that of {self.page} another name."
            )
        memory.parameters |= {parameter.name: parameter for parameter in parameters}
        self.declare()
        memory.used |= words
        held = {parameter.name: st.session_state.get(self.key(parameter.name)) for parameter in parameters}
        chosen = {name: value for name, value in held.items() if value != memory.values.get(name)}
        settled = settle(parameters, url, memory.seen, chosen)
        for sentence in settled.ignored:
            st.warning(escaped(sentence))
        memory.seen |= {parameter.word: url.get(parameter.word, []) for parameter in parameters}
        self._show(settled.values)
        if settled.moved:
            _write({self: (parameters, settled.address)})
        return kind(**settled.values)

    def one(self, parameter: Parameter) -> Any:
        """The value of a single parameter; see `read`."""
        return self.read(dict, [parameter])[parameter.name]

    def declare(self) -> None:
        """Mark the optional parameters as the page's; `read` does so, too."""
        for kind in self.optional:
            names = [kind] if isinstance(kind, str) else [each.name for each in fields(kind)]  # type: ignore[arg-type]
            self._memory().used |= {name.replace("_", "-") for name in names}

    def parameter(self, name: str) -> Parameter:
        """A parameter as last read."""
        return self._memory().parameters[name]

    def current(self, name: str) -> Any:
        """A parameter's value as last read or written, whatever its widget holds; for callbacks."""
        return self._memory().values[name]

    def change(self, **values: Any) -> None:
        """Set parameters and their widgets in one history entry. For callbacks, which run before the page."""
        self._show(values)
        _write({self: self._address(values)})

    def start_from(self, **values: Any) -> None:
        """Set these parameters, and reset the page's others to their defaults. For callbacks."""
        every = self._memory().parameters
        for name in every:
            st.session_state.pop(self.key(name), None)
        self._show(values)
        _write({self: (list(every.values()), self._address(values)[1])})

    def knows(self, name: str) -> bool:
        """Whether the page has read a parameter of this name."""
        return name in self._memory().parameters

    def changed(
        self,
        name: str,
        read: Callable[[Any], Any] = lambda value: value,
        change: Callable[[Any], None] | None = None,
    ) -> None:
        """A widget's callback: write its new value. An emptied control keeps its old value.

        So does a control that arrives with the press of a key or button: browsers send all controls with every press, and
        the second of two quick presses brings what a list showed before the first.
        """
        value = st.session_state[self.key(name)]
        # Not items(): a component's key may be listed before it has a value.
        pressed = any(str(key).startswith(BUTTON) and st.session_state.get(key) for key in list(st.session_state))
        if value is None or pressed:
            st.session_state[self.key(name)] = self.current(name)
        elif change is not None:
            change(read(value))
        else:
            self.change(**{name: read(value)})

    def control(
        self,
        name: str,
        read: Callable[[Any], Any] = lambda value: value,
        change: Callable[[Any], None] | None = None,
    ) -> dict[str, Any]:
        """The key and callback that make a widget the control of a parameter.

        Args:
            read: turns the widget's value into the parameter's.
            change: writes it, if other parameters change with it.
        """
        return {"key": self.key(name), "on_change": self.changed, "args": (name, read, change)}

    def move(self, **values: Any) -> None:
        """Write parameters only into the address, which then wins over the widgets. For the middle of a page, whose
        widgets are already drawn; the page has to run again."""
        _write({self: self._address(values)}, seen=False)

    def address(self) -> dict[str, str]:
        """The page's choices, as a link to it carries them."""
        memory = self._memory()
        return canonical(list(memory.parameters.values()), memory.values)

    def _memory(self) -> Memory:
        return _memories().setdefault(self.page, Memory())

    def _show(self, values: dict[str, Any]) -> None:
        self._memory().values.update(values)
        st.session_state.update({self.key(name): value for name, value in values.items()})

    def _address(self, values: dict[str, Any]) -> Change:
        parameters = [self._memory().parameters[name] for name in values]
        return parameters, canonical(parameters, values)


#: What all pages share: the run.
ALL = Scope("")


def begin() -> None:
    """Forget which parameters were used; for the start of a page."""
    for memory in _memories().values():
        memory.used.clear()


def unused() -> str:
    """A sentence about parameters in the address that the page has not used; call it last."""
    used = set().union(*(memory.used for memory in _memories().values()))
    strange = [f"{word}={texts[-1][:60]}" for word, texts in _url().items() if texts and word not in used]
    return f"Ignored {listing(strange)} in the address: this page has no such parameter." if strange else ""


def change_run(name: str, same_networks: bool) -> None:
    """Show another run in one change of the address, which drops what that run may lack. For callbacks."""
    ALL._show({"run": name})
    open_run(name, same_networks, seen=True)


def open_run(name: str, same_networks: bool = True, *, seen: bool = False) -> None:
    """Show another run through the address alone, which then wins over the widgets; see `Scope.move`.

    Other pages also forget what opening another run resets.
    """
    changes = {ALL: ALL._address({"run": name})}
    for page, memory in _memories().items():
        lost = [each for each in memory.parameters.values() if each.until_run or (each.of_run and not same_networks)]
        if page and memory.used:
            changes[Scope(page)] = lost, {}
        else:
            memory.values |= {each.name: each.default for each in lost if each.until_run}
    _write(changes, seen)


def link() -> str:
    """This page's address with all choices, for copying."""
    parameters = {word: texts[-1] for word, texts in _url().items() if texts}
    return (st.context.url or "") + (f"?{urlencode(parameters)}" if parameters else "")


def _memories() -> dict[str, Memory]:
    return st.session_state.setdefault("_address", {})


def _url() -> dict[str, list[str]]:
    return {word: st.query_params.get_all(word) for word in st.query_params}


def _write(changes: Mapping[Scope, Change], seen: bool = True) -> None:
    """Write several parameters in one message, which makes one history entry."""
    before = {word: texts[-1] for word, texts in _url().items()}
    whole = before
    for parameters, address in changes.values():
        whole = merged({word: [text] for word, text in whole.items()}, parameters, address)
    if whole != before:
        st.query_params.from_dict(whole)
    if seen:
        for scope, (parameters, _) in changes.items():
            texts = {each.word: [whole[each.word]] if each.word in whole else [] for each in parameters}
            scope._memory().seen |= texts
