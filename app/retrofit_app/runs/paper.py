"""The paper's tables beside our measurements: where results are, what they say, and which run a number came from.

`retrofit_core.experiments`, which reads them, needs torch, so only functions import it.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrofit_core.runs.store import UNIT

from .methods import family_of
from .records import BUNDLED, Entry, runs_folder

#: The project's own results: in the repository, not in an installed package.
RECORDS = BUNDLED.parents[2] / "benchmarks" / "results" / "experiments"
#: Further bundles, folders of bundles or runs folders, separated as in PATH (`retrofit app --results`).
VARIABLE = "RETROFIT_RESULTS"
#: Families of rows other than methods, listed before and after these.
PARENTS, OTHERS = "Parents", "Others"
#: The scale at which a column is shown: the fullest one, or a given setting.
FULLEST, GIVEN = "fullest", "given"
SAME = "as in the paper"

Stamp = tuple[tuple[str, int, int], ...]


def sources() -> list[Path]:
    """Where results are, besides the runs folder."""
    named = [Path(name) for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]
    return [*([RECORDS] if RECORDS.is_dir() else []), *named]


def short(path: Path) -> str:
    """A path as commands run in the project's folder write it."""
    return str(path.relative_to(BUNDLED.parents[2])) if path == RECORDS else str(path)


def stamp() -> Stamp:
    """Changes when results do."""
    files = [file for path in (runs_folder(), *sources()) for file in _files(path)]
    return tuple((str(file), facts.st_mtime_ns, facts.st_size) for file in files if (facts := _stat(file)))


def _files(path: Path) -> Iterable[Path]:
    if not path.is_dir():
        return [path]
    return [*path.glob("*.json"), *path.glob(f"{UNIT.folder}/*/{UNIT.last}")]


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def read() -> tuple[Any, list[str]]:
    """All results, those of the runs folder included, as a `Bundle`; and one sentence for each unreadable file."""
    from retrofit_core.experiments.bundles import Bundle, merged, results_in
    from retrofit_core.experiments.results import all_results

    bundles, problems = [Bundle(all_results(runs_folder()))], []
    for path in sources():
        try:
            bundles.append(results_in(path))
        except ValueError as error:
            problems.append(str(error))
    return merged(bundles), problems


# --- a table --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """A table of the paper: its columns at every measured scale."""

    name: str
    every: tuple[Any, ...]
    """`ReproducedColumn`s; an unmeasured one appears once"""
    scales: Mapping[str, str]
    """The scales to choose from -> what differs from the paper there"""

    @property
    def columns(self) -> tuple[str, ...]:
        """Their names, in the paper's order."""
        return tuple(dict.fromkeys(column.name for column in self.every))

    @property
    def has_paper(self) -> bool:
        """Whether the paper prints its numbers."""
        return any(line.paper is not None for column in self.every for line in column.all_lines)

    def at(self, scale: str) -> list[Any]:
        """Each column once, at a scale; where that is FULLEST or not measured, each row at its fullest, on the paper's data set
        if it is measured there."""
        from retrofit_core.experiments.reproduction import by_row

        asked = {column.name: column for column in reversed(self.every) if scale_of(column) == scale}
        fullest = {column.name: column for column in reversed(by_row(self.every))}
        return [asked.get(name, fullest[name]) for name in self.columns]


def names() -> dict[str, str]:
    """Every table's name and title: the paper's tables and figures, then ours."""
    from retrofit_core.experiments.paper import OURS
    from retrofit_core.experiments.tables import TABLES

    return {name: table.title for name, table in sorted(TABLES.items(), key=lambda pair: pair[0] in OURS)}


def table(name: str, bundle: Any) -> Shown:
    """A table with all its measurements."""
    from retrofit_core.experiments.reproduction import reproduced
    from retrofit_core.experiments.scales import EVERY_SCALE
    from retrofit_core.experiments.setting import settings
    from retrofit_core.experiments.tables import TABLES

    chosen = settings(TABLES[name], bundle, EVERY_SCALE)
    columns = reproduced(TABLES[name], chosen, runs_folder().name).columns
    words: dict[str, list[str]] = {}
    for column in columns:
        if column.setting.is_measured:
            words.setdefault(scale_of(column), []).append(differences(column))
    return Shown(name, columns, {scale: _common(same) for scale, same in words.items()})


def scale_of(column: Any) -> str:
    """A column's scale: its name, or GIVEN."""
    return GIVEN if column.setting.given else column.setting.scale.name


def differences(column: Any) -> str:
    """How a column differs from the paper, in words; SAME if nothing does."""
    from retrofit_core.experiments.scale_words import differences

    return ", ".join(differences(column.setting)) or SAME


def _common(words: Sequence[str]) -> str:
    """The differences that all columns of a scale share, or else the first one's."""
    parts = [each.split(", ") for each in words]
    return ", ".join(part for part in parts[0] if all(part in each for each in parts)) or words[0]


def report(bundle: Any, tables: Sequence[str], scale: str) -> Any:
    """What `retrofit reproduce` writes about tables, at one scale or at every measured one."""
    from retrofit_core.experiments.report import report
    from retrofit_core.experiments.scales import EVERY_SCALE, SCALES

    scales = [SCALES[scale]] if scale in SCALES else EVERY_SCALE
    return report(bundle, tables, scales, root=runs_folder().name)


# --- rows and cells -------------------------------------------------------------------------------


def family(row: str) -> str:
    """The family of a row's method; PARENTS, or OTHERS if it names no method."""
    if row.startswith("Parent "):
        return PARENTS
    return family_of(row.split(", ")[0])


def counts(column: Any) -> bool:
    """Whether a column's numbers count as measurements of the paper's: they mean something, and are of its data set."""
    return column.says and not column.setting.substitute


def contradicted(column: Any) -> dict[str, list[str]]:
    """Row -> the comparisons, in words, where our difference and the paper's have opposite signs; none unless it `counts`."""
    found: dict[str, list[str]] = {}
    scales = {each.badge: each for each in column.scales or (column,)}
    shown = {line.row: line.badge for line in column.all_lines}
    for claim in column.claims if counts(column) else ():
        if claim.verdict == "contradicted":
            at = f" ({claim.badge})" if claim.badge else ""
            lines = scales[claim.badge or column.badge].all_lines
            compared = [line.row for line in lines if (line.stands_for or line.row) in claim.rows]
            # A row whose shown number is of another scale is not what was compared.
            of_scale = [row for row in compared if shown.get(row) == claim.badge]
            for row in of_scale or compared:
                found.setdefault(row, []).append(f"{claim.left} against {claim.right}{at}")
    return found


def command(column: Any, row: str) -> str:
    """The command that measures one row of a column, at its scale and with its parents."""
    from retrofit_core.experiments.reproduction import command

    return command(column.setting, runs_folder().name, row=row)


def run_of(result: Any, entries: Sequence[Entry]) -> Entry | None:
    """The finished run of the same fusion of the same networks as a result, wherever that was measured; None if there is
    none, or the result is not a fusion's."""
    from retrofit_core.experiments.units import FROM_SOURCE
    from retrofit_core.runs import RunConfig

    if "fusion" not in result.unit or "only" in result.unit:
        return None
    given = {role: digest for role, digest in result.inputs.items() if role.startswith("parent ")}
    parents = [given[role] for role in sorted(given, key=lambda role: int(role.split()[1]))]
    for entry in entries:
        if entry.state != "done" or entry.networks != parents:
            continue
        if entry.inputs.get(entry.config.get("splits") or "") != result.inputs.get("splits"):
            continue
        changed = RunConfig.from_json(entry.config).changed()
        if {name: value for name, value in changed.items() if name not in FROM_SOURCE} == result.unit["fusion"]:
            return entry
    return None
