"""Split a training set among parents: at random (SPLITS) or from a file."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..system.files import json_of, write
from ..system.refusals import Refusal


def full(labels: Tensor, n_parts: int, *, seed: int | np.random.Generator = 0) -> list[Tensor]:
    """Every part is all rows (parents differ only by training seed).

    Returns:
        n_parts tensors of row numbers (n,) int64, ascending.
    """
    _check(labels, n_parts)
    return [torch.arange(len(labels)) for _ in range(n_parts)]


def dirichlet(labels: Tensor, n_parts: int, *, seed: int | np.random.Generator = 0, ratio: float = 0.2) -> list[Tensor]:
    """Non-IID parts (Luenam et al. 2026, App. on data splits): each class is divided by its own Dirichlet draw.

    The concentrations linspace(1, 1/ratio, n_parts) are shuffled for each class, as are its rows; counts are
    rounded down and the last part takes the rest. DEPARTURE from the paper's text, whose third argument of
    linspace is the ratio again: it must be the number of parts, as in the authors' earlier code.

    Args:
        ratio: smallest concentration over largest, in (0, 1]; smaller means more unequal parts.
    Returns:
        Disjoint parts that cover all rows; row numbers int64, ascending.
    Raises:
        ValueError: a ratio outside (0, 1], or a part gets no rows.
    """
    _check(labels, n_parts)
    if not 0 < ratio <= 1:
        raise ValueError(f"ratio is the smallest concentration over the largest, in (0, 1]. Found {ratio}.")
    draw = np.random.default_rng(seed)
    alphas = np.linspace(1, 1 / ratio, n_parts)
    parts: list[list[np.ndarray]] = [[] for _ in range(n_parts)]
    for label in labels.unique():
        rows = (labels == label).nonzero().flatten().numpy()
        rows, alphas = draw.permutation(rows), draw.permutation(alphas)
        counts = (draw.dirichlet(alphas) * len(rows)).astype(int)
        for part, chunk in zip(parts, np.split(rows, np.cumsum(counts[:-1])), strict=True):
            part.append(chunk)
    merged = [np.sort(np.concatenate(part)) for part in parts]
    for number, part in enumerate(merged):
        if not len(part):
            raise ValueError(
                f"part {number} of {n_parts} got no rows from {len(labels)}: take fewer parts or another seed."
            )
    return [torch.from_numpy(part) for part in merged]


def sharded(
    labels: Tensor, n_parts: int, *, seed: int | np.random.Generator = 0, shards: Sequence[Sequence[int]] | None = None
) -> list[Tensor]:
    """Parts without common classes: deal out the classes at random in equal shares, or as in `shards`.

    Args:
        shards: the classes of each part; overrides the seed.
    Returns:
        Disjoint parts that cover all rows; row numbers int64, ascending.
    Raises:
        ValueError: more parts than classes, or not one shard per part with each class present exactly once.
    """
    _check(labels, n_parts)
    classes = np.unique(labels.numpy())
    if n_parts > len(classes):
        raise Refusal(
            f"a sharded split gives every part its own classes: {len(classes)} classes are too few for {n_parts} "
            "parts.",
            ("parts", len(classes)),
        )
    if shards is not None and (len(shards) != n_parts or sorted(itertools.chain(*shards)) != classes.tolist()):
        raise ValueError(
            f"shards are the classes of each of {n_parts} parts, each of the classes {classes.tolist()} once. "
            f"Found {[list(shard) for shard in shards]}."
        )
    dealt = np.array_split(np.random.default_rng(seed).permutation(classes), n_parts) if shards is None else shards
    return [torch.from_numpy(np.flatnonzero(np.isin(labels.numpy(), shard))) for shard in dealt]


SPLITS = {"full": full, "dirichlet": dirichlet, "sharded": sharded}


def read_splits(path: str | Path, model_files: Sequence[str | Path], n_rows: int) -> list[Tensor]:
    """Read each checkpoint's training rows from a splits file: {"split", "parts": [{"model", "train_rows", ...}, ...]}.

    Matches parts to checkpoints by file name, else by order.

    Args:
        n_rows: rows in the training set.
    Returns:
        One tensor of row numbers (n,) int64 per checkpoint.
    Raises:
        ValueError: not such a file, unequal counts, rows outside 0..n_rows-1, rows repeated in a part or, unless the
            split is called "full", shared by two.
    """
    path = Path(path)
    try:
        content = json_of(path)
    except OSError as error:
        raise ValueError(f"splits file {path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"splits file {path} is not JSON: {error}.") from error
    parts = content.get("parts") if isinstance(content, dict) else None
    if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
        raise ValueError(f'splits file {path} has no "parts": it must be a list with one object per checkpoint.')
    rows = [_rows(part, n_rows, f"part {number} of splits file {path}") for number, part in enumerate(parts)]
    if not str(content.get("split", "")).lower().startswith("full"):
        _check_disjoint(rows, path)
    return [rows[number] for number in _match(parts, [Path(file).name for file in model_files], path)]


def write_splits(
    path: str | Path,
    parts: Sequence[Tensor],
    labels: Tensor,
    *,
    model_files: Sequence[str | Path] = (),
    split: str = "",
    training_set: str = "",
) -> None:
    """Write a splits file for `read_splits`, atomically."""
    n_classes = int(labels.max()) + 1
    entries: list[dict[str, Any]] = [
        {
            "n_train": len(rows),
            "class_counts": torch.bincount(labels[rows], minlength=n_classes).tolist(),
            "train_rows": rows.tolist(),
        }
        for rows in parts
    ]
    if model_files:
        entries = [{"model": Path(file).name, **entry} for file, entry in zip(model_files, entries, strict=True)]
    write(path, json.dumps({"training_set": training_set, "split": split, "parts": entries}))


def _check(labels: Tensor, n_parts: int) -> None:
    if not 1 <= n_parts <= len(labels):
        raise ValueError(f"{len(labels)} rows cannot be split into {n_parts} parts: take 1 to {len(labels)}.")


def _rows(part: dict[str, Any], n_rows: int, where: str) -> Tensor:
    rows = part.get("train_rows")
    if not isinstance(rows, list) or not rows or any(type(row) is not int for row in rows):
        raise ValueError(f'{where} has no "train_rows": it must be a list of row numbers.')
    lowest, highest = min(rows), max(rows)
    if lowest < 0 or highest >= n_rows:
        raise ValueError(
            f"{where} has row {lowest if lowest < 0 else highest}, but the training set has rows "
            f"0..{n_rows - 1}: was it made for another data set?"
        )
    if len(set(rows)) < len(rows):
        raise ValueError(f"{where} names {len(rows) - len(set(rows))} of its rows twice.")
    return torch.tensor(rows, dtype=torch.int64)


def _check_disjoint(rows: list[Tensor], path: Path) -> None:
    together = torch.cat(rows)
    shared = len(together) - len(together.unique())
    if shared:
        raise ValueError(
            f'splits file {path}: parts overlap in {shared} rows, which only a split called "full" may have.'
        )


def _match(parts: list[dict[str, Any]], files: list[str], path: Path) -> list[int]:
    """Each checkpoint's part number: by file name if the file lists every name once, else by order if it lists none."""
    names = [part.get("model") for part in parts]
    if len(set(files)) == len(files) and all(names.count(file) == 1 for file in files):
        return [names.index(file) for file in files]
    if len(parts) != len(files) or (set(files) & set(names) and len(set(files)) == len(files)):
        raise ValueError(
            f"splits file {path} has parts of {', '.join(map(str, names))}, and the checkpoints are {', '.join(files)}: they are "
            "matched by file name, or by order if no name is known. Name as many checkpoints as parts, or those that it lists."
        )
    return list(range(len(files)))
