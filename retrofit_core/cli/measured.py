"""Measured results of a runs folder, of bundles, or shipped with the project, and their list."""

from collections.abc import Sequence
from pathlib import Path

from ..experiments.bundles import Bundle, merged, results_in
from ..experiments.cells import Table
from ..experiments.results import all_results
from ..experiments.scales import EVERY_SCALE, SCALES, Scale, scale_of
from ..experiments.setting import Setting, settings
from ..experiments.tables import TABLES
from .terminal import err, new_table, out, say

#: Results shipped with the project, relative to its folder.
SHIPPED = Path("benchmarks/results/experiments")


def scales_of(words: str | None) -> list[Scale]:
    """Scales separated by commas; None for all."""
    return [scale_of(name.strip()) for name in words.split(",")] if words else list(EVERY_SCALE)


def results_of(paths: Sequence[Path]) -> Bundle:
    """Merged results of bundles, folders of bundles and runs folders."""
    return merged(map(results_in, paths))


def measured(folder: Path, results: Sequence[Path]) -> Bundle:
    """Results of a runs folder and of `results`; the shipped ones if the folder has none and `results` is empty."""
    here = Bundle(all_results(folder))
    if here.results or results:
        return merged([here, results_of(results)])
    if not SHIPPED.is_dir():
        say(
            f"{folder} contains no results. The project includes some: run the command in the project's folder, or "
            f"pass --results PROJECT/{SHIPPED}.",
            to=err,
        )
        return here
    say(f"{folder} contains no results. Using the project's: {SHIPPED}.", to=err)
    return results_of([SHIPPED])


def list_tables(folder: Path, results: Sequence[Path], scale: str | None) -> None:
    """Print how many cells of each table are measured at each scale, largest first."""
    known = measured(folder, results)
    listed = new_table("table", "what", "cells measured")
    for entry in TABLES.values():
        listed.add_row(entry.name, entry.title, "\n".join(_counted(entry, known, scales_of(scale))))
    out.print(listed)


def _counted(table: Table, known: Bundle, scales: Sequence[Scale]) -> list[str]:
    """Measured cells of the measured columns, by badge (scale and parents)."""
    by_badge: dict[str, list[Setting]] = {}
    order = list(SCALES)
    for each in sorted(settings(table, known, scales), key=lambda each: -order.index(each.scale.name)):
        if each.is_measured:
            by_badge.setdefault(each.badge, []).append(each)
    return [
        f"{sum(each.measured for each in same)} of {sum(len(each.meant) for each in same)} {badge}"
        for badge, same in by_badge.items()
    ] or ["none"]
