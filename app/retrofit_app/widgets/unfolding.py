"""What unfolds below its button: unlike a popover, it covers nothing of what it is about."""

import streamlit as st

from retrofit_app.address import session


def unfolds(label: str, key: str, help: str, quiet: bool = False) -> bool:
    """A button that opens and closes what its page then draws below; whether that is open.

    Args:
        quiet: without a frame around it.
    """
    name = f"unfolded-{key}"
    is_open = session.recall(name, False)
    st.button(
        label,
        key=key,
        icon=":material/expand_less:" if is_open else ":material/expand_more:",
        on_click=session.remember,
        args=(name, not is_open),
        help=help,
        type="tertiary" if quiet else "secondary",
    )
    return is_open
