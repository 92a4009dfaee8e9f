"""Convert fusion data and the parents' data to tensors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from numbers import Number
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from ..networks.inputs import Inputs, each_of, leaves_of, like
from ..system.labels import as_labels
from ..system.registry import first_line
from .eligibility import check_finite

#: Entries of a dict that hold the labels, as in Hugging Face's batches.
LABELS = ("labels", "label")


def as_inputs(data: object, samples: int | None = None) -> tuple[Inputs, Tensor | None]:
    """Convert fusion data to (inputs, labels or None).

    `data` is a tensor, (inputs, targets), a dict, a DataLoader, a Dataset or a list of batches or samples. NumPy arrays may
    replace tensors, and lists targets. A pair is always (inputs, targets), and targets never reach a network. Inputs are a
    tensor, a dict of tensors (keyword arguments of the network's forward) or a tuple of tensors (its positional arguments), as
    in ((first, second), targets). Targets are also the entry `labels` of a dict that comes without separate ones. The results
    have no graph, and can be part of one: gradients never reach the user's tensors.

    Args:
        samples: maximum number of samples; no further batches are read.
    Raises:
        ValueError: data are empty or of another form.
    """
    data = _with_labels(_of_arrays(data))
    if isinstance(data, list) and data and _is_sample(data[0]):
        data = DataLoader(data, batch_size=256)  # type: ignore[arg-type]
    if isinstance(data, (Tensor, Mapping)) or _is_pair(data) or (isinstance(data, tuple) and _are_tensors(data)):
        inputs, labels = _split(data)
    elif isinstance(data, (DataLoader, Dataset, Iterable)) and not isinstance(data, (str, bytes, np.ndarray)):
        batches = DataLoader(data, batch_size=256) if isinstance(data, Dataset) else data
        inputs, labels = _joined(_first(batches, samples))
    else:
        raise ValueError(
            f"fusion data must be a tensor, (inputs, labels), a dict of tensors, a DataLoader or a Dataset. Found "
            f"{type(data).__name__}."
        )
    counts = {len(tensor) for tensor in leaves_of(inputs)}
    if len(counts) > 1:
        raise ValueError(f"the tensors of the fusion data hold {sorted(counts)} samples; they must hold equally many.")
    if not max(counts, default=0):
        raise ValueError("the fusion set is empty. Pass at least a few dozen samples; the paper uses 400.")
    if labels is not None and labels.ndim == 0:
        raise ValueError("the labels are a single number. Pass one whole number for each sample.")
    if labels is not None and {len(labels)} != counts:
        raise ValueError(f"the fusion data hold {max(counts)} inputs but {len(labels)} labels.")
    inputs = each_of(inputs, lambda tensor: ordinary(tensor[:samples]))
    return inputs, None if labels is None else ordinary(as_labels(labels)[:samples])


def ordinary(tensor: Tensor) -> Tensor:
    """The tensor without its graph; a copy if it was made in inference mode, so that gradients may depend on it."""
    with torch.inference_mode(False):
        return tensor.clone() if tensor.is_inference() else tensor.detach()


def parents_data(data: object, fusion: tuple[Inputs, Tensor | None], n: int) -> list[tuple[Inputs, Tensor | None]]:
    """(inputs, labels) of each of n parents: its own data, see `as_inputs`, or the fusion data (None, "fusion").

    Raises:
        ValueError: not a list of n sets, other tensors, or NaN in them.
    """
    if data is None or data == "fusion":
        return [fusion] * n
    if not isinstance(data, Iterable) or isinstance(data, (str, bytes)):
        given = repr(data) if isinstance(data, (str, bytes)) else f"of type {type(data).__name__}"
        raise ValueError(
            f"importance data are {given}. Pass [(inputs, labels), ...], one pair per parent, or 'fusion' for the "
            "fusion data."
        )
    pairs = [as_inputs(pair) for pair in data]
    if len(pairs) != n:
        raise ValueError(f"importance_data holds {len(pairs)} sets for {n} parents.")
    of_parents = [(like(inputs, fusion[0]), labels) for inputs, labels in pairs]
    for k, (x, _) in enumerate(of_parents):
        check_finite(x, f"parent {k}'s own data: sample")
    return of_parents


def _of_arrays(data: object) -> Any:
    """Convert NumPy arrays and pandas columns anywhere in a batch to tensors."""
    if hasattr(data, "__array__") and not isinstance(data, (Tensor, np.generic)):
        array = np.asarray(data)
        array = array if array.flags.writeable else array.copy()  # pandas' are read-only, of which torch warns
        return torch.as_tensor(array) if array.dtype.kind in "biufc" else array  # strings are refused as labels
    if isinstance(data, Mapping):
        return {name: _of_arrays(value) for name, value in data.items()}
    if isinstance(data, (tuple, list)) and type(data) in (tuple, list):
        parts = [_of_arrays(part) for part in data]
        return parts if isinstance(data, list) else tuple(parts)
    return data


def _with_labels(data: object) -> Any:
    """Convert labels in (inputs, labels) to a tensor if they are a list of numbers or rows; return other data unchanged."""
    if not (
        isinstance(data, (tuple, list))
        and type(data) in (tuple, list)
        and len(data) > 1
        and (isinstance(data[0], (Tensor, Mapping)) or _are_tensors(data[0]))
    ):
        return data
    leaf = data[-1]
    while isinstance(leaf, (tuple, list, range, np.ndarray)) and len(leaf):
        leaf = leaf[0]
    plain = isinstance(leaf, (Number, str, np.generic)) or (isinstance(leaf, Tensor) and leaf.ndim == 0)
    return (*data[:-1], _labels(data[-1])) if plain and not isinstance(data[-1], Tensor) else data


def _labels(labels: object) -> Tensor:
    """Convert labels to a tensor (B,), or (B, ...) if each is several numbers.

    Raises:
        ValueError: no numbers, or rows of different lengths.
    """
    try:
        # several tensors hold one number each, or one column each, as DataLoader collates lists
        return torch.stack(list(labels), -1) if _are_tensors(labels) else torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"the labels are {type(labels).__name__} whose entries do not form a tensor ({first_line(error)}). Pass "
            "one whole number for each sample, or leave them out."
        ) from error


def _is_pair(data: object) -> bool:
    """Whether data are (inputs, targets), not two batches; a list of two tensors is one if the second has one number a sample."""
    if not (isinstance(data, (tuple, list)) and len(data) == 2):
        return False
    is_labels = data[1] is None or (isinstance(data[1], Tensor) and (isinstance(data, tuple) or data[1].ndim <= 1))
    return is_labels and (isinstance(data[0], (Tensor, Mapping)) or _are_tensors(data[0]))


def _is_sample(entry: object) -> bool:
    """Whether an entry of a list is one sample with its label, as a Dataset gives it, not a batch."""
    if not (isinstance(entry, (tuple, list)) and len(entry) == 2):
        return False
    label = entry[1]
    return isinstance(label, (Number, np.generic)) or (isinstance(label, Tensor) and label.ndim == 0)


def read_once(data: Any) -> Any:
    """Data that can be read again: what can perhaps be read only once, such as a generator, is read into a list."""
    if isinstance(data, IterableDataset):
        data = DataLoader(data, batch_size=256)
    if isinstance(data, Iterator) or isinstance(getattr(data, "dataset", None), IterableDataset):
        data = list(data)
    return type(data)(map(read_once, data)) if type(data) in (list, tuple) else data


def _are_tensors(value: object) -> TypeGuard[Sequence[Tensor]]:
    return isinstance(value, (tuple, list)) and len(value) > 0 and all(isinstance(part, Tensor) for part in value)


def _split(batch: object) -> tuple[Inputs, Tensor | None]:
    """Split a batch into inputs, (B, ...) each, and labels (B,).

    Raises:
        ValueError: it holds anything but tensors.
    """
    batch = _of_arrays(batch)
    inputs, *rest = batch if isinstance(batch, (tuple, list)) and len(batch) else (batch,)
    if len(rest) > 1:
        raise ValueError(
            f"the fusion data are {1 + len(rest)} tensors. A pair is (inputs, targets); several inputs are a tuple of their own, "
            "((first, second), targets), or a dict with the names of forward's arguments, and without targets ((first, second), "
            "None)."
        )
    labels = _labels(rest[0]) if rest and rest[0] is not None else None
    if isinstance(inputs, Mapping):
        named = dict(inputs)
        columns = [named.pop(name) for name in LABELS if name in named]
        labels = labels if labels is not None or not columns else _labels(columns[0])
        strange = next((name for name, value in named.items() if not isinstance(value, Tensor)), None)
        if strange is not None or not named:
            what = f"the entry {strange!r} of {type(named.get(strange)).__name__}" if strange else "no inputs"
            raise ValueError(
                f"a dict of the fusion data holds {what}: its entries are the keywords of the networks' forward, as "
                "tensors, and labels. Leave out what is neither."
            )
        return named, labels
    if _are_tensors(inputs):
        return tuple(inputs), labels
    if not hasattr(inputs, "__array__"):
        raise ValueError(
            f"a batch of the fusion data starts with {type(inputs).__name__}, not a tensor. Yield inputs or (inputs, "
            "labels)."
        )
    return torch.as_tensor(inputs), labels


def _first(batches: Iterable[Any], samples: int | None) -> list[Any]:
    """The batches with the first samples; None: all batches."""
    read: list[Any] = []
    count = 0
    for batch in batches:
        read.append(batch)
        count += _count(batch)
        if samples is not None and count >= samples:
            break
    return read


def _count(batch: object) -> int:
    """Number of samples in a batch; 0 if unknown."""
    while isinstance(batch, (Mapping, tuple, list)) and len(batch):
        batch = next(iter(batch.values())) if isinstance(batch, Mapping) else batch[0]
    return len(batch) if isinstance(batch, Sized) else 0


def _joined(batches: list[Any]) -> tuple[Inputs, Tensor | None]:
    pairs = [_split(batch) for batch in batches]
    if not pairs:
        return torch.empty(0), None
    first, labels = pairs[0]
    kinds = {tuple(inputs) if isinstance(inputs, Mapping) else len(leaves_of(inputs)) for inputs, _ in pairs}
    if len(kinds) > 1 or len({y is None for _, y in pairs}) > 1:
        raise ValueError(
            "the batches of the fusion data differ in what they contain. Yield the same tensors, and labels, in each."
        )
    joined_labels = None if labels is None else torch.cat([y for _, y in pairs if y is not None])
    columns = [list(column) for column in zip(*(leaves_of(inputs) for inputs, _ in pairs), strict=True)]
    structure = each_of(first, lambda _: torch.empty(0))
    pairs.clear()
    batches.clear()
    del first, labels
    joined = iter([_one_by_one(column) for column in columns])
    return each_of(structure, lambda _: next(joined)), joined_labels


def _one_by_one(parts: list[Tensor]) -> Tensor:
    """torch.cat, which lets go of each part once it is copied: many samples are never held twice."""
    shapes = dict.fromkeys("x".join(map(str, part.shape[1:])) or "one number" for part in parts)
    if len(shapes) > 1:
        raise ValueError(
            f"the batches of the fusion data hold samples of different shapes, {', '.join(shapes)}; all must be alike. Inputs "
            "and labels are a tuple, (inputs, labels), not a list, which holds batches."
        )
    if len({(part.dtype, part.device) for part in parts}) > 1:
        return torch.cat(parts)
    whole, start = parts[0].new_empty(sum(map(len, parts)), *parts[0].shape[1:]), 0
    parts.reverse()
    while parts:
        part = parts.pop()
        whole[start : start + len(part)] = part
        start += len(part)
    return whole
