"""What an architecture is: a network that carries its spec, and says which inputs it takes."""

from collections.abc import Sequence
from typing import Any

from torch import nn


class Architecture(nn.Module):
    """Base of the architectures; here for square images, whose channels and size stand in the spec.

    A new one is a class whose keywords are those of its spec, and one line in ARCHITECTURES.
    """

    spec: dict[str, Any]
    """"architecture" and the keywords that build this network again"""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one input, without the batch."""
        return (self.spec["channels"], self.spec["size"], self.spec["size"])

    @classmethod
    def keywords_for(cls, shape: Sequence[int], classes: int) -> dict[str, Any]:
        """The keywords that data decide.

        Args:
            shape: (channels, height, width) of the images.
        """
        channels, height, _ = shape
        return {"channels": channels, "size": height, "classes": classes}
