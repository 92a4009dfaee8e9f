"""Pages without a browser, and the form's part of an address."""

import re
from collections.abc import Mapping
from typing import Any

from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from retrofit_app import runs
from retrofit_app.address.rule import parameters_of, texts_of, values_of
from retrofit_app.pages.fuse import presets
from retrofit_app.pages.fuse.parameters import Picks

MAIN = str(runs.BUNDLED.parent / "shell" / "main.py")


def page_at(name: str = "", /, **address: str) -> AppTest:
    """A page as a link opens it; the first one where none is named."""
    page = AppTest.from_file(MAIN, default_timeout=120)
    for word, value in address.items():
        page.query_params[word] = value
    return (to_page(page, name) if name else page).run()


def to_page(app: AppTest, name: str) -> AppTest:
    """Go to another page of the app; `run` shows it. (AppTest.switch_page knows pages that are files only.)"""
    app._page_hash = calc_hash(name)
    return app


def spoken(name: str = "", /, **address: str):
    """A page in lecture mode, in a window of 1280 x 720."""
    page = AppTest.from_file(MAIN, default_timeout=120)
    page.session_state["enlarged"] = 1.0  # as a browser tells it
    for word, value in {"lecture": "1", **address}.items():
        page.query_params[word] = value
    return (to_page(page, name) if name else page).run()


def words(page: AppTest) -> str:
    """What is written on a page."""
    return "\n".join(element.value for kind in (page.title, page.markdown, page.caption, page.info) for element in kind)


def claims(markdown: str) -> list[str]:
    """What is bold in a text."""
    return re.findall(r"\*\*(.+?)\*\*", markdown, re.DOTALL)


def count(text: str) -> int:
    """Its words, and numbers."""
    return len(re.findall(r"\S*\w\S*", text))


def clean(page: AppTest) -> bool:
    """Whether nothing on it is wrong."""
    return not page.exception and not page.error and not page.warning


def form_of(address: Mapping[str, Any]) -> tuple[str, Picks, list[str]]:
    """The preset and the picks that an address names, and what was ignored."""
    first, no_preset = values_of([presets.PRESET], address)
    rest, ignored = values_of(parameters_of(presets.PRESETS[first["preset"]].picks), address)
    return first["preset"], Picks(**rest), no_preset + ignored


def address_of(preset: str, picks: Picks) -> dict[str, str]:
    """The inverse of `form_of`."""
    values = {name: getattr(picks, name) for name in presets.NAMES}
    return texts_of([presets.PRESET, *parameters_of(presets.PRESETS[preset].picks)], {"preset": preset, **values})
