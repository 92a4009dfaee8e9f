"""The shown page, and links to the others that carry the run."""

from functools import partial
from importlib import import_module
from typing import Any

import streamlit as st

from retrofit_app.address.session import ALL, Scope
from retrofit_app.figures import escaped
from retrofit_app.pages import PAGES


def current_page() -> Any:
    """The page that the address names, to run once; its module is not loaded before."""
    return st.navigation([_page(listed.name) for listed in PAGES], position="hidden")


def menu() -> None:
    """Draw links to the pages with the run and earlier choices there. Streamlit's own menu would drop both."""
    for listed in PAGES:
        choices = {word: text for name in listed.kept for word, text in Scope(name).address().items()}
        choices |= {word: st.query_params[word] for word in listed.carried if word in st.query_params}
        st.page_link(
            _page(listed.name),
            icon=listed.icon,
            query_params={**ALL.address(), **choices},
            width="stretch",
        )


def link(name: str, label: str, help: str, **parameters: str) -> None:
    """Draw a link to another page, with the run and that page's parameters."""
    listed = next(listed for listed in PAGES if listed.name == name)
    st.page_link(
        _page(name),
        label=escaped(label),
        icon=listed.icon,
        query_params={**ALL.address(), **parameters},
        help=help,
    )


def _page(name: str) -> Any:
    # A new object each time: Streamlit marks the one it runs, so sessions would disturb each other. Only links have icons:
    # browsers would fetch icons of pages from another host.
    listed = next(listed for listed in PAGES if listed.name == name)
    return st.Page(partial(_run, name), title=listed.title, url_path=name, default=listed is PAGES[0])


def _run(name: str) -> None:
    import_module(f"retrofit_app.pages.{name}.page").page()
