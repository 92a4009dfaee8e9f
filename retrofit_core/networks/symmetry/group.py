"""A group of neurons and the tensor entries that belong to it, as data."""

from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class TensorPart:
    """The entries of one tensor of the state dict that belong to a group's neurons."""

    name: str
    """Name of the tensor"""
    axis: int
    """Neuron axis"""
    index: Tensor
    """(width, copies) positions of each neuron on the axis; several copies if a flattened convolution is read"""
    kind: str
    """"out": rows that make the neurons; "in": columns that read them; "vector": one number or more per neuron"""
    tied: bool = False
    """Whether one layer makes the neurons with this tensor and another reads them with it"""


@dataclass(frozen=True, eq=False)
class Point:
    """Where to record a group while the network runs."""

    node: str
    after: str
    """The activation function after the node, or the node itself"""
    axis: int
    index: Tensor
    """(width, copies) positions on the axis"""
    part: str
    """"output"; "in_proj" or "out_proj" inside an attention module"""


@dataclass(frozen=True, eq=False)
class Junction:
    """A sum in a residual stream whose sides have groups of their own (`groups_apart`)."""

    skip: "str | Junction"
    """The side with the shorter path from the input: a group's name, or another sum that nothing else reads"""
    branch: "str | Junction"
    points: tuple[Point, Point]
    """Where to record both sides"""


@dataclass(frozen=True, eq=False)
class Group:
    """Neurons that are permuted among themselves."""

    name: str
    """The module that makes them, the first one for a residual stream"""
    kind: str
    """Type of that module, for tables"""
    width: int
    parts: tuple[TensorPart, ...]
    points: tuple[Point, ...]
    fixed: bool = False
    """True for the classes: class c stays class c"""
    junction: Junction | None = None
    """The sum that makes it, if both sides have their own groups"""


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and buffer, detached, under its first name."""
    return {name: tensor.detach() for name, tensor in (*model.named_parameters(), *model.named_buffers())}
