"""Controls for the options of the chosen method, grouping and score, named and explained by their settings."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st

from retrofit_app.figures import escaped, lettered
from retrofit_core.system.texts import flag

from . import configs, presets
from .parameters import Picks
from .presets import FORM


def settle(picks: Picks) -> tuple[Picks, list[str]]:
    """The picks without options that do not apply, and a sentence for each of these."""
    if not picks.options:
        return picks, []
    from retrofit_core.system.texts import read_options, written_options

    options: dict[str, Any] = {}
    ignored = []
    for word in picks.options:
        try:
            option = read_options([word])
            configs.checked_options(picks, option)
            options |= option
        except ValueError as error:
            ignored.append(f"Ignored options={word[:60]} in the address: {error} Shown instead: its default.")
    return replace(picks, options=tuple(written_options(configs.checked_options(picks, options)))), ignored


def ask(picks: Picks) -> None:
    """Draw a control for each option."""
    from retrofit_core.system.texts import read_options

    changes = read_options(list(picks.options))
    settings = sorted(configs.options(picks).values(), key=lambda setting: setting.kinds == (bool,))  # toggles last
    for setting in settings:
        _control(picks.method, setting, changes.get(setting.name, setting.default))


def title(setting: Any) -> str:
    """An option's title in the form."""
    return setting.title or setting.name.replace("_", " ").capitalize()


def _control(method: str, setting: Any, value: Any) -> None:
    """Draw a toggle, list, number or text, by the setting's kinds."""
    key = FORM.key(f"option-{method}-{setting.name}")
    label, help = title(setting), lettered(setting.help)
    help = f"{help[:1].upper()}{help[1:].rstrip('.')}. (`{flag(setting.name)}`)"
    on_change = _changed(setting, key)
    if setting.kinds == (bool,):
        st.session_state[key] = value
        st.toggle(label, key=key, on_change=on_change, help=help)
    elif setting.words:
        st.session_state[key] = value
        st.selectbox(label, list(setting.words), key=key, on_change=on_change, help=help)
    elif str in setting.kinds or tuple in setting.kinds:
        st.session_state[key] = _text(value)
        placeholder = _text(setting.default) or "none"
        st.text_input(label, key=key, on_change=on_change, help=help, placeholder=placeholder)
    else:
        whole = int in setting.kinds
        st.session_state[key] = value if value is None or whole else float(value)
        step = 1 if whole else 10.0 ** math.floor(math.log10(setting.default)) if setting.default else 0.1
        st.number_input(
            label,
            None,
            None,
            None if type(None) in setting.kinds else "min",
            step=step,
            key=key,
            on_change=on_change,
            help=help,
            format=None if whole else "%g",
            placeholder="none",
        )


def _text(value: Any) -> str:
    """A value in a text control."""
    if isinstance(value, tuple):
        return ",".join(value)
    return "" if value is None else str(value)


def _read(setting: Any, value: Any) -> Any:
    """A control's value for the setting: text becomes a list of names or a number, or stays a word; none is the default."""
    from retrofit_core.system.texts import read_value

    if not isinstance(value, str) or setting.words:
        return value
    read = read_value(value.strip()) if value.strip() else setting.default
    return setting.default if read is None else setting.normalised(read)


def _changed(setting: Any, key: str) -> Callable[[], None]:
    """A callback that puts an option's new value into the address, or says why it is invalid."""

    def write() -> None:
        from retrofit_core.system.texts import read_options, written_options

        picks, _ = settle(presets.last())
        changed = {**read_options(list(picks.options)), setting.name: _read(setting, st.session_state.get(key))}
        try:
            options = configs.checked_options(picks, changed)
        except ValueError as error:
            st.toast(f"Not changed: {escaped(error)}", icon=":material/info:")
            return
        FORM.change(options=tuple(written_options(options)))

    return write
