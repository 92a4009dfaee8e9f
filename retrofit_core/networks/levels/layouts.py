"""Where a traced tensor counts the samples, and how it stands at a boundary between levels: samples first.

Networks fold tokens or frames into the axis of the samples, put other axes before it, or compute tensors that are the same for
all samples (position tables, masks, biases of distances). Levels hand on (samples, ...) in every case.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx


@dataclass(frozen=True)
class Layout:
    """How samples lie in a tensor of the trace."""

    axis: int | None = 0
    """The axis that counts them; None: the tensor is the same for all samples"""
    parts: int = 1
    """Entries of that axis for each sample, side by side; 0: a tensor that is the same for all is repeated, one below
    the other, as maps are that a convolution reads"""

    def shape(self, traced: torch.Size) -> torch.Size:
        """The shape at a boundary, of the shape in the trace; one sample where it is the same for all."""
        return samples_first(torch.empty(traced, device="meta"), self.axis, self.parts, torch.empty(1)).shape

    def neurons(self, axis: int, dims: int) -> int:
        """The axis of the neurons at a boundary, 1 or -1 or 2 (channels of several frames).

        Args:
            axis: that in the trace, of so many dimensions.
        """
        if self == Layout():
            return axis
        axis %= dims
        if axis == dims - 1:
            return -1
        return axis + (self.axis is None or axis < self.axis) + (self.parts > 1)


def samples_first(tensor: Tensor, axis: int | None, parts: int, like: Tensor) -> Tensor:
    """A tensor of the trace as it stands at a boundary: (samples, ...), or (samples, parts, ...).

    Args:
        axis, parts: see `Layout`.
        like: tells by its first axis how many samples there are.
    """
    if axis is None:
        tensor = tensor.unsqueeze(0).expand(len(like), *[-1] * tensor.ndim)
        return tensor if parts else tensor.flatten(0, 1)
    tensor = tensor.movedim(axis, 0)
    return tensor.unflatten(0, (-1, parts)) if parts > 1 else tensor


def as_traced(tensor: Tensor, axis: int | None, parts: int) -> Tensor:
    """The other way round: (samples, ...) as the trace has it."""
    if axis is None:
        return tensor.select(0, 0)
    return (tensor.flatten(0, 1) if parts > 1 else tensor).movedim(0, axis)


@torch.no_grad()
def layouts(graph: fx.Graph, modules: Mapping[Any, Any], example: Tensor) -> dict[fx.Node, Layout]:
    """The layouts of all tensors of a graph in which they can be told, by running it on another number of samples.

    Args:
        graph: with the shapes of its values on the example, see `record_values`.
    """
    other = example[:1] if len(example) > 1 else torch.cat([example, example])
    interpreter = fx.Interpreter(fx.GraphModule(dict(modules), graph), garbage_collect_values=False)
    interpreter.graph = graph  # GraphModule copies the graph
    try:
        interpreter.run(other.clone())
    except (
        Exception
    ):  # whatever an operation raises on another number of samples; levels that need it are refused later
        return {}
    found = {}
    for node, value in interpreter.env.items():
        if isinstance(value, Tensor) and node.meta.get("is_tensor"):
            layout = _layout(tuple(node.meta["value"]), tuple(value.shape), len(example), len(other))
            found.update({node: layout} if layout else {})
    return found


def _layout(shape: tuple[int, ...], other: tuple[int, ...], samples: int, others: int) -> Layout | None:
    changed = [axis for axis, sizes in enumerate(zip(shape, other, strict=False)) if sizes[0] != sizes[1]]
    if len(shape) != len(other) or len(changed) > 1:
        return None
    if not changed:
        return Layout(None)
    (axis,) = changed
    parts = shape[axis] // samples
    return Layout(axis, parts) if (parts * samples, parts * others) == (shape[axis], other[axis]) else None
