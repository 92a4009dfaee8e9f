"""The workbench's entry: the chosen page and the frame of every page.

It is here, not beside `pages`, because Streamlit treats a folder of that name beside its script as its own pages.
"""

from pathlib import Path

import streamlit as st

from retrofit_app.address import session
from retrofit_app.shell import navigation, picker
from retrofit_app.shell.mark import dress, mark
from retrofit_app.widgets.errors import guarded

ICON = Path(__file__).parents[1] / "static" / "favicon.png"


@guarded
def whole() -> None:
    """Draw the picker and the chosen page."""
    mark()
    session.begin()
    choice = picker.pick_run()
    st.set_page_config(page_title=f"{page.title} · {choice.entry.name}")
    page.run()


page = navigation.current_page()
st.set_page_config(page_title=page.title, page_icon=str(ICON), layout="wide")
dress("everywhere", "tiles")
whole()
