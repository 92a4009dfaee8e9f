"""Downloads of the table, in two notations."""

import re
from collections.abc import Sequence

from retrofit_app import runs, widgets
from retrofit_app.figures.booktable import Table
from retrofit_app.runs.compared import Group
from retrofit_app.widgets import copies, downloads

MOST_NAMES = 4  # run names in a file's name


def several(groups: Sequence[Group]) -> widgets.Several:
    """The compared runs as the origin of pictures and tables."""
    entries = [network.entry for group in groups for row in group.rows for network in row.networks]
    names = list(dict.fromkeys(entry.name for entry in entries))
    first_names = (
        names if len(names) <= MOST_NAMES else [*names[: MOST_NAMES - 1], f"{len(names) - MOST_NAMES + 1}-more"]
    )
    versions = sorted({entry.status.get("version") or runs.library() for entry in entries})
    source = f"Runs {', '.join(names)}; retrofit-workbench {', '.join(versions)}"
    return widgets.Several("-".join(["compare", *first_names]), source)


def notations(table: Table, origin: widgets.Several, key: str) -> None:
    """Draw buttons for the table as CSV and LaTeX, with the page's digits."""
    signed = downloads.origin(origin)
    formats = (
        ("CSV", "csv", f"{table.csv()}# {signed}\n"),
        ("LaTeX", "tex", f"{table.latex()}% {signed}\n"),
    )
    stem, holds = (
        re.sub(r"[^\w.-]+", "_", f"{origin.name}-{key}"),
        "rounded as on the page, with its origin in the last line.",
    )
    copies.files("Download the table", stem, key, formats, holds, "package booktabs")
