"""ResNet with BatchNorm (He et al. 2016), with torchvision's keys, so that its checkpoints load.

The stem is for small images (3x3, stride 1, no pooling) or for ImageNet (7x7, stride 2, max pooling).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from .base import Architecture, enlarging, recorded, side_of

EXPANSION = 4  # a bottleneck block's output is four times as wide as its 3x3 convolution
MOST_STAGES = 8
DEPTHS: dict[str, dict[str, Any]] = {
    "resnet18": {"layers": [2, 2, 2, 2]},
    "resnet34": {"layers": [3, 4, 6, 3]},
    "resnet50": {"layers": [3, 4, 6, 3], "bottleneck": True},
}


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    """The skip: the identity if the shapes agree, else a 1x1 convolution."""
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(_conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a skip: (n, inputs, h, w) -> (n, width, h / stride, w / stride)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1, self.relu1 = _conv(inputs, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU()
        self.conv2, self.bn2, self.relu2 = _conv(width, width, 3), nn.BatchNorm2d(width), nn.ReLU()
        self.downsample = _shortcut(inputs, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu1(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu2(out + self.downsample(x))


class Bottleneck(nn.Module):
    """1x1, 3x3 (strided, as in torchvision) and 1x1 convolutions and a skip, with 4 * width output channels."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = EXPANSION * width
        self.conv1, self.bn1, self.relu1 = _conv(inputs, width, 1), nn.BatchNorm2d(width), nn.ReLU()
        self.conv2, self.bn2, self.relu2 = _conv(width, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU()
        self.conv3, self.bn3, self.relu3 = _conv(width, outputs, 1), nn.BatchNorm2d(outputs), nn.ReLU()
        self.downsample = _shortcut(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu1(self.bn1(self.conv1(x)))
        out = self.relu2(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu3(out + self.downsample(x))


class ResNet(Architecture):
    """Stem, stages of residual blocks, mean over positions, a linear classifier.

    Args:
        layers: blocks in each stage; every stage but the first halves the images and doubles the width.
        bottleneck: blocks of three convolutions (ResNet-50) instead of two.
        width: channels after the stem.
        imagenet_stem: 7x7 with stride 2 and max pooling instead of 3x3.
        size: height and width of the images.
        resize: enlarge smaller images to this size, or as far as the last stage needs to see one position.
    """

    def __init__(
        self,
        layers: Sequence[int] = (2, 2, 2, 2),
        bottleneck: bool = False,
        width: int = 64,
        imagenet_stem: bool = False,
        classes: int = 10,
        channels: int = 3,
        size: int = 32,
        resize: int | None = None,
    ) -> None:
        super().__init__()
        if len(layers) > MOST_STAGES:
            raise ValueError(f"resnet has at most {MOST_STAGES} stages. Found layers for {len(layers)}.")
        shrinks = 2 ** (len(layers) - 1) * (4 if imagenet_stem else 1)
        side = side_of(size, resize, least=shrinks)
        self.spec = {
            "architecture": "resnet",
            "layers": list(layers),
            "bottleneck": bottleneck,
            "width": width,
            "imagenet_stem": imagenet_stem,
            "classes": classes,
            "channels": channels,
            **recorded(size, side),
        }
        self.resize = enlarging(size, side)
        self.conv1 = _conv(channels, width, 7, 2) if imagenet_stem else _conv(channels, width, 3)
        self.bn1, self.relu = nn.BatchNorm2d(width), nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, padding=1) if imagenet_stem else nn.Identity()
        block, inputs = Bottleneck if bottleneck else BasicBlock, width
        self.stages = [f"layer{stage}" for stage in range(1, len(layers) + 1)]
        for stage, (name, count) in enumerate(zip(self.stages, layers, strict=True)):
            blocks = []
            for position in range(count):
                blocks.append(block(inputs, width * 2**stage, stride=2 if stage and not position else 1))
                inputs = width * 2**stage * (EXPANSION if bottleneck else 1)
            self.add_module(name, nn.Sequential(*blocks))
        self.avgpool, self.flatten = nn.AdaptiveAvgPool2d(1), nn.Flatten()
        self.fc = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):  # He et al. 2015: keeps the variance through many layers
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        x = self.resize(images)  # (n, channels, side, side)
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))  # (n, width, side or side/4, ...)
        for name in self.stages:
            x = self.get_submodule(name)(x)  # (n, twice as many, half, half)
        return self.fc(self.flatten(self.avgpool(x)))  # (n, classes)


def recognise(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any] | None:
    """The spec of a ResNet's tensors, else None; wide and grouped ResNets are not ours.

    The tensors do not show the image size: 32 is assumed, or 224 with ImageNet's stem.
    """
    stem, head = shapes.get("conv1.weight", ()), shapes.get("fc.weight", ())
    layers: list[int] = []
    while count := sum(f"layer{len(layers) + 1}.{position}.conv1.weight" in shapes for position in range(1000)):
        layers.append(count)
    if len(stem) != 4 or len(head) != 2 or not layers or "bn1.running_mean" not in shapes:
        return None
    if stem[2:] not in ((3, 3), (7, 7)) or shapes.get("layer1.0.conv2.weight") != (stem[0], stem[0], 3, 3):
        return None
    imagenet_stem = stem[2] == 7
    return {
        "architecture": "resnet",
        "layers": layers,
        "bottleneck": "layer1.0.conv3.weight" in shapes,
        "width": stem[0],
        "imagenet_stem": imagenet_stem,
        "classes": head[0],
        "channels": stem[1],
        "size": 224 if imagenet_stem else 32,
    }
