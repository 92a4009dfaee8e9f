"""The paper's tables beside our measurements: where results are, and what they say.

Names of the core are imported in functions: its claims need numpy.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .records import BUNDLED, runs_folder

#: The project's own results: in the repository, not in an installed package.
RECORDS = BUNDLED.parents[2] / "benchmarks" / "results" / "experiments"
#: Further files of results, folders of them or runs folders, separated as in PATH (`retrofit app --results`).
VARIABLE = "RETROFIT_RESULTS"

Stamp = tuple[tuple[str, int, int], ...]


def stamp() -> Stamp:
    """Changes when results do: their files, of which later ones count, with times and sizes."""
    from retrofit_core.experiments.results import files_in

    others = [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]
    files = [file for path in [RECORDS, *others, runs_folder()] for file in files_in(path)]
    return tuple((str(file), facts.st_mtime_ns, facts.st_size) for file in files if (facts := _stat(file)))


def _stat(file: Path) -> os.stat_result | None:
    try:
        return file.stat()
    except OSError:
        return None


def read(stamp: Stamp) -> tuple[dict[str, list[Any]], list[str]]:
    """All results by table, and one sentence for each unreadable file."""
    from retrofit_core.experiments.results import latest
    from retrofit_core.experiments.results import read as read_file
    from retrofit_core.experiments.tables import TABLES

    files: dict[str, list[Path]] = {name: [] for name in TABLES}
    problems = []
    for path, *_ in stamp:
        try:
            read_file(Path(path))
        except ValueError as error:
            problems.append(str(error))
        else:
            files.setdefault(Path(path).stem, []).append(Path(path))
    return {name: latest(of_table) for name, of_table in files.items()}, problems


@dataclass(frozen=True)
class Shown:
    """A table of the paper: its columns at every measured scale."""

    name: str
    every: tuple[Any, ...]
    """`ReproducedColumn`s; an unmeasured one appears once"""

    @property
    def has_paper(self) -> bool:
        """Whether the paper prints its numbers."""
        return any(line.paper is not None for column in self.every for line in column.all_lines)

    @property
    def columns(self) -> Sequence[Any]:
        """Each column once, each of its rows at its fullest scale."""
        from retrofit_core.experiments.reproduction import by_row

        return by_row(self.every)


def names() -> dict[str, str]:
    """Every table's name and title: the paper's tables and figures, then ours."""
    from retrofit_core.experiments.paper import OURS
    from retrofit_core.experiments.tables import TABLES

    return {name: table.title for name, table in sorted(TABLES.items(), key=lambda pair: pair[0] in OURS)}


def table(name: str, results: Sequence[Any]) -> Shown:
    """A table with all its measurements."""
    from retrofit_core.experiments.reproduction import reproduced_table
    from retrofit_core.experiments.tables import TABLES

    return Shown(name, reproduced_table(TABLES[name], results, root=runs_folder().name).columns)


def report(results: Mapping[str, Sequence[Any]], tables: Sequence[str]) -> Any:
    """What `retrofit reproduce --report` writes about tables, at every measured scale."""
    from retrofit_core.experiments.report import report
    from retrofit_core.experiments.scales import BEST_FIRST

    return report({name: results[name] for name in tables}, BEST_FIRST, root=runs_folder().name)


def contradicted(column: Any) -> Mapping[str, list[str]]:
    """Row -> the comparisons, in words, where our difference and the paper's have opposite signs; none unless it `counts`."""
    against: dict[str, list[str]] = {}
    scales = {each.badge: each for each in column.scales or (column,)}
    shown = {line.row: line.badge for line in column.all_lines}
    for claim in column.claims if column.counts else ():
        if claim.verdict == "contradicted":
            at = f" ({claim.badge})" if claim.badge else ""
            lines = scales[claim.badge or column.badge].all_lines
            compared = [line.row for line in lines if (line.stands_for or line.row) in claim.rows]
            # A row whose shown number is of another scale is not what was compared.
            of_scale = [row for row in compared if shown.get(row) == claim.badge]
            for row in of_scale or compared:
                against.setdefault(row, []).append(f"{claim.left} against {claim.right}{at}")
    return against
