"""Permission to open files outside the known folders that an address names, and to import the user's own code.

Without it, clicking a link could make this machine read any path it names, and run code from there.
"""

from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Literal

import streamlit as st

from retrofit_app import runs
from retrofit_app.address import session
from retrofit_app.figures import escaped, listing
from retrofit_app.models import sources
from retrofit_app.runs.own_code import closed as not_imported
from retrofit_core.networks import user_code

from .parameters import Picks
from .presets import FORM

GRANTED = FORM.key("granted")


def grant(names: Iterable[str]) -> None:
    """Allow opening these for the rest of this session: they were typed here, or the button below was pressed."""
    session.remember(GRANTED, session.recall(GRANTED, frozenset()) | set(names))


def missing(picks: Picks) -> list[str]:
    """Files outside the known folders that the picks name and nobody has allowed."""
    code = [name.rpartition(":")[0] for name in user_code.names_in(picks.code) if "/" in name]
    named = {"shipped": (), "train": (picks.data,), "own": (picks.data, *picks.files, picks.rows, *code)}[
        picks.networks
    ]
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
    _button("Open these files", FORM.key("grant"), "folder_open", grant, names, help, "primary")


def ask_data(data: str, verb: str, key: str) -> bool:
    """Draw a button that opens a run's data set if it needs permission; return whether it does."""
    is_closed = closed(data)
    if is_closed:
        help = "This data set is outside your runs and data folders. The app does not read it until you allow it."
        _button(f"{verb} {escaped(PurePath(data).name)}", key, "lock_open", grant, [data], help)
    return is_closed


def ask_import(arch: str) -> None:
    """Say what importing means, and draw a button that does it here, so that the form can check and estimate."""
    names = not_imported(arch)
    if not names:
        return
    st.warning(
        f"{escaped(', '.join(names))} is your own code, and {user_code.WARNING}. Start imports it in a separate process. "
        "To say here whether the networks fit, and how long the fusion takes, the workbench has to import it, too.",
        icon=":material/code:",
    )
    help = "Runs the module in the workbench's own process. Do this only if you wrote it, or know who did."
    _button("Import it here, too", FORM.key("import"), "verified_user", _permit, names, help)


def _button(
    label: str,
    key: str,
    icon: str,
    permit: Callable[[list[str]], None],
    names: list[str],
    help: str,
    kind: Literal["primary", "secondary"] = "secondary",
) -> None:
    """Draw a button that permits these names."""
    st.button(label, key=key, icon=f":material/{icon}:", on_click=permit, args=(names,), help=help, type=kind)


def _permit(names: list[str]) -> None:
    for name in names:
        user_code.permit(name, runs.runs_folder())


def import_words(names: list[str]) -> str:
    """What Start would import, in place of the estimate."""
    return (
        f"Start imports {escaped(', '.join(names))}, which **runs that code**, in a separate process. Whether the networks "
        "fit, and how long the fusion takes, is unknown before."
    )
