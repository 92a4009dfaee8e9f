"""Turn functions called with a layer's weights, and attention modules, into calls of the plain layers.

timm and others subclass torch's layers with a forward that calls the function: a BatchNorm with an activation, a convolution
that first pads its input.
"""

import operator
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from .kinds import argument, held

#: Function -> its parameters in order; those in STATE are the layer's tensors.
PARAMETERS: dict[Any, tuple[str, ...]] = {
    F.batch_norm: ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"),
    F.group_norm: ("input", "num_groups", "weight", "bias", "eps"),
    F.layer_norm: ("input", "normalized_shape", "weight", "bias", "eps"),
    F.rms_norm: ("input", "normalized_shape", "weight", "eps"),
    F.linear: ("input", "weight", "bias"),
    F.embedding: ("input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"),
    **dict.fromkeys(
        (F.conv1d, F.conv2d, F.conv3d), ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
    ),
}
STATE = ("weight", "bias", "running_mean", "running_var")
CONVOLUTIONS = {F.conv1d: nn.Conv1d, F.conv2d: nn.Conv2d, F.conv3d: nn.Conv3d}
L = TypeVar("L", bound=nn.Module)
BATCHNORMS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}


def call_layers(graph: fx.Graph) -> None:
    """Replace such functions by calls of plain layers with the same tensors, under the name of the module that owns them as its
    weight and bias; layers that make neurons else under the name of the weight.

    Functions stay if their weights are computed, and norms if their vectors are no module's weight and bias.
    Args:
        graph: with recorded values, see `record_values`.
    """
    known = {node.target: held(node) for node in graph.nodes if node.op == "call_module"}
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in PARAMETERS:
            continue
        given = dict(zip(PARAMETERS[node.target], node.args, strict=False)) | dict(node.kwargs)
        bias = given.get("bias")
        if node.target is F.linear and isinstance(bias, fx.Node) and bias.op != "get_attr":
            _add_apart(graph, node, bias)  # a computed bias, possibly from buffers
            given.pop("bias")
        reads = {name: given.pop(name) for name in STATE if given.get(name) is not None}
        if not reads or any(not isinstance(value, fx.Node) or value.op != "get_attr" for value in reads.values()):
            continue
        tensors = {name: held(value) for name, value in reads.items()}
        first = str(next(iter(reads.values())).target)
        owner = first.rpartition(".")[0]
        owned = owner and all(str(value.target) == f"{owner}.{name}" for name, value in reads.items())
        if not owned and node.target not in (F.linear, F.embedding, *CONVOLUTIONS):
            continue  # vectors are carried by their own names
        path = owner if owned else first
        read = given.pop("input")
        others = {name: value for name, value in given.items() if name not in STATE}
        if (
            any(isinstance(value, fx.Node) for value in others.values())
            or any(not isinstance(tensors.get(name, nn.Parameter()), nn.Parameter) for name in ("weight", "bias"))
            or ("bias" in tensors and "weight" not in tensors)  # torch has no such layer
            or (
                node.target is F.batch_norm
                and ("running_mean" not in tensors or len(tensors) % 2 or others.get("training"))
            )
        ):
            continue
        layer = _layer(node.target, tensors, others, len(read.meta["value"]))
        if not _same(known.setdefault(path, layer), layer):
            continue  # it is also called with other settings
        node.op, node.target, node.args, node.kwargs = "call_module", path, (read,), {}
        node.meta["held"] = known[path]
    erase_unused(graph)


def _add_apart(graph: fx.Graph, node: fx.Node, bias: fx.Node) -> None:
    """Split a linear function into one without bias and an addition."""
    with graph.inserting_after(node):
        total = graph.call_function(operator.add)
    total.meta = dict(node.meta)
    node.replace_all_uses_with(total)
    total.args = (node, bias)
    node.args, node.kwargs = tuple(node.all_input_nodes[:2]), {}


def _layer(function: Callable[..., Any], tensors: dict[str, Tensor], others: dict[str, Any], dims: int) -> nn.Module:
    """The plain layer that equals the function and holds the same tensors."""
    bias, first = "bias" in tensors, next(iter(tensors.values()))
    eps = {name: value for name, value in others.items() if name == "eps"}
    with torch.device("meta"):
        if function is F.batch_norm:
            layer: Any = BATCHNORMS[dims](len(first), affine="weight" in tensors, **eps)
            layer.num_batches_tracked = torch.zeros((), dtype=torch.int64, device=first.device)
        elif function is F.group_norm:
            layer = nn.GroupNorm(others["num_groups"], len(first), **eps)
        elif function is F.layer_norm:
            layer = nn.LayerNorm(list(others["normalized_shape"]), bias=bias, **eps)
        elif function is F.rms_norm:
            layer = nn.RMSNorm(list(others["normalized_shape"]), **eps)
        elif function is F.linear:
            layer = nn.Linear(first.shape[1], first.shape[0], bias=bias)
        elif function is F.embedding:
            layer = nn.Embedding(
                *first.shape, max_norm=others.get("max_norm"), norm_type=others.get("norm_type") or 2.0
            )
        else:
            inputs = first.shape[1] * others.get("groups", 1)
            layer = CONVOLUTIONS[function](inputs, first.shape[0], first.shape[2:], bias=bias, **others)  # type: ignore
    return holding(layer, **{"weight": None, "bias": None, **tensors})


def holding(layer: L, **tensors: Tensor | None) -> L:
    """A layer that was made without memory, with these tensors in place of its own; new tensors become parameters."""
    for name, tensor in tensors.items():
        if tensor is not None and name in layer._parameters and not isinstance(tensor, nn.Parameter):
            tensor = nn.Parameter(tensor)
        setattr(layer, name, tensor)
    return layer.eval()


def linear_of(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """A linear layer in the memory of a weight (outputs, inputs) and a bias."""
    return holding(nn.Linear(*weight.T.shape, bias=bias is not None, device="meta"), weight=weight, bias=bias)


def _same(one: nn.Module, other: nn.Module) -> bool:
    """Whether two layers hold the same tensors with the same settings."""
    tensors, others = (
        {id(t) for t in (*layer.parameters(), *layer.buffers()) if t.numel() > 1} for layer in (one, other)
    )
    return repr(one) == repr(other) and tensors == others


def erase_unused(graph: fx.Graph) -> None:
    """Erase operations that nothing reads: sizes, unused tensors, what the code only keeps or writes into buffers.

    Calls of modules stay, because their weights belong to the network.
    """
    for node in reversed(list(graph.nodes)):
        if not node.users and node.op not in ("placeholder", "output", "call_module"):
            graph.erase_node(node)


# --- attention ------------------------------------------------------------------------------------------------------------

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
        path: the layer's name in the model, that of its weight, or that of a layer from `open_attention`.
    """
    parameters = dict(model.named_parameters())
    if path in parameters:
        return path, 0
    for name, parameter in parameters.items() if f"{path}.weight" not in parameters else ():
        same = parameter.untyped_storage().data_ptr() == weight.untyped_storage().data_ptr()
        if same and parameter.shape[1:] == weight.shape[1:]:
            return name, int(weight.storage_offset() - parameter.storage_offset()) // max(1, int(parameter.stride(0)))
    return f"{path}.weight", 0
