"""Controls of forms, drawn as their fields declare."""

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from retrofit_app.address.rule import Control
from retrofit_app.address.session import Scope


def ask(scope: Scope, help: Mapping[str, str], *names: str, read: Callable[[Any], Any] = lambda value: value) -> None:
    """Draw the controls of parameters that a form has read, as their fields declare.

    Args:
        help: name -> the form's help text.
        read: turns the control's value into the parameter's.
    """
    for name in names:
        draw(scope, name, scope.parameter(name).control, help[name], read)


def draw(
    scope: Scope, name: str, control: Control, help: str, read: Callable[[Any], Any] = lambda value: value
) -> None:
    """Draw a parameter's control; see `ask`."""
    look = {"help": help, "width": control.width, **control.settings}
    if control.options:
        look |= scope.control(name, read)
        st.selectbox(control.label, list(control.options), format_func=control.words, **look)
    elif control.limits and "placeholder" in control.settings:
        _optional(scope, name, control, look)
    elif control.limits:
        # Keep the limits from the browser: it would not send a number outside, and Start would use the old one.
        look |= scope.control(name, lambda value: read(_within(control, value)))
        st.number_input(control.label, None, None, **look)
    else:
        st.text_input(control.label, **look, **scope.control(name, read))


def switch(
    scope: Scope, name: str, label: str, names: Mapping[str, str], help: str | None = None, seen: bool = False
) -> None:
    """Draw the switch between a parameter's values.

    Args:
        label: for screen readers or, if it is `seen`, above the switch.
        names: value -> its title.
    """
    st.segmented_control(
        label,
        list(names),
        **scope.control(name),
        required=True,
        format_func=names.__getitem__,
        label_visibility="visible" if seen else "collapsed",
        help=help,
    )


def _optional(scope: Scope, name: str, control: Control, look: dict[str, Any]) -> None:
    """An optional number: an empty field means 0, which has no other meaning."""
    key = scope.key(f"{name}-number")
    st.session_state[key] = scope.current(name) or None

    def write() -> None:
        scope.change(**{name: _within(control, st.session_state.get(key) or 0)})

    st.number_input(control.label, None, None, key=key, on_change=write, **look)


def _within(control: Control, value: Any) -> Any:
    """The nearest number within the limits; a toast says so if it differs."""
    least, most = control.limits or (value, value)
    nearest = type(value)(min(max(value, least), most))
    if nearest != value:
        st.toast(
            f"{control.label} must be from {least:,} to {most:,}, so {value:,} became {nearest:,}.",
            icon=":material/info:",
        )
    return nearest
