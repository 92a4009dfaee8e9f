"""A small network for small images: two convolutions, pooling, a third, pooling, a linear classifier."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from . import vgg
from .base import Architecture, enlarging, recorded, side_of


class CNN(Architecture):
    """3x3 convolutions of three widths with ReLU, max pooling after the second and the third.

    Args:
        widths: of the three convolutions.
        size: height and width of the images.
        resize: enlarge smaller images to this size, and all to a multiple of 4.
    """

    def __init__(
        self,
        widths: Sequence[int] = (16, 32, 32),
        classes: int = 10,
        channels: int = 1,
        size: int = 8,
        resize: int | None = None,
    ) -> None:
        super().__init__()
        if len(widths) != 3:
            raise ValueError(f"cnn needs three widths. Found {list(widths)}.")
        side = side_of(size, resize, multiple=4)
        self.spec = {
            "architecture": "cnn",
            "widths": list(widths),
            "classes": classes,
            "channels": channels,
            **recorded(size, side),
        }
        self.resize = enlarging(size, side)
        first, second, third = widths
        self.features = nn.Sequential(
            nn.Conv2d(channels, first, 3, padding=1),  # (n, first, side, side)
            nn.ReLU(),
            nn.Conv2d(first, second, 3, padding=1),  # (n, second, side, side)
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(second, third, 3, padding=1),  # (n, third, side/2, side/2)
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.flatten = nn.Flatten()
        self.classifier = nn.Linear(third * (side // 4) ** 2, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.resize(images)  # (n, channels, size, size) -> (n, channels, side, side)
        x = self.features(x)  # (n, third, side/4, side/4)
        x = self.flatten(x)  # (n, third * (side/4)^2)
        return self.classifier(x)  # (n, classes)


def recognise(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any] | None:
    """The spec of a CNN's tensors (a VGG's keys with pooling at these positions), else None."""
    spec = vgg.recognise(shapes)
    if spec is None or spec["batch_norm"]:
        return None
    plan = spec["plan"]
    if [item == vgg.POOL for item in plan] != [False, False, True, False, True]:
        return None
    widths = [item for item in plan if item != vgg.POOL]
    shared = {key: spec[key] for key in ("classes", "channels", "size")}
    return {"architecture": "cnn", "widths": widths, **shared}
