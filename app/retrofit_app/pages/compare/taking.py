"""Downloads and copies: the table in two notations, a link, and the comparison as commands."""

from collections.abc import Sequence

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures.booktable import Table
from retrofit_app.runs.compared import FusedNetwork, Group
from retrofit_app.widgets import copies, downloads

MOST_NAMES = 4  # run names in a file's name


def several(groups: Sequence[Group]) -> widgets.Several:
    """The compared runs as the origin of pictures and tables."""
    entries = [network.entry for network in networks_in(groups)]
    names = list(dict.fromkeys(entry.name for entry in entries))
    first_names = (
        names if len(names) <= MOST_NAMES else [*names[: MOST_NAMES - 1], f"{len(names) - MOST_NAMES + 1}-more"]
    )
    versions = sorted({entry.status.get("version") or runs.library() for entry in entries})
    source = f"Runs {', '.join(names)}; retrofit-workbench {', '.join(versions)}"
    return widgets.Several("-".join(["compare", *first_names]), source)


def networks_in(groups: Sequence[Group]) -> list[FusedNetwork]:
    """All compared networks."""
    return [network for group in groups for row in group.rows for network in row.networks]


def command(networks: Sequence[FusedNetwork]) -> str:
    """The comparison as commands."""
    from retrofit_core.runs import RunConfig
    from retrofit_core.runs.config import commands

    entries = {network.entry.name: network.entry for network in networks}
    pairs = [(RunConfig.from_json(entry.config), runs.training_of(entry)) for entry in entries.values()]
    return "\n".join([commands(pairs), *(_tuning(network) for network in networks if network.tuning is not None)])


def _tuning(network: FusedNetwork) -> str:
    """The command that fine-tunes a compared network again."""
    from retrofit_core.runs import RunConfig
    from retrofit_core.runs.finetunings import FinetuneConfig

    return FinetuneConfig.from_json(network.tuning or {}).command(RunConfig.from_json(network.entry.config).key())


def notations(table: Table, origin: widgets.Several, key: str) -> None:
    """Draw buttons for the table as CSV and LaTeX, with the page's digits."""
    signed = downloads.origin(origin)
    formats = (
        ("CSV", "csv", f"{table.csv()}# {signed}\n"),
        ("LaTeX", "tex", f"{table.latex()}% {signed}\n"),
    )
    stem, holds = downloads.file_stem(origin.name, "", key), "rounded as on the page, with its origin in the last line."
    copies.files("Download the table", stem, key, formats, holds, "package booktabs")


def copy(groups: Sequence[Group], what: str, key: str) -> None:
    """Draw a link to the view, and the comparison's commands, made when the box is opened."""
    box = st.expander(
        f"Copy {what} as link or command",
        icon=":material/content_copy:",
        key=f"copy-{key}",
        on_change="rerun",
    )
    if box.open:
        with box:
            note = "Start it in the runs folder. Finished runs are not repeated."
            copies.command(command(networks_in(groups)), note, link=True)
