"""Split nn.MultiheadAttention into nodes for its layers, so that levels can end after each."""

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from .kinds import argument, held
from .plain import linear_of

#: Names of the input projections, in the order of `in_proj_weight`.
PARTS = ("query", "key", "value")


def open_attention(graph: fx.Graph) -> bool:
    """Replace each plain nn.MultiheadAttention by its layers and a scaled dot product; returns whether there was one.

    The new layers' weights are views of `in_proj_weight`, so writing to them writes to the model. Attentions with per-sample
    masks, returned weights, keys or values of another width, or added biases stay whole.
    """
    opened = False
    for node in list(graph.nodes):
        layer = held(node)
        if isinstance(layer, nn.MultiheadAttention) and _is_plain(node, layer):
            _open(graph, node, layer)
            opened = True
    return opened


def _is_plain(node: fx.Node, layer: nn.MultiheadAttention) -> bool:
    """Whether a call is softmax(q k' + mask) v of three inputs, with one mask for all samples, and only its output is used."""
    mask = _mask(node)
    table = held(mask) if isinstance(mask, fx.Node) and mask.op == "get_attr" else None
    known = mask is None or (isinstance(table, Tensor) and table.ndim == 2)
    padding = argument(node, "key_padding_mask", 3, None)
    causal_alone = argument(node, "is_causal", 7, False) and mask is None
    outputs = [user.args[1] if user.target is operator.getitem else None for user in node.users if user.users]
    return (
        type(layer) is nn.MultiheadAttention
        and layer._qkv_same_embed_dim
        and layer.bias_k is None
        and not layer.add_zero_attn
        and known
        and padding is None
        and not causal_alone
        and len(_inputs(node)) == 3
        and set(outputs) == {0}
    )


def _mask(node: fx.Node) -> Any:
    return argument(node, "attn_mask", 5, None)


def _inputs(node: fx.Node) -> list[fx.Node]:
    given = [*node.args[:3], *(node.kwargs[name] for name in PARTS[len(node.args[:3]) :] if name in node.kwargs)]
    return [value for value in given if isinstance(value, fx.Node)]


def _open(graph: fx.Graph, node: fx.Node, layer: nn.MultiheadAttention) -> None:
    path, split = str(node.target), (layer.num_heads, layer.head_dim)

    def add(new: fx.Node) -> fx.Node:
        new.meta["nn_module_stack"] = node.meta.get("nn_module_stack", {})
        return new

    def call(name: str, part: nn.Module, read: fx.Node) -> fx.Node:
        new = add(graph.call_module(f"{path}.{name}", (read,)))
        new.meta["held"] = part
        return new

    with graph.inserting_before(node):
        heads = []
        for number, (part, source) in enumerate(zip(PARTS, _inputs(node), strict=True)):
            source = source if layer.batch_first else add(graph.call_method("transpose", (source, 0, 1)))
            apart = add(graph.call_method("unflatten", (call(part, _view(layer, number), source), 2, split)))
            heads.append(add(graph.call_method("transpose", (apart, 1, 2))))
        mask = _mask(node)
        # True masks out in MultiheadAttention, False in the function.
        if mask is not None and held(mask).dtype == torch.bool:
            mask = add(graph.call_method("logical_not", (mask,)))
        mixed = add(graph.call_function(F.scaled_dot_product_attention, (*heads, *([] if mask is None else [mask]))))
        joined = add(graph.call_method("flatten", (add(graph.call_method("transpose", (mixed, 1, 2))), 2)))
        output = call("out_proj", layer.out_proj, joined)
        output = output if layer.batch_first else add(graph.call_method("transpose", (output, 0, 1)))
    for user in list(node.users):
        user.replace_all_uses_with(output)
        graph.erase_node(user)
    graph.erase_node(node)


def _view(layer: nn.MultiheadAttention, number: int) -> nn.Linear:
    """One of an attention's input projections as a layer whose weights are views of its parameters."""
    rows = slice(number * layer.embed_dim, (number + 1) * layer.embed_dim)
    weight, bias = (
        None if held is None else held.detach()[rows] for held in (layer.in_proj_weight, layer.in_proj_bias)
    )
    assert weight is not None
    return linear_of(weight, bias).requires_grad_(layer.in_proj_weight.requires_grad)


def rows_of(model: nn.Module, path: str, weight: Tensor) -> tuple[str, int]:
    """The model's parameter that a layer's weight views, and the index of the first row.

    Args:
        weight: (d, p).
        path: the layer's name in the model, or that of a layer from `open_attention`.
    """
    for name, parameter in model.named_parameters() if f"{path}.weight" not in dict(model.named_parameters()) else ():
        same = parameter.untyped_storage().data_ptr() == weight.untyped_storage().data_ptr()
        if same and parameter.shape[1:] == weight.shape[1:]:
            return name, int(weight.storage_offset() - parameter.storage_offset()) // max(1, int(parameter.stride(0)))
    return f"{path}.weight", 0
