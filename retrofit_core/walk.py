"""Runs parents and fused prefix level by level, so that they stand at the same boundary.

Tensors at the boundary are kept while they and the level's sums fit into the budget, and recomputed from the last kept
ones else.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from . import lags
from .device import CHUNK_BYTES, MEMORY, Stopwatch, in_units, rows_per_batch, sum_dtype
from .labels import as_labels
from .levels import Level, compose, rows
from .moments import Moments, Rows, dual_is_cheaper
from .monitor import Monitor

#: Most samples per forward pass: large enough for full-speed convolutions and long sums.
BATCH = 400


class Walk:
    """Parents k = 0..n-1 and the fused network's finished levels on one set of inputs.

    Args:
        parents: the levels of each parent.
        fused: the levels of the fused network.
        inputs: (B, ...) fusion data; moved to the device batch by batch.
        memory: bytes for the sums of a level and for kept boundary tensors.
    """

    def __init__(
        self,
        parents: Sequence[Sequence[Level]],
        fused: Sequence[Level],
        inputs: Tensor,
        *,
        device: torch.device,
        memory: int = MEMORY,
        stopwatch: Stopwatch | None = None,
        monitor: Monitor | None = None,
    ) -> None:
        self.networks = [*parents, fused]
        self.fused = fused
        self.device = device
        self.memory = memory
        self.stopwatch = stopwatch or Stopwatch(device)
        self.monitor = monitor or Monitor()
        self.samples = len(inputs)
        self.dtype = inputs.dtype
        largest = max(level.width * level.positions for network in self.networks for level in network)
        self.batch = min(BATCH, rows_per_batch(inputs.element_size() * largest))  # samples per forward pass
        # kept[b][k] = (number of levels passed, tensor) for batch b and network k, the fused one last
        self.kept = [[(0, batch)] * len(self.networks) for batch in inputs.split(self.batch)]

    def moments(self, index: int, *, inputs: bool, dtype: torch.dtype | None = None) -> Moments | Rows:
        """Sums over all rows of level `index`: the parents' outputs z and, if wanted, the fused network's inputs x.

        Rows instead of sums where the dual form is cheaper and the rows fit into the budget.

        Args:
            dtype: precision of the products, see `product_dtype`; default: that of sums on the device.
        """
        level = self.fused[index]
        m = sum(network[index].width for network in self.networks[:-1])
        bias = inputs and level.affine is not None and level.affine.bias is not None
        p = _input_width(level) + bias if inputs else 0
        n = self.samples * level.positions
        keep_rows = inputs and dual_is_cheaper(n, p, m) and _dual_bytes(n, p, m) <= self.memory
        sums = Moments.zeros(m, p if inputs else None, bias=bias, device=self.device)
        by_lags = inputs and not keep_rows and lags.applies(level.affine)
        shared = lags.LagSums(level.affine.weight.shape[1], m, self.device) if by_lags and level.affine else None
        kept: list[tuple[Tensor, Tensor]] = []
        for h, outputs in self._outputs(index):
            with self.stopwatch.phase("moments"):
                unfold = inputs and shared is None
                for x, z in self._chunks(level, h if unfold else None, outputs, index, bias, dtype):
                    if keep_rows and x is not None:
                        kept.append((x, z))
                    else:
                        sums.accumulate(z, x)
                    if shared is not None and level.prefix is not None:
                        shared.add(level.prefix(h), z)
        with self.stopwatch.phase("moments"):
            if keep_rows:
                xs, zs = zip(*kept, strict=True)
                return Rows(torch.cat(xs).double(), torch.cat(zs).double(), bias)
            sums.symmetric()
            if shared is not None:
                shared.write(sums)
            return sums

    def inputs_and_targets(self, index: int, A: Tensor) -> tuple[Tensor, Tensor]:
        """What a gradient fit needs: the fused boundary tensors (B, ...) and the targets z A as (B, positions, d)."""
        inputs, targets = [], []
        for h, outputs in self._outputs(index):
            with self.stopwatch.phase("fit"):
                z = self._side_by_side(outputs, index)
                inputs.append(h)
                targets.append((z @ A.to(z.dtype)).reshape(len(h), -1, A.shape[1]))
        return torch.cat(inputs), torch.cat(targets)

    def fitted(self, index: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows of the fitted level's outputs (n, d) and, beside them, of the parents' (n, m), batch by batch."""
        level = self.fused[index]
        for h, outputs in self._outputs(index):
            with self.stopwatch.phase("forward"), torch.no_grad():
                yield rows(level.module(h), level.axis), self._side_by_side(outputs, index)

    def boundary(self, index: int) -> Tensor:
        """The fused network's boundary tensor before level `index`, first batch."""
        return self._at(self.kept[0], len(self.networks) - 1, index)

    def stream(self, index: int) -> tuple[Tensor, Tensor]:
        """Inner products (m, width) of the parents' outputs with the fused network's inputs to a residual level, and
        the inputs' squared lengths (width,)."""
        axis, width = self.fused[index].axis, self.fused[index].width
        m = sum(network[index].width for network in self.networks[:-1])
        products = torch.zeros(m, width, dtype=torch.float64, device=self.device)
        energies = products.new_zeros(width)
        for h, outputs in self._outputs(index):
            with self.stopwatch.phase("moments"):
                x = rows(h, axis)
                products += (self._side_by_side(outputs, index).T @ x).double()
                energies += x.double().square().sum(0)
        return products, energies

    def advance(self, index: int) -> None:
        """Let the fused network pass the level that was just fitted."""
        with self.stopwatch.phase("forward"):
            keep = self._fits(index)
            for batch in self.kept:
                if keep:
                    h = self._at(batch, len(self.networks) - 1, index + 1)
                    batch[-1] = (index + 1, h)

    def _outputs(self, index: int) -> Iterator[tuple[Tensor, list[Tensor]]]:
        """For each batch: the fused network's boundary tensor before level `index`, the parents' after it."""
        keep = self._fits(index)
        for batch in self.monitor.each("step", self.kept, name="forward", level=self.fused[index].name):
            with self.stopwatch.phase("forward"):
                outputs = [self._at(batch, k, index + 1) for k in range(len(self.networks) - 1)]
                if keep:
                    batch[:-1] = [(index + 1, z) for z in outputs]
                h = self._at(batch, len(self.networks) - 1, index)
            yield h, outputs

    @torch.no_grad()
    def _at(self, batch: list[tuple[int, Tensor]], network: int, passed: int) -> Tensor:
        """The tensor of one network after its first `passed` levels, computed from the kept one."""
        before, h = batch[network]
        return compose(self.networks[network][before:passed], h.to(self.device))

    def _fits(self, index: int) -> bool:
        """Whether the boundary tensors after this level can be kept beside the sums of this and the next level."""
        sums = max(working_bytes(self.networks, k, self.samples) for k in range(index, min(index + 2, len(self.fused))))
        return sums + boundary_bytes(self.networks, index, self.samples) <= self.memory

    def _side_by_side(self, outputs: list[Tensor], index: int, dtype: torch.dtype | None = None) -> Tensor:
        """z: the parents' output rows (N, m), laid side by side and converted in one pass over memory."""
        views = [z.movedim(network[index].axis, -1) for z, network in zip(outputs, self.networks[:-1], strict=True)]
        m = sum(view.shape[-1] for view in views)
        found = torch.empty(views[0][..., 0].numel(), m, dtype=dtype or views[0].dtype, device=views[0].device)
        for place, view in zip(found.split([view.shape[-1] for view in views], 1), views, strict=True):
            place.view(view.shape).copy_(view)
        return found

    @torch.no_grad()
    def _chunks(
        self,
        level: Level,
        h: Tensor | None,
        outputs: list[Tensor],
        index: int,
        bias: bool,
        dtype: torch.dtype | None = None,
    ) -> Iterator[tuple[Tensor | None, Tensor]]:
        """x and z in the precision of products, in chunks of samples that fit into CHUNK_BYTES."""
        dtype = dtype or sum_dtype(self.device)
        size = CHUNK_BYTES if h is None else CHUNK_BYTES // max(1, level.positions * _input_width(level))
        step = rows_per_batch(dtype.itemsize, size) if h is not None else len(outputs[0])
        for start in range(0, len(outputs[0]), step):
            here = slice(start, start + step)
            z = self._side_by_side([output[here] for output in outputs], index, dtype)
            if h is None:
                yield None, z
                continue
            yield level.inputs(h[here], dtype, ones=bias), z


def check_memory(networks: Sequence[Sequence[Level]], samples: int, memory: int, fit: str) -> None:
    """Refuse a budget that one level alone exceeds.

    Args:
        networks: levels of the parents and, last, of the fused network.
    Raises:
        ValueError: names the level and the bytes.
    """
    for index, level in enumerate(networks[-1]):
        need = working_bytes(networks, index, samples)
        if fit == "gradient":  # inputs and targets of all samples
            before = networks[-1][index - 1] if index else None
            need += 4 * samples * level.positions * level.width
            need += 4 * samples * before.positions * before.width if before else 0
        if need > memory:
            raise ValueError(
                f"level {level.name!r} needs {in_units(need)} for its sums, but the budget is {in_units(memory)}. "
                f"Allow at least memory={need} bytes (--memory), or fuse narrower networks"
                + (" or fewer samples." if fit == "gradient" else ".")
            )


def working_bytes(networks: Sequence[Sequence[Level]], index: int, samples: int) -> int:
    """Bytes of the sums at a level and of what the solve makes of them, in the cheaper of its two forms.

    Primal: xx, its factor, xz, phi, zz and G. Dual: rows and kernel. Levels that are not affine need zz alone.
    """
    level = networks[-1][index]
    m = sum(network[index].width for network in networks[:-1])
    if level.affine is None:
        return 2 * 8 * m * m
    n, p = samples * level.positions, _input_width(level) + 1
    primal = 8 * (3 * p * p + 3 * p * m + 2 * m * m)
    return min(primal, _dual_bytes(n, p, m)) if dual_is_cheaper(n, p, m) else primal


def _dual_bytes(n: int, p: int, m: int) -> int:
    return 8 * (2 * n * (p + 2 * m) + 3 * n * n + 2 * m * m)


def boundary_bytes(networks: Sequence[Sequence[Level]], index: int, samples: int) -> int:
    """Of the tensors of all networks after a level, for all samples."""
    return 4 * samples * sum(network[index].width * network[index].positions for network in networks)


def _input_width(level: Level) -> int:
    assert level.affine is not None
    return level.affine.weight[0].numel()


def as_tensors(data: Any) -> tuple[Tensor, Tensor | None]:
    """Fusion data as (inputs, labels or None): a tensor, (inputs, labels), a DataLoader, a Dataset or a list of batches;
    arrays of numpy are as good as tensors.

    Raises:
        ValueError: empty, or not one of these.
    """
    if isinstance(data, np.ndarray):
        data = torch.as_tensor(data)
    elif isinstance(data, (tuple, list)):
        data = type(data)(torch.as_tensor(part) if isinstance(part, np.ndarray) else part for part in data)
    if isinstance(data, Tensor):
        found: tuple[Tensor, Tensor | None] = (data, None)
    elif (
        isinstance(data, (tuple, list))
        and len(data) == 2
        and all(isinstance(part, Tensor) for part in data)
        and data[1].ndim <= 1
    ):
        found = (data[0], data[1])
    elif isinstance(data, (DataLoader, Dataset, Iterable)) and not isinstance(data, (str, bytes, dict)):
        batches = DataLoader(data, batch_size=256) if isinstance(data, Dataset) else data
        found = _joined(list(batches))
    else:
        raise ValueError(
            f"fusion data must be a tensor, (inputs, labels), a DataLoader or a Dataset. Found {type(data).__name__}."
        )
    if not len(found[0]):
        raise ValueError("the fusion set is empty. Pass at least a few dozen samples; the paper uses 400.")
    if found[1] is not None and len(found[1]) != len(found[0]):
        raise ValueError(f"the fusion data hold {len(found[0])} inputs but {len(found[1])} labels.")
    return found[0], None if found[1] is None else as_labels(found[1])


def parents_data(given: Any, fusion: tuple[Tensor, Tensor | None], n: int) -> list[tuple[Tensor, Tensor | None]]:
    """(inputs, labels) of each of n parents: its own data as `as_tensors` takes them, or the fusion data (None, "fusion").

    Raises:
        ValueError: another number of sets than parents.
    """
    if given is None or given == "fusion":
        return [fusion] * n
    pairs = [as_tensors(pair) for pair in given]
    if len(pairs) != n:
        raise ValueError(f"importance_data holds {len(pairs)} sets for {n} parents.")
    return pairs


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
