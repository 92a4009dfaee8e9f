"""Upsampling of small images at the input, for architectures that need more pixels than the data have."""

from math import ceil
from typing import Any

from torch import nn


def side_of(size: int, resize: int | None, *, least: int = 1, multiple: int = 1) -> int:
    """The side to which images of `size` pixels are enlarged: at least `size`, `resize` and `least`, rounded up to
    a multiple."""
    return ceil(max(size, resize or 0, least) / multiple) * multiple


def enlarging(size: int, side: int) -> nn.Module:
    """Bilinear interpolation (n, c, size, size) -> (n, c, side, side); the identity if the sizes agree.

    It has no parameters, so it belongs to the first level of a partition.
    """
    return nn.Identity() if side == size else nn.Upsample(size=(side, side), mode="bilinear")


def recorded(size: int, side: int) -> dict[str, Any]:
    """The entries of a spec for the image size and, if different, the enlarged size."""
    return {"size": size, **({"resize": side} if side != size else {})}
