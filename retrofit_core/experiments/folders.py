"""Folders of bundles next to the code: for each table, a file of its name with the results that it shows."""

import dataclasses
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from .bundles import Bundle, bundles_in, merged, read_bundle, write_bundle
from .cells import Table
from .scales import SCALES
from .setting import every_setting


def used_by(table: Table, bundle: Bundle) -> Bundle:
    """The results of a bundle that a table shows: at every scale, for all data sets and parents, also of earlier methods."""
    results = {}
    for scale, column in product(SCALES.values(), table.columns):
        for setting in every_setting(table, column, scale, bundle):
            for cell in setting.cells:
                results |= {each.key: each for each in (*cell.results, cell.start) if each is not None}
    given = [
        dataclasses.replace(entry, columns=columns)
        for entry in bundle.given
        if (columns := tuple(column for column in entry.columns if column[0] == table.name))
    ]
    return Bundle(dict(sorted(results.items())), tuple(given))


def update_folder(folder: str | Path, bundle: Bundle, tables: Sequence[Table]) -> dict[Path, int]:
    """Atomically write the file `TABLE.json` of each table, without removing results that it has.

    Of two results of a unit, the later one is kept. A table without results gets no file.

    Returns:
        The files, and how many results each holds.
    Raises:
        ValueError: a file of the folder is no bundle, or damaged.
    """
    folder = Path(folder)
    every, written = merged([bundles_in(folder), bundle]), {}
    for table in tables:
        path = folder / f"{table.name}.json"
        # Keep results that no table shows any more because a scale has changed.
        of_table = merged([used_by(table, every), read_bundle(path) if path.is_file() else Bundle({})])
        if of_table.results:
            folder.mkdir(parents=True, exist_ok=True)
            write_bundle(path, of_table)
            written[path] = len(of_table.results)
    return written
