"""Base class of architectures: a network that keeps its spec and declares its inputs."""

from collections.abc import Sequence
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
