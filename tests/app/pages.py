"""Pages without a browser."""

from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash


def to_page(app: AppTest, name: str) -> AppTest:
    """Go to another page of the app; `run` shows it. (AppTest.switch_page knows pages that are files only.)"""
    app._page_hash = calc_hash(name)
    return app
