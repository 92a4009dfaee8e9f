"""Enlarging small images at a network's input, for architectures that need more pixels than the data have."""

from math import ceil
from typing import Any

from torch import nn


def side_of(size: int, resize: int | None, *, least: int = 1, multiple: int = 1) -> int:
    """The side at which a network works on images of `size` pixels: at least `resize` and `least`, rounded up to
    a multiple. Never smaller than the images: pixels are added, none are thrown away."""
    return ceil(max(size, resize or 0, least) / multiple) * multiple


def enlarging(size: int, side: int) -> nn.Module:
    """Bilinear interpolation (n, c, size, size) -> (n, c, side, side); the identity where they are the same.

    One operation without parameters, so it belongs to the first level of a partition.
    """
    return nn.Identity() if side == size else nn.Upsample(size=(side, side), mode="bilinear")


def recorded(size: int, side: int) -> dict[str, Any]:
    """The part of a spec that says at which size a network gets its images, and at which it works."""
    return {"size": size, **({"resize": side} if side != size else {})}
