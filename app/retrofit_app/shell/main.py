"""The workbench's entry: the chosen page, and what stands around every one of them.

It lies here, and not beside `pages`, because Streamlit takes a folder of that name beside its script for pages of its own.
"""

from pathlib import Path

import streamlit as st

from retrofit_app.address import session
from retrofit_app.figures import escaped
from retrofit_app.shell import navigation, picker
from retrofit_app.shell.errors import guarded
from retrofit_app.shell.mark import mark
from retrofit_app.shell.style import stylesheet
from retrofit_core.networks import user_code

#: Whoever sends a link decides what it names: no module of a user's is imported here before somebody presses a button.
user_code.ask_first()
ICON = Path(__file__).parents[1] / "static" / "favicon.png"


@guarded
def whole() -> None:
    """The picker and the chosen page."""
    mark()
    session.begin()
    choice = picker.pick_run()
    st.set_page_config(page_title=f"{page.title} · {choice.entry.name}")
    above = st.container()
    page.run()
    if sentence := session.unused():
        above.warning(escaped(sentence))


page = navigation.chosen()
st.set_page_config(page_title=page.title, page_icon=str(ICON), layout="wide")
st.html(stylesheet())
whole()
