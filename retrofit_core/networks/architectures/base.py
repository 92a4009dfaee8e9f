"""Base class of architectures: a network that keeps its spec and declares its inputs; and small images enlarged at its input."""

from collections.abc import Sequence
from math import ceil
from typing import Any

from torch import nn


class Architecture(nn.Module):
    """Base of the architectures; by default the input is a square image with the spec's channels and size.

    To add one, write a class whose keywords are those of its spec, and a line in ARCHITECTURES.
    """

    spec: dict[str, Any]
    """"architecture" and the keywords that rebuild this network"""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input, without the batch."""
        return (self.spec["channels"], self.spec["size"], self.spec["size"])

    @classmethod
    def keywords_for(cls, shape: Sequence[int], classes: int) -> dict[str, Any]:
        """The keywords that the data set.

        Args:
            shape: (channels, height, width) of the images.
        """
        channels, height, _ = shape
        return {"channels": channels, "size": height, "classes": classes}


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
