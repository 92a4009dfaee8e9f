"""Files outside the known folders that an address names: nobody opens them before the user has asked for it.

Else a link that somebody clicks would make this machine read whatever path it names.
"""

from collections.abc import Iterable

import streamlit as st

from retrofit_app.address import session
from retrofit_app.figures import escaped, listing
from retrofit_app.models import sources
from retrofit_core.networks import user_code

from .parameters import Picks
from .presets import FORM

GRANTED = FORM.key("granted")


def grant(names: Iterable[str]) -> None:
    """Let these be opened for the rest of this session: they were typed here, or the button below was pressed."""
    session.remember(GRANTED, session.recall(GRANTED, frozenset()) | set(names))


def missing(picks: Picks) -> list[str]:
    """What the picks name outside the known folders, and nobody has asked to open."""
    code = [name.rpartition(":")[0] for name in user_code.names_in(picks.code) if "/" in name]
    named = {"shipped": (), "train": (picks.data,), "own": (picks.data, *picks.files, picks.rows, *code)}[
        picks.networks
    ]
    return [name for name in dict.fromkeys(named) if name and closed(name)]


def closed(name: str) -> bool:
    """Whether a file or folder lies outside the known folders, and nobody has asked to open it."""
    return name not in session.recall(GRANTED, frozenset()) and not sources.is_known(name)


def ask(names: list[str]) -> None:
    """Name these files, and a button that opens them."""
    st.info(
        f"This address names files outside your runs and data folders: {escaped(listing(names))}. They are not opened before "
        "you say so.",
        icon=":material/lock:",
    )
    st.button(
        "Open these files",
        key=FORM.key("grant"),
        type="primary",
        icon=":material/folder_open:",
        on_click=grant,
        args=(names,),
        help="Reads them on this machine to check whether they can be fused. Do so if you know where the link came from.",
    )
