"""Folders of bundles next to the code: for each table, a file of its name with the results that it shows."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from .bundles import Bundle, bundles_in, merged, read_bundle, without_images, write_bundle
from .cells import Table
from .scales import SCALES
from .setting import every_setting


@dataclass(frozen=True)
class BundleFile:
    """A file of a folder."""

    path: Path
    results: int
    bytes: int


def used_by(tables: Sequence[Table], bundle: Bundle) -> Bundle:
    """The results of a bundle that tables show: at every scale, for all data sets and parents, also of earlier methods."""
    results = {}
    for table, scale in product(tables, SCALES.values()):
        for column in table.columns:
            for setting in every_setting(table, column, scale, bundle):
                for known in setting.known:
                    results |= {each.key: each for each in (*known.results, known.start) if each is not None}
    names = {table.name for table in tables}
    theirs = [tuple(column for column in entry.columns if column[0] in names) for entry in bundle.given]
    given = [
        dataclasses.replace(entry, columns=columns)
        for entry, columns in zip(bundle.given, theirs, strict=True)
        if columns
    ]
    return Bundle(dict(sorted(results.items())), tuple(given))


def update_folder(
    folder: str | Path, bundle: Bundle, tables: Sequence[Table], with_images: bool = False
) -> list[BundleFile]:
    """Atomically write the file `TABLE.json` of each table, without removing results that it has.

    Of two results of a unit, the later one is kept. A table without results gets no file.

    Args:
        with_images: as in `write_bundle`, for added results; existing ones do not change.
    Raises:
        ValueError: a file of the folder is no bundle, or damaged.
    """
    folder = Path(folder)
    present = bundles_in(folder) if folder.is_dir() else Bundle({})
    paths = {table.name: folder / f"{table.name}.json" for table in tables}
    stored = {name: read_bundle(path) for name, path in paths.items() if path.is_file()}
    if not with_images:
        bare = {key: without_images(result) for key, result in bundle.results.items()}
        bundle = dataclasses.replace(bundle, results=bare)
    known = merged([present, bundle])
    written = []
    for table in tables:
        # Keep results that no table shows any more because a scale has changed.
        chosen = merged([used_by([table], known), stored.get(table.name, Bundle({}))])
        if chosen.results:
            path = paths[table.name]
            path.parent.mkdir(parents=True, exist_ok=True)
            written.append(BundleFile(path, len(chosen.results), write_bundle(path, chosen, with_images=True)))
    return written
