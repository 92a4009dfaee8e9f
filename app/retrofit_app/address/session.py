"""What the pages share: the chosen run, state in the URL, cached records, the current palette."""

from collections.abc import Collection, Mapping, Sequence
from urllib.parse import urlencode

import streamlit as st

from retrofit_app.address.rule import Field, canonical, merged, option, settle
from retrofit_app.figures import listing

BUTTON = "go-"  # the keys of buttons that change parameters of a page with lists begin so


def sync(fields: Sequence[Field]) -> dict[str, str]:
    """The values of a page's parameters; the widgets with these keys are set to them. Call it before the widgets.

    A value in the address that cannot be shown is named in a warning, and stays in the address until the next change:
    rewriting it now would add an entry to the history, and Back would lead nowhere.
    """
    registered, seen = _registered(), _seen()
    registered.update({field.name: field for field in fields})
    st.session_state.setdefault("_used", set()).update(field.name for field in fields)
    url = _url()
    shown = st.session_state.setdefault("_shown", {})
    held = {field.name: st.session_state.get(field.name) for field in fields}
    settled = settle(fields, url, seen, {name: value for name, value in held.items() if value != shown.get(name)})
    shown.update(settled.values)
    for sentence in settled.ignored:
        st.warning(sentence)
    st.session_state.update(settled.values)
    for field in fields:
        seen[field.name] = url.get(field.name, [])
    if settled.moved:
        _write(fields, settled.address)
    return settled.values


def begin() -> None:
    """Forget which parameters were used; for the start of a whole page."""
    st.session_state["_used"] = set()


def unused(others: Collection[str]) -> str:
    """A sentence about parameters that this page has not used, for its end; `others` are read elsewhere."""
    strange = [
        f"{name}={texts[-1][:60]}"
        for name, texts in _url().items()
        if texts and name not in st.session_state["_used"] and name not in others
    ]
    if not strange:
        return ""
    return f"Ignored {listing(strange)} in the address: this page has nothing of that name."


def change(**values: str) -> None:
    """Set parameters and their widgets: one entry in the history. For callbacks, which run before the page."""
    registered = _registered()
    fields = [registered[name] for name in values]
    st.session_state.update(values)
    st.session_state.setdefault("_shown", {}).update(values)
    _write(fields, canonical(fields, values))


def changed(name: str) -> None:
    """A widget's callback: write its new value. A control that was emptied keeps its old value.

    So does a control that arrives with a press of a key or button: the browser sends all controls with every press, and
    the second of two quick presses brings what a list showed before the first.
    """
    value = st.session_state[name]
    pressed = any(on for key, on in st.session_state.items() if str(key).startswith(BUTTON))
    if value is None or pressed:
        st.session_state[name] = current(name)
    else:
        change(**{name: value})


def current(name: str) -> str:
    """The value of a parameter as it was last written or read, whatever its control says."""
    return (_seen().get(name) or [_registered()[name].default])[-1]


def link() -> str:
    """This page's address with everything that was chosen, for copying."""
    parameters = {name: texts[-1] for name, texts in _url().items() if texts}
    return (st.context.url or "") + (f"?{urlencode(parameters)}" if parameters else "")


def parameters(*names: str) -> dict[str, str]:
    """Those of these parameters that the address holds, for a link to another page."""
    return {name: texts[-1] for name, texts in _url().items() if texts and name in names}


def defaults(names: Sequence[str]) -> dict[str, str]:
    """The defaults of those of these parameters that a page has used."""
    return {name: field.default for name, field in _registered().items() if name in names}


def choice(name: str, options: Sequence[str], default: str, what: str) -> str:
    """The value of one URL parameter with a list of possible values; see `sync`."""
    return sync([option(name, options, default, what)])[name]


def _registered() -> dict[str, Field]:
    return st.session_state.setdefault("_fields", {})


def _seen() -> dict[str, list[str]]:
    return st.session_state.setdefault("_seen", {})


def _url() -> dict[str, list[str]]:
    return {name: st.query_params.get_all(name) for name in st.query_params}


def _write(fields: Sequence[Field], address: Mapping[str, str]) -> None:
    """Several parameters in one message, which makes one entry in the history."""
    whole, seen = merged(_url(), fields, address), _seen()
    if whole != {name: texts[-1] for name, texts in _url().items()}:
        st.query_params.from_dict(whole)
    for field in fields:
        seen[field.name] = [whole[field.name]] if field.name in whole else []
