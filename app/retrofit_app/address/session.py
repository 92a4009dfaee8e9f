"""The session's side of the address: what was last read from it or written to it, and the widgets that hold its values.

Everything that outlasts a run of a page goes through here (or through the shell): pages do not touch `st.session_state`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

import streamlit as st

from retrofit_app.figures import escaped, listing

from .rule import Parameter, canonical, merged, parameters_of, settle

BUTTON = "go-"  # the keys of buttons that change parameters of a page with lists begin so
Value = TypeVar("Value")
Change = tuple[Sequence[Parameter], dict[str, str]]
"""Parameters, and those of them that the address names from now on"""


@dataclass
class Memory:
    """What the session knows of one scope."""

    parameters: dict[str, Parameter] = field(default_factory=dict)
    """By name, as they were last read"""
    values: dict[str, Any] = field(default_factory=dict)
    """As they were last read or written"""
    seen: dict[str, list[str]] = field(default_factory=dict)
    """The address's texts, likewise, by word"""
    used: set[str] = field(default_factory=set)
    """Words that the page has used since it began"""


@dataclass(frozen=True)
class Scope:
    """The parameters of one page, apart from those of every other page; those of "" belong to all pages."""

    page: str

    def key(self, name: str) -> str:
        """Of the widget that holds a parameter."""
        return f"{self.page}-{name}" if self.page else name

    def read(self, kind: Callable[..., Value], parameters: Sequence[Parameter] = ()) -> Value:
        """A frozen value of these parameters and of those that it declares; their widgets are set to it. Call it before the
        widgets.

        A value in the address that cannot be shown is named in a warning, and stays in the address until the next change:
        rewriting it now would add an entry to the history, and Back would lead nowhere.

        Raises:
            ValueError: one of them has the name of a parameter that belongs to all pages.
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

    def declare(self, *kinds: str | type) -> None:
        """Say that the page has these parameters, though it does not show them now: by name, or all of a dataclass."""
        for kind in kinds:
            names = [kind] if isinstance(kind, str) else [each.name for each in fields(kind)]  # type: ignore[arg-type]
            self._memory().used |= {name.replace("_", "-") for name in names}

    def parameter(self, name: str) -> Parameter:
        """A parameter as it was last read."""
        return self._memory().parameters[name]

    def current(self, name: str) -> Any:
        """The value of one parameter as it was last read or written, whatever its widget says; for callbacks."""
        return self._memory().values[name]

    def change(self, **values: Any) -> None:
        """Set parameters and their widgets: one entry in the history. For callbacks, which run before the page."""
        self._show(values)
        _write({self: self._address(values)})

    def start_from(self, **values: Any) -> None:
        """Set these parameters, and leave every other one of the page to its default. For callbacks."""
        every = self._memory().parameters
        for name in every:
            forget(self.key(name))
        self._show(values)
        _write({self: (list(every.values()), self._address(values)[1])})

    def knows(self, name: str) -> bool:
        """Whether the page has read a parameter of this name yet."""
        return name in self._memory().parameters

    def changed(
        self,
        name: str,
        read: Callable[[Any], Any] = lambda value: value,
        change: Callable[[Any], None] | None = None,
    ) -> None:
        """A widget's callback: write its new value. A control that was emptied keeps its old value.

        So does a control that arrives with a press of a key or button: the browser sends all controls with every press, and
        the second of two quick presses brings what a list showed before the first.
        """
        value = st.session_state[self.key(name)]
        # Not by items(): a component's key may be listed before it has a value.
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
        """What makes a widget the control of a parameter: its key and its callback.

        Args:
            read: makes the parameter's value of the widget's.
            change: writes it, where others change with it.
        """
        return {"key": self.key(name), "on_change": self.changed, "args": (name, read, change)}

    def move(self, **values: Any) -> None:
        """Write parameters into the address alone, which then wins over the widgets. For the middle of a page, whose
        widgets are drawn already; the page has to run again."""
        _write({self: self._address(values)}, seen=False)

    def address(self) -> dict[str, str]:
        """What was chosen on the page, as a link to it carries it."""
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
    """Forget which parameters were used; for the start of a whole page."""
    for memory in _memories().values():
        memory.used.clear()


def unused() -> str:
    """A sentence about parameters in the address that the page has not used, for its end."""
    used = set().union(*(memory.used for memory in _memories().values()))
    strange = [f"{word}={texts[-1][:60]}" for word, texts in _url().items() if texts and word not in used]
    return f"Ignored {listing(strange)} in the address: this page has no such parameter." if strange else ""


def change_run(name: str, same_networks: bool) -> None:
    """Show another run: one change of the address, which loses what the other run may not have. For callbacks."""
    ALL._show({"run": name})
    open_run(name, same_networks, seen=True)


def open_run(name: str, same_networks: bool = True, *, seen: bool = False) -> None:
    """Show another run by the address alone, which then wins over the widgets; see `Scope.move`.

    Pages that are not shown forget what opening another run ends, too.
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
    """This page's address with everything that was chosen, for copying."""
    parameters = {word: texts[-1] for word, texts in _url().items() if texts}
    return (st.context.url or "") + (f"?{urlencode(parameters)}" if parameters else "")


# --- besides the address --------------------------------------------------------------------------


def recall(key: str, default: Any = None) -> Any:
    """What a widget holds, or what was remembered under a name."""
    return st.session_state.get(key, default)


def remember(key: str, value: Any) -> Any:
    """Keep something for this session; under a widget's key, its value from now on."""
    st.session_state[key] = value
    return value


def first_time(key: str, value: Any) -> Any:
    """What is remembered, or else this from now on: for a control that is drawn after it is needed."""
    return st.session_state.setdefault(key, value)


def forget(key: str) -> Any:
    """What was remembered, for the last time; None where there is nothing."""
    return st.session_state.pop(key, None)


def selected(key: str, what: str = "points") -> list[Any]:
    """The marks of a chart that were clicked or drawn around, or the "rows" of a table that are ticked; for its callback."""
    return st.session_state[key]["selection"][what]


def _memories() -> dict[str, Memory]:
    return st.session_state.setdefault("_address", {})


def _url() -> dict[str, list[str]]:
    return {word: st.query_params.get_all(word) for word in st.query_params}


def _write(changes: Mapping[Scope, Change], seen: bool = True) -> None:
    """Several parameters in one message, which makes one entry in the history."""
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
