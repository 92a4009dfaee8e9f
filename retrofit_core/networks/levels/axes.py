"""The neuron axis of a tensor in a trace: a layer's own or, behind other operations, the axis along which neurons differ."""

import operator

from torch import Tensor, fx

from ..symmetry.rules import rules_of, varying_axes
from .kinds import does, words
from .tracing import Trace

CHANNELS_FIRST = words("_ConvNd conv1d conv2d conv3d group_norm")
CHANNELS_LAST = words("linear layer_norm rms_norm embedding MultiheadAttention")
#: They decide only if no layer does, for they may normalise positions.
NORMS = words("_BatchNorm")


def neuron_axis(trace: Trace, node: fx.Node, name: str) -> int:
    """The neuron axis of a node's output: usually 1, or -1 for the last of more than two.

    Args:
        trace: the whole network's; the node may be one of a changed copy of its graph.
        name: level name for the error message.
    Raises:
        ValueError: no such axis, or more than one.
    """
    shape = node.meta["value"]
    dims = len(shape)
    if dims < 2:
        raise ValueError(
            f"level {name!r} ends with one number for each sample, a tensor without an axis of neurons. Let the network "
            "return (B, 1): leave out its squeeze or its [:, 0]."
        )
    if dims == 2 or not (makers := _makers(node, norms=False) or _makers(node, norms=True)):
        return 1  # the input's own numbers are not fused
    axis = makers.get(node)
    if axis is None:
        axes = _differing(trace, node.name)
        # where neurons cannot be followed, the last layer of the same form tells
        alike = [m for m in node.graph.nodes if m in makers and len(m.meta["value"]) == dims] if not axes else []
        axis = axes[0] if len(axes) == 1 else makers[alike[-1]] if alike else None
    if axis is None:
        raise ValueError(
            f"level {name!r} ends with a tensor of shape {tuple(shape)} whose neuron axis is not known. Let levels end elsewhere "
            "(boundaries=[module names] of fuse() and partition())."
        )
    return -1 if axis == dims - 1 else axis


def _differing(trace: Trace, node: str) -> list[int]:
    """The axes along which the neurons of a node's output differ; none if they cannot be followed."""
    try:
        rules = rules_of(trace)
    except Exception:  # whatever a rule raises on unknown operations
        return []
    ids = next((ids for other, ids in rules.values.items() if other.name == node), None)
    return varying_axes(rules.ids.of(ids)) if isinstance(ids, Tensor) else []


def _makers(node: fx.Node, *, norms: bool) -> dict[fx.Node, int]:
    """The nearest layers before a node, itself included, each with the neuron axis of its outputs.

    Args:
        norms: whether BatchNorms are layers, too.
    """
    makers: dict[fx.Node, int] = {}
    todo, seen = [node], {node}
    while todo:
        other = todo.pop()
        source = other.args[0] if other.target is operator.getitem else other
        if other.meta.get("is_tensor") and (does(other, CHANNELS_FIRST) or (norms and does(other, NORMS))):
            makers[other] = 1
        elif other.meta.get("is_tensor") and isinstance(source, fx.Node) and does(source, CHANNELS_LAST):
            makers[other] = len(other.meta["value"]) - 1
        else:
            before = [n for n in other.all_input_nodes if n.meta.get("is_tensor") or n.meta.get("holds_tensors")]
            todo += [n for n in before if n not in seen]
            seen.update(before)
    return makers
