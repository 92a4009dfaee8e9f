"""Networks that are built by code of the user's own: the word on trust, and when this server may import it."""

import streamlit as st

from retrofit_app import runs
from retrofit_app.figures import escaped
from retrofit_app.runs.own_code import closed
from retrofit_core.networks import user_code

from .presets import FORM


def ask(arch: str) -> None:
    """What importing means, and a button that does it here: then the form can check and estimate."""
    names = closed(arch)
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


def words(names: list[str]) -> str:
    """What Start would do, in place of the estimate."""
    return (
        f"Start imports {escaped(', '.join(names))}, which **runs that code**, in a process of its own. Whether the networks "
        "fit, and how long it takes, is not known before."
    )
