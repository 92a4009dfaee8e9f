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
            for known in setting.known:
                results |= {each.key: each for each in (*known.results, known.start) if each is not None}
    theirs = [tuple(column for column in entry.columns if column[0] == table.name) for entry in bundle.given]
    given = [
        dataclasses.replace(entry, columns=columns)
        for entry, columns in zip(bundle.given, theirs, strict=True)
        if columns
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
    known, written = merged([bundles_in(folder), bundle]), {}
    paths = {table.name: folder / f"{table.name}.json" for table in tables}
    stored = {name: read_bundle(path) for name, path in paths.items() if path.is_file()}
    for table in tables:
        # Keep results that no table shows any more because a scale has changed.
        chosen = merged([used_by(table, known), stored.get(table.name, Bundle({}))])
        if chosen.results:
            folder.mkdir(parents=True, exist_ok=True)
            write_bundle(paths[table.name], chosen)
            written[paths[table.name]] = len(chosen.results)
    return written
