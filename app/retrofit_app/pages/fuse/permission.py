"""Permission to open files outside the known folders that an address names.

Without it, clicking a link could make this machine read any path it names.
"""

from collections.abc import Iterable
from pathlib import PurePath
from typing import Literal

import streamlit as st

from retrofit_app.address import session
from retrofit_app.figures import escaped, listing
from retrofit_app.models import sources

from .parameters import Picks
from .presets import FORM

GRANTED = FORM.key("granted")


def grant(names: Iterable[str]) -> None:
    """Allow opening these for the rest of this session: they were typed here, or the button below was pressed."""
    session.remember(GRANTED, session.recall(GRANTED, frozenset()) | set(names))


def missing(picks: Picks) -> list[str]:
    """Files outside the known folders that the picks name and nobody has allowed."""
    named = {"shipped": (), "train": (picks.data,), "own": (picks.data, *picks.files, picks.rows)}[picks.networks]
    return [name for name in dict.fromkeys(named) if name and closed(name)]


def closed(name: str) -> bool:
    """Whether a file or folder is outside the known folders and nobody has allowed it."""
    return name not in session.recall(GRANTED, frozenset()) and not sources.is_known(name)


def ask(names: list[str]) -> None:
    """Name these files, and draw a button that opens them."""
    st.info(
        f"This address names files outside your runs and data folders: {escaped(listing(names))}. They stay closed until you "
        "allow it.",
        icon=":material/lock:",
    )
    help = "Reads them on this machine to check whether they can be fused. Do this only if you know where the link came from."
    _button("Open these files", FORM.key("grant"), "folder_open", names, help, "primary")


def ask_data(data: str, verb: str, key: str) -> bool:
    """Draw a button that opens a run's data set if it needs permission; return whether it does."""
    is_closed = closed(data)
    if is_closed:
        help = "This data set is outside your runs and data folders. The app does not read it until you allow it."
        _button(f"{verb} {escaped(PurePath(data).name)}", key, "lock_open", [data], help)
    return is_closed


def _button(
    label: str,
    key: str,
    icon: str,
    names: list[str],
    help: str,
    kind: Literal["primary", "secondary"] = "secondary",
) -> None:
    """Draw a button that opens these."""
    st.button(label, key=key, icon=f":material/{icon}:", on_click=grant, args=(names,), help=help, type=kind)
