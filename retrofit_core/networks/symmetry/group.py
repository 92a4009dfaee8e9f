"""A group of neurons and all entries of tensors that belong to it, as data."""

from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class TensorPart:
    """The entries of one tensor of the state dict that belong to a group's neurons."""

    name: str
    """The tensor's"""
    axis: int
    """The axis of the neurons"""
    index: Tensor
    """(width, copies) positions of each neuron on the axis; more than one copy where a flattened convolution is read"""
    kind: str
    """"out": rows that make the neurons; "in": columns that read them; "vector": one number or more per neuron"""
    tied: bool = False
    """Whether a layer makes the neurons with this tensor and another one reads them with it"""


@dataclass(frozen=True, eq=False)
class Point:
    """Where a group can be watched while the network runs."""

    node: str
    after: str
    """The activation function behind the node, or the node itself"""
    axis: int
    index: Tensor
    """(width, copies) positions on the axis"""
    part: str
    """"output"; "in_proj" or "out_proj" inside an attention module"""


@dataclass(frozen=True, eq=False)
class Junction:
    """A sum in a residual stream, each side of which may be reordered by itself (`groups_apart`)."""

    skip: "str | Junction"
    """The side with fewer operations behind it: a group's name, or another sum that nothing else reads"""
    branch: "str | Junction"
    points: tuple[Point, Point]
    """Where both sides can be watched"""


@dataclass(frozen=True, eq=False)
class Group:
    """Neurons that are reordered together."""

    name: str
    """The module that makes them, the first one of a residual stream"""
    kind: str
    """Type of that module, for tables"""
    width: int
    parts: tuple[TensorPart, ...]
    points: tuple[Point, ...]
    fixed: bool = False
    """True for the classes: class c stays class c"""
    junction: Junction | None = None
    """What it is the sum of, where both sides are groups by themselves"""


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and buffer under its first name, without gradients."""
    return {name: tensor.detach() for name, tensor in (*model.named_parameters(), *model.named_buffers())}
