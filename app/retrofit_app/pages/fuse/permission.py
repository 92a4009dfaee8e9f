"""Files outside the known folders that an address names, and code of the user's own: nobody opens the one or imports the other
before the user has asked for it.

Else a link that somebody clicks would make this machine read whatever path it names, and run what is in it.
"""

from collections.abc import Iterable

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


def ask_import(arch: str) -> None:
    """What importing means, and a button that does it here: then the form can check and estimate."""
    names = not_imported(arch)
    if not names:
        return
    st.warning(
        f"{escaped(', '.join(names))} is code of your own, and {user_code.WARNING}. Start imports it in a process of its "
        "own. To see here whether the networks fit, and how long it takes, the workbench has to import it, too.",
        icon=":material/code:",
    )
    st.button(
        "Import it here, too",
        key=FORM.key("import"),
        icon=":material/verified_user:",
        on_click=_permit,
        args=(names,),
        help="Runs the module in the workbench's own process, until that ends. Do so if you wrote it, or know who did.",
    )


def _permit(names: list[str]) -> None:
    for name in names:
        user_code.permit(name, runs.runs_folder())


def import_words(names: list[str]) -> str:
    """What Start would do, in place of the estimate."""
    return (
        f"Start imports {escaped(', '.join(names))}, which **runs that code**, in a process of its own. Whether the networks "
        "fit, and how long it takes, is not known before."
    )
