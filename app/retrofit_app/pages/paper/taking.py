"""Downloads: the tables as `retrofit reproduce` writes them, a picture's origin, and the command and Python behind it."""

import shlex
from collections.abc import Callable

from retrofit_app import runs, widgets
from retrofit_app.runs import paper
from retrofit_app.runs.paper import FULLEST, GIVEN, Stamp
from retrofit_app.widgets import copies, tables
from retrofit_app.widgets.downloads import file_stem

#: Scales that need no option of the report.
EVERY = (FULLEST, GIVEN)


def origin(table: str, column: str, scale: str) -> widgets.Several:
    """The origin of a column's picture."""

    def texts() -> tuple[str, str]:
        words = [
            "retrofit",
            "reproduce",
            table,
            "--report",
            *([] if scale in EVERY else ["--scale", scale]),
            "--columns",
            column,
        ]
        words += [word for path in paper.sources() for word in ("--results", paper.short(path))]
        results = [paper.short(path) for path in paper.sources()]
        at = "" if scale in EVERY else f", scale={scale!r}"
        code = "\n".join(
            [
                "from retrofit_core.experiments import table",
                "",
                f"column = table({table!r}{at}, runs={runs.runs_folder().name!r}, results={results!r}).column({column!r})",
                "column.show()",
            ]
        )
        return shlex.join(words), code

    source = f"{table}, {column}; retrofit-workbench {runs.library()}"
    what = "Writes these numbers, in the folder that holds the runs folder."
    return widgets.Several(f"paper-{table}-{column}", source, texts, what)


def files(stamp: Stamp, names: list[str], scale: str, stem: str) -> None:
    """Draw buttons for the report of some tables, written when pressed."""
    from retrofit_core.experiments.report_formats import markdown, spreadsheet

    formats = (("CSV", "csv", spreadsheet), ("Markdown", "md", markdown))

    def written(write: Callable[..., str]) -> Callable[[], bytes]:
        return lambda: write(paper.report(tables.results(stamp)[0], names, scale)).encode()

    offered = [(label, ending, written(write)) for label, ending, write in formats]
    holds = "all rows and columns, the differences between methods, and what differs from the paper."
    copies.files("Download the tables", file_stem("paper", "", stem), stem, offered, holds)
