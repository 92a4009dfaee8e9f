"""The sample axis of traced tensors, and conversion to the samples-first layout at boundaries.

Networks fold tokens or frames into the sample axis, put other axes before it, or compute tensors shared by all samples
(position tables, masks, relative position biases). Levels always pass on (samples, ...).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, fx

from .tracing import Interpreter


@dataclass(frozen=True)
class Layout:
    """How a traced tensor holds the samples."""

    axis: int | None = 0
    """Sample axis; None: all samples share the tensor"""
    parts: int = 1
    """Adjacent entries per sample on that axis; 0: repeat a shared tensor along its first axis, as for a convolution's
    maps"""

    def shape(self, traced: torch.Size) -> torch.Size:
        """The shape at a boundary, from the traced shape; one sample if all share the tensor."""
        return samples_first(torch.empty(traced, device="meta"), self.axis, self.parts, torch.empty(1)).shape

    def neurons(self, axis: int, dims: int) -> int:
        """The neuron axis at a boundary: 1, -1 or 2 (channels of several frames).

        Args:
            axis: neuron axis in the trace, of `dims` dimensions.
        """
        if self == Layout():
            return axis
        axis %= dims
        if axis == dims - 1:
            return -1
        return axis + (self.axis is None or axis < self.axis) + (self.parts > 1)


def samples_first(tensor: Tensor, axis: int | None, parts: int, like: Tensor) -> Tensor:
    """Convert a traced tensor to its layout at a boundary: (samples, ...), or (samples, parts, ...).

    Args:
        axis, parts: see `Layout`.
        like: its length is the number of samples.
    """
    if axis is None:
        tensor = tensor.unsqueeze(0).expand(len(like), *[-1] * tensor.ndim)
        return tensor if parts else tensor.flatten(0, 1)
    tensor = tensor.movedim(axis, 0)
    return tensor.unflatten(0, (-1, parts)) if parts > 1 else tensor


def as_traced(tensor: Tensor, axis: int | None, parts: int) -> Tensor:
    """The inverse: (samples, ...) in the traced layout."""
    if axis is None:
        return tensor.select(0, 0)
    return (tensor.flatten(0, 1) if parts > 1 else tensor).movedim(0, axis)


@torch.no_grad()
def layouts(graph: fx.Graph, example: Tensor) -> dict[fx.Node, Layout]:
    """Find the layouts of a graph's tensors, where possible, by running it on another number of samples.

    Args:
        graph: with recorded shapes on the example, see `record_values`.
    """
    other = example[:1] if len(example) > 1 else torch.cat([example, example])
    interpreter = Interpreter(graph, keep=True)
    try:
        interpreter.run(other.clone())
    except Exception:  # whatever an operation raises; levels that need another number of samples are refused later
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
