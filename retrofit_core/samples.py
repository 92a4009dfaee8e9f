"""What counts as fusion data, and as the data of each parent."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from .labels import as_labels


def as_tensors(data: Any, samples: int | None = None) -> tuple[Tensor, Tensor | None]:
    """Fusion data as (inputs, labels or None): a tensor, (inputs, labels), a DataLoader, a Dataset or a list of batches;
    arrays of numpy are as good as tensors.

    Args:
        samples: no more than the first so many are taken, and no more batches are read than hold them.
    Raises:
        ValueError: empty, or not one of these.
    """
    if isinstance(data, np.ndarray):
        data = torch.as_tensor(data)
    elif isinstance(data, (tuple, list)):
        data = type(data)(torch.as_tensor(part) if isinstance(part, np.ndarray) else part for part in data)
    if isinstance(data, Tensor):
        pair: tuple[Tensor, Tensor | None] = (data, None)
    elif (
        isinstance(data, (tuple, list))
        and len(data) == 2
        and all(isinstance(part, Tensor) for part in data)
        and data[1].ndim <= 1
    ):
        pair = (data[0], data[1])
    elif isinstance(data, (DataLoader, Dataset, Iterable)) and not isinstance(data, (str, bytes, dict)):
        batches = DataLoader(data, batch_size=256) if isinstance(data, Dataset) else data
        pair = _joined(_first(batches, samples))
    else:
        raise ValueError(
            f"fusion data must be a tensor, (inputs, labels), a DataLoader or a Dataset. Found {type(data).__name__}."
        )
    if not len(pair[0]):
        raise ValueError("the fusion set is empty. Pass at least a few dozen samples; the paper uses 400.")
    if pair[1] is not None and len(pair[1]) != len(pair[0]):
        raise ValueError(f"the fusion data hold {len(pair[0])} inputs but {len(pair[1])} labels.")
    return pair[0][:samples], None if pair[1] is None else as_labels(pair[1])[:samples]


def parents_data(data: Any, fusion: tuple[Tensor, Tensor | None], n: int) -> list[tuple[Tensor, Tensor | None]]:
    """(inputs, labels) of each of n parents: its own data as `as_tensors` takes them, or the fusion data (None, "fusion").

    Raises:
        ValueError: no sets at all, or another number of them than parents.
    """
    if data is None or data == "fusion":
        return [fusion] * n
    if not isinstance(data, Iterable) or isinstance(data, (str, bytes)):
        found = repr(data) if isinstance(data, (str, bytes)) else f"of type {type(data).__name__}"
        raise ValueError(
            f"importance data are {found}. Pass [(inputs, labels), ...], one pair per parent, or 'fusion' for the fusion data."
        )
    pairs = [as_tensors(pair) for pair in data]
    if len(pairs) != n:
        raise ValueError(f"importance_data holds {len(pairs)} sets for {n} parents.")
    return pairs


def _first(batches: Iterable[Any], samples: int | None) -> list[Any]:
    """The batches that hold the first samples; all of them where no number is given."""
    read: list[Any] = []
    count = 0
    for batch in batches:
        read.append(batch)
        first = batch[0] if isinstance(batch, (tuple, list)) and batch else batch
        count += len(first) if hasattr(first, "__len__") else 0
        if samples is not None and count >= samples:
            break
    return read


def _joined(batches: list[Any]) -> tuple[Tensor, Tensor | None]:
    pairs: list[Any] = [batch if isinstance(batch, (tuple, list)) else (batch,) for batch in batches]
    if not pairs:
        return torch.empty(0), None
    strange = next((type(pair[0]).__name__ for pair in pairs if not hasattr(pair[0], "__array__")), None)
    if strange:
        raise ValueError(
            f"a batch of the fusion data starts with {strange}, not a tensor. Yield inputs or (inputs, labels)."
        )
    labels = torch.cat([torch.as_tensor(pair[1]) for pair in pairs]) if len(pairs[0]) > 1 else None
    return torch.cat([torch.as_tensor(pair[0]) for pair in pairs]), labels
