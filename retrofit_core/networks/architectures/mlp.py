"""Multi-layer perceptron: `flatten`, then `fc1`, `relu1`, `fc2` ... `fcN`."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from torch import Tensor, nn

from .base import Architecture


class MLP(Architecture):
    """Linear layers of the given sizes with ReLU between them, each ReLU its own module.

    Args:
        sizes: inputs, hidden widths, classes, e.g. (784, 256, 10).
    """

    def __init__(self, sizes: Sequence[int], bias: bool = True) -> None:
        super().__init__()
        self.spec = {"architecture": "mlp", "sizes": list(sizes), "bias": bias}
        self.depth = len(sizes) - 1
        self.flatten = nn.Flatten()
        for number, (inputs, outputs) in enumerate(zip(sizes[:-1], sizes[1:], strict=True), start=1):
            self.add_module(f"fc{number}", nn.Linear(inputs, outputs, bias=bias))
            if number < self.depth:
                self.add_module(f"relu{number}", nn.ReLU())

    @property
    def input_shape(self) -> tuple[int, ...]:
        """A flat vector; images with as many values work too."""
        return (self.spec["sizes"][0],)

    @classmethod
    def keywords_for(cls, shape: Sequence[int], classes: int) -> dict[str, Any]:
        """One hidden layer of 256."""
        return {"sizes": [prod(shape), 256, classes]}

    def forward(self, images: Tensor) -> Tensor:
        x = self.flatten(images)  # (n, C, H, W) -> (n, sizes[0])
        for number in range(1, self.depth):
            x = self.get_submodule(f"fc{number}")(x)  # (n, sizes[number])
            x = self.get_submodule(f"relu{number}")(x)
        return self.get_submodule(f"fc{self.depth}")(x)  # (n, classes)


def recognise(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any] | None:
    """The spec of an MLP's tensors, else None."""
    depth = sum(name.endswith(".weight") for name in shapes)
    weights = [shapes.get(f"fc{number}.weight", ()) for number in range(1, depth + 1)]
    if not weights or any(len(shape) != 2 for shape in weights):
        return None
    sizes = [weights[0][1]] + [shape[0] for shape in weights]
    return {"architecture": "mlp", "sizes": sizes, "bias": "fc1.bias" in shapes}
