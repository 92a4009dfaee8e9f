"""What the chosen method alone can be told: a control for each option, drawn from its default and the kinds it takes."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st
from retrofit_app import presets
from retrofit_app.fuse_fields import KEY, to_address
from retrofit_app.presets import Picks

PLAIN = ("", "null")  # how a user writes nothing


def settle(picks: Picks) -> tuple[Picks, list[str]]:
    """The picks with those options only that their method takes, and a sentence for each that was left out."""
    if not picks.options:
        return picks, []
    from retrofit_core.options import checked, read_options, written

    good, ignored = {}, []
    for word in picks.options:
        try:
            one = read_options([word])
            checked(picks.method, one)
            good |= one
        except ValueError as error:
            ignored.append(f"Ignored options={word[:60]} in the address: {error} Shown instead: the method's default.")
    return replace(picks, options=tuple(written(checked(picks.method, good)))), ignored


def ask(picks: Picks) -> None:
    """The options of the method, behind one line; what was changed stands beside it."""
    from retrofit_core.options import options_of, read_options

    known = options_of(picks.method)
    if not known:
        return
    given = read_options(list(picks.options))
    with st.expander(f"Options of {picks.method}", icon=":material/tune:", key=f"{KEY}options-{picks.method}"):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            for name, option in known.items():
                with st.container(width=200):
                    _control(picks.method, name, option, given.get(name, option.default))
        st.caption("Nothing has to be changed here: these are the defaults.")
    if given:
        st.caption(f"Changed: {', '.join(picks.options)}")


def _control(method: str, name: str, option: Any, value: Any) -> None:
    """Toggle, list, number or text, as the option's kinds ask for."""
    key = f"{KEY}option-{method}-{name}"
    label, words = name.replace("_", " ").capitalize(), f"{option.help[:1].upper()}{option.help[1:].rstrip('.')}."
    if name not in ("a", "b"):  # names that say nothing get their meaning as a label
        words = f"{words} (`--option {name}=…`)"
    on_change = _changed(method, name, key)
    empty = type(None) in option.kinds
    if option.kinds == (bool,):
        st.session_state[key] = value
        st.toggle(label, key=key, on_change=on_change, help=words)
    elif option.words:
        st.session_state[key] = value
        st.selectbox(label, list(option.words), key=key, on_change=on_change, help=words)
    elif str in option.kinds:
        st.session_state[key] = "" if value is None else str(value)
        st.text_input(
            label,
            key=key,
            on_change=_changed(method, name, key, _read),
            help=words,
            placeholder="none" if empty else str(option.default),
        )
    else:
        whole = int in option.kinds
        st.session_state[key] = value if value is None or whole else float(value)
        step = 1 if whole else 10.0 ** math.floor(math.log10(option.default)) if option.default else 0.1
        st.number_input(
            label,
            None,
            None,
            None if empty else "min",
            step=step,
            key=key,
            on_change=on_change,
            help=words,
            format=None if whole else "%g",
            placeholder="none",
        )


def _read(text: str) -> Any:
    """A number where it is one, nothing where nothing stands, else the word."""
    from retrofit_core.options import read_options

    value = None if text.strip() in PLAIN else read_options([f"value={text.strip()}"])["value"]
    return float(value) if type(value) is int else value


def _changed(method: str, name: str, key: str, read: Callable[[Any], Any] = lambda value: value) -> Callable[[], None]:
    """A callback that puts an option's new value into the address; for one that the method does not take it says why not."""

    def write() -> None:
        from retrofit_core.options import checked, read_options, written

        preset, picks, _ = presets.read_address(st.query_params)
        picks, _ = settle(picks)
        try:
            found = checked(method, {**read_options(list(picks.options)), name: read(st.session_state[key])})
        except ValueError as error:
            st.toast(f"Left as it was: {error}", icon=":material/info:")
            return
        to_address(preset, replace(picks, options=tuple(written(found))))

    return write
