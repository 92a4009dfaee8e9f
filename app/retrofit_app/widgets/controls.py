"""The controls of forms, drawn as their fields declare them."""

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from retrofit_app.address import session
from retrofit_app.address.fields import Control
from retrofit_app.address.session import Scope


def ask(scope: Scope, help: Mapping[str, str], *names: str, read: Callable[[Any], Any] = lambda value: value) -> None:
    """The controls of parameters that a form has read, as their fields declare them.

    Args:
        help: what the form says of each, by name.
        read: makes a parameter's value of the control's.
    """
    for name in names:
        draw(scope, name, scope.parameter(name).control, help[name], read)


def draw(
    scope: Scope, name: str, control: Control, help: str, read: Callable[[Any], Any] = lambda value: value
) -> None:
    """A control for a parameter; see `ask`."""
    look = {"help": help, "width": control.width, **control.settings}
    if control.options:
        look |= scope.control(name, read)
        st.selectbox(control.label, list(control.options), format_func=control.words, **look)
    elif control.limits and "placeholder" in control.settings:
        _optional(scope, name, control, look)
    elif control.limits:
        # The browser does not get the limits: it would not send a number outside, and Start would use the old one.
        look |= scope.control(name, lambda value: read(_within(control, value)))
        st.number_input(control.label, None, None, **look)
    else:
        st.text_input(control.label, **look, **scope.control(name, read))


def views(scope: Scope, names: Mapping[str, str], help: str) -> None:
    """The switch between the views of a page, which its parameter "view" holds.

    Args:
        names: what each view is called, by the parameter's value.
    """
    st.segmented_control(
        "View",
        list(names),
        **scope.control("view"),
        required=True,
        format_func=names.__getitem__,
        label_visibility="collapsed",
        help=help,
    )


def _optional(scope: Scope, name: str, control: Control, look: dict[str, Any]) -> None:
    """A number that may be left out: an empty field stands for 0, which has no meaning of its own."""
    key = scope.key(f"{name}-number")
    session.remember(key, scope.current(name) or None)

    def write() -> None:
        scope.change(**{name: _within(control, session.recall(key) or 0)})

    st.number_input(control.label, None, None, key=key, on_change=write, **look)


def text(
    scope: Scope, name: str, label: str, written: str, read: Callable[[str], Any], kind: Callable[..., Any], **look: Any
) -> None:
    """A text that stands for a value of another kind; what cannot be read leaves the value as it was.

    Args:
        written: the value as a text.
        read: gives the value; raises ValueError where there is none.
        kind: st.text_input or st.text_area.
    """
    key = scope.key(f"{name}-text")
    session.remember(key, written)

    def write() -> None:
        try:
            value = read(session.recall(key))
        except ValueError:
            return
        scope.change(**{name: value})

    kind(label, key=key, on_change=write, **look)


def _within(control: Control, value: Any) -> Any:
    """The nearest number within the limits; a word says so."""
    least, most = control.limits or (value, value)
    nearest = type(value)(min(max(value, least), most))
    if nearest != value:
        st.toast(
            f"{control.label} must be from {least:,} to {most:,}, so {value:,} became {nearest:,}.",
            icon=":material/info:",
        )
    return nearest
