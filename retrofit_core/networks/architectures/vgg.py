"""VGG without (default) or with BatchNorm: 3x3 convolutions, ReLU, max pooling, one linear classifier.

Keys are torchvision's `features.N`, but with a single `classifier`, as is usual for 32x32 images (Luenam et al.
2026).
"""

from collections.abc import Mapping, Sequence
from math import isqrt
from typing import Any

from torch import Tensor, nn

from .base import Architecture, enlarging, recorded, side_of

POOL = "M"  # max pooling in a plan, between the convolutions' widths
MOST_POOLINGS = 10  # reduce a side of 1024 pixels to one
PLANS: dict[str, list[int | str]] = {
    "vgg11": [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    "vgg13": [64, 64, "M", 128, 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    "vgg16": [64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"],
}


def scaled(plan: Sequence[int | str], width: float) -> list[int | str]:
    """The plan with all widths but the first and last scaled, as in the paper's width study (0.5, 2, 4)."""
    last = max(position for position, item in enumerate(plan) if item != POOL)
    return [
        item if item == POOL or position in (0, last) else max(1, round(int(item) * width))
        for position, item in enumerate(plan)
    ]


class VGG(Architecture):
    """Convolutions of the plan's widths with ReLU, max pooling where it says "M", and a linear classifier.

    Each ReLU and pooling is its own module, so that levels and attribution rules can tell them apart.

    Args:
        plan: widths and "M", e.g. PLANS["vgg11"].
        size: height and width of the images.
        resize: enlarge smaller images to this size, or as far as the poolings need to leave one position.
        batch_norm: BatchNorm after each convolution.
    """

    def __init__(
        self,
        plan: Sequence[int | str] = tuple(PLANS["vgg11"]),
        classes: int = 10,
        channels: int = 3,
        size: int = 32,
        resize: int | None = None,
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        poolings = list(plan).count(POOL)
        if poolings > MOST_POOLINGS:
            raise ValueError(f"a vgg plan has at most {MOST_POOLINGS} poolings. Found {poolings}.")
        side = side_of(size, resize, least=2**poolings)
        self.spec = {
            "architecture": "vgg",
            "plan": list(plan),
            "classes": classes,
            "channels": channels,
            **recorded(size, side),
            "batch_norm": batch_norm,
        }
        self.resize = enlarging(size, side)
        modules: list[nn.Module] = []
        width = channels
        for item in plan:
            if item == POOL:
                modules.append(nn.MaxPool2d(2))  # (n, width, side, side) -> halves the side
                side //= 2
                continue
            modules.append(nn.Conv2d(width, int(item), 3, padding=1))  # -> (n, item, side, side)
            width = int(item)
            modules += [nn.BatchNorm2d(width)] if batch_norm else []
            modules.append(nn.ReLU())
        self.features = nn.Sequential(*modules)
        self.flatten = nn.Flatten()
        self.classifier = nn.Linear(width * side**2, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.resize(images)  # (n, channels, size, size), enlarged where the poolings need it
        x = self.features(x)  # (n, width, side, side)
        x = self.flatten(x)  # (n, width * side^2)
        return self.classifier(x)  # (n, classes)


def recognise(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any] | None:
    """The spec of a VGG's tensors, else None.

    Pooling has no tensors: gaps in the numbering of `features` show it, and one is assumed at the end. The
    image size follows from the classifier's inputs.
    """
    weights = {
        int(name.split(".")[1]): shape
        for name, shape in shapes.items()
        if name.startswith("features.") and name.endswith(".weight") and name.split(".")[1].isdecimal()
    }
    convolutions = {number: shape for number, shape in sorted(weights.items()) if len(shape) == 4}
    classifier = shapes.get("classifier.weight", ())
    if not convolutions or len(classifier) != 2:
        return None
    batch_norm = "features.1.running_mean" in shapes
    numbers = list(convolutions)
    plain_gap = 3 if batch_norm else 2  # convolution, [BatchNorm], ReLU
    gaps = [after - before for before, after in zip(numbers[:-1], numbers[1:], strict=True)] + [plain_gap + 1]
    if numbers[0] != 0 or not all(gap in (plain_gap, plain_gap + 1) for gap in gaps):
        return None
    plan: list[int | str] = []
    for gap, shape in zip(gaps, convolutions.values(), strict=True):
        plan += [shape[0]] if gap == plain_gap else [shape[0], POOL]
    width = convolutions[numbers[-1]][0]
    side = isqrt(classifier[1] // width) if width else 0
    if not side or width * side**2 != classifier[1]:
        return None
    return {
        "architecture": "vgg",
        "plan": plan,
        "classes": classifier[0],
        "channels": convolutions[0][1],
        "size": side * 2 ** plan.count(POOL),
        "batch_norm": batch_norm,
    }
