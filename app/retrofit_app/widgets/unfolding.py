"""Parts that unfold below their button: unlike popovers, they do not cover their subject."""

import streamlit as st


def unfolds(label: str, key: str, help: str, quiet: bool = False) -> bool:
    """Draw a button that opens and closes what the page draws below; return whether it is open.

    Args:
        quiet: without a frame.
    """
    name = f"unfolded-{key}"
    is_open = st.session_state.get(name, False)
    st.button(
        label,
        key=key,
        icon=":material/expand_less:" if is_open else ":material/expand_more:",
        on_click=lambda: st.session_state.update({name: not is_open}),
        help=help,
        type="tertiary" if quiet else "secondary",
    )
    return is_open
