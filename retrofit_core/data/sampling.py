"""Draw balanced samples."""

import torch
from torch import Tensor

from ..system.refusals import Refusal


def balanced(labels: Tensor, n: int, *, rows: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
    """Draw n row numbers, as balanced as possible over the classes present; a class with too few rows gives all.

    Args:
        labels: (N,) of the whole data set.
        rows: draw only from these row numbers of the data set (default: all). The result has such numbers too (the
            authors' earlier code mistook positions in `rows` for row numbers, and so drew from the whole data set).
        generator: on any device; default: a new one with seed 0.
    Returns:
        (n,) int64 distinct row numbers in random order within each round of classes.
    Raises:
        ValueError: n below 1 or above the number of rows, or rows outside the data set.
    """
    rows = torch.arange(len(labels)) if rows is None else torch.as_tensor(rows, dtype=torch.int64).cpu()
    if not 1 <= n <= len(rows):
        raise Refusal(
            f"{n} samples cannot be drawn from {len(rows)} rows: take 1 to {len(rows)}.",
            ("samples", max(1, min(n, len(rows)))),
        )
    if int(rows.min()) < 0 or int(rows.max()) >= len(labels):
        raise ValueError(f"rows {int(rows.min())}..{int(rows.max())} are not all in 0..{len(labels) - 1}.")
    generator = generator or torch.Generator().manual_seed(0)
    order = torch.randperm(len(rows), generator=generator, device=generator.device).cpu()
    rows = rows[order]
    # Rank of a row within its class, in drawn order: sorting by it takes one row of each class in turn.
    turn = torch.empty_like(rows)
    classes = labels[rows]
    for label in classes.unique():
        members = (classes == label).nonzero().flatten()
        turn[members] = torch.arange(len(members))
    return rows[turn.argsort(stable=True)[:n]]
