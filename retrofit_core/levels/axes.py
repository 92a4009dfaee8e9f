"""Which axis of a boundary tensor counts the neurons."""

import operator
from typing import Any

from torch import fx, nn

from .. import batchnorm

CHANNELS_FIRST = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
CHANNELS_LAST = (nn.Linear, nn.LayerNorm, nn.Embedding)
# They may keep the number of axes and still change what an axis means.
REARRANGING = {"reshape", "view", "flatten", "unflatten", "movedim", "moveaxis", "swapaxes", "swapdims", "einsum"}


def neuron_axis(node: fx.Node, modules: dict[Any, Any], name: str, axis_by_user: int | None) -> int:
    """Channels after a convolution, the last axis after a Linear or LayerNorm, the only axis of a flat tensor."""
    dims = len(node.meta["value"])
    if axis_by_user is not None:
        return axis_by_user
    axis = 1 if dims == 2 else _followed(node, modules, {})
    if axis is None:
        raise ValueError(
            f"level {name!r} ends with a tensor of shape {tuple(node.meta['value'])} whose neuron axis is ambiguous. "
            "Let levels end elsewhere (boundaries=[module names] of fuse() and partition()), or name the axis to "
            "partition(), neuron_axis=1 for channels or neuron_axis=-1 for tokens."
        )
    return -1 if axis == dims - 1 > 1 else axis


def _followed(node: fx.Node, modules: dict[Any, Any], seen: dict[fx.Node, int | None]) -> int | None:
    """The neuron axis, counted from the left, followed from the layers that made it to a node's output.

    None if there is no such layer, if the axes were rearranged other than by a permutation, or if the operands of a sum
    disagree.
    """
    if node in seen:
        return seen[node]
    seen[node] = None
    if not node.meta.get("is_tensor") or node.op in ("placeholder", "get_attr"):
        return None
    target = modules.get(node.target) if node.op == "call_module" else None
    operation = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    dims = len(node.meta["value"])
    if isinstance(target, CHANNELS_FIRST) or operation in {"conv1d", "conv2d", "conv3d"}:
        axis = 1
    elif isinstance(target, CHANNELS_LAST) or operation in {"linear", "layer_norm"} or _is_attention(node, modules):
        axis = dims - 1
    else:
        axis = _carried(node, operation, modules, seen)
        if axis is None and (isinstance(target, batchnorm.BATCHNORMS) or operation == "batch_norm"):
            axis = 1  # only if no layer before it decides: behind tokens it may normalise positions
    seen[node] = axis
    return axis


def _carried(node: fx.Node, operation: Any, modules: dict[Any, Any], seen: dict[fx.Node, int | None]) -> int | None:
    """The neuron axis of an operation that makes no neurons: that of its inputs."""
    shape = node.meta["value"]
    if operation in REARRANGING:
        return _kept(node, operation, modules, seen)
    if operation in {"permute", "transpose"}:
        before, order = _followed(node.all_input_nodes[0], modules, seen), _order(node, operation, len(shape))
        return order.index(before) if before in order else None
    axes = set()
    for operand in node.all_input_nodes:
        if operand.meta.get("is_tensor") and len(operand.meta["value"]) == len(shape):
            axis = _followed(operand, modules, seen)
            axes |= {axis} if axis is not None and operand.meta["value"][axis] == shape[axis] else set()
    return axes.pop() if len(axes) == 1 else None


def _kept(node: fx.Node, operation: str, modules: dict[Any, Any], seen: dict[fx.Node, int | None]) -> int | None:
    """The neuron axis behind a reshaping that joins or parts other axes only, all of them before it or all behind it."""
    source, after = node.all_input_nodes[0], tuple(node.meta["value"])
    before = _followed(source, modules, seen) if operation in {"reshape", "view", "flatten", "unflatten"} else None
    if before is None:
        return None
    shape = tuple(source.meta["value"])
    if after[: before + 1] == shape[: before + 1]:
        return before
    return len(after) - 1 if before == len(shape) - 1 and after[-1] == shape[-1] else None


def _order(node: fx.Node, operation: str, dims: int) -> list[int]:
    """The input axis of each output axis of a permutation; empty if it is not given by plain numbers."""
    numbers = [*node.args[1:], *node.kwargs.values()]
    numbers = list(numbers[0]) if len(numbers) == 1 and isinstance(numbers[0], (tuple, list)) else numbers
    axes = [number % dims for number in numbers if isinstance(number, int)]
    if operation == "permute":
        return axes
    order = list(range(dims))
    if len(axes) == 2:
        order[axes[0]], order[axes[1]] = axes[1], axes[0]
    return order if len(axes) == 2 else []


def _is_attention(node: fx.Node, modules: dict[Any, Any]) -> bool:
    """Whether the node is the first of the two values that nn.MultiheadAttention returns."""
    source = node.args[0] if node.target is operator.getitem else None
    return isinstance(source, fx.Node) and isinstance(modules.get(source.target), nn.MultiheadAttention)
