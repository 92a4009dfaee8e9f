"""Levels: a traced model cut where exactly one tensor is alive (paper sec. 3; docs/method.md).

Legend: B samples, N rows = samples x positions, C or width neurons, p inputs of an affine level (unfolded for
convolutions, channel-major, as `weight.flatten(1)`).
"""

import copy
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from . import batchnorm

AFFINE = (nn.Linear, nn.Conv2d)
TRANSPARENT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Identity)
ACTIVATIONS = (
    nn.ReLU, nn.GELU, nn.SiLU, nn.Hardswish, nn.LeakyReLU, nn.ELU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.ReLU6,
    nn.PReLU, nn.Mish,
)  # fmt: skip
ACTIVATION_FUNCTIONS = {
    "relu",
    "relu_",
    "gelu",
    "silu",
    "hardswish",
    "leaky_relu",
    "elu",
    "tanh",
    "sigmoid",
    "softplus",
}
CHANNELS_FIRST = (nn.Conv1d, nn.Conv2d, nn.Conv3d, *batchnorm.BATCHNORMS)
CHANNELS_LAST = (nn.Linear, nn.LayerNorm, nn.Embedding)
# They may keep the number of axes and still change what an axis means.
REARRANGING = {"reshape", "view", "flatten", "unflatten", "movedim", "moveaxis", "swapaxes", "swapdims", "einsum"}
ADDITIONS = {operator.add, operator.iadd, torch.add}
INPLACE_OPERATORS = {operator.iadd: operator.add, operator.isub: operator.sub, operator.imul: operator.mul}


@dataclass(frozen=True, eq=False)
class Level:
    """One step of the composition f = f_L o ... o f_1; the parameters are the model's own, not copies."""

    name: str
    """Name of the module (or merge) at whose output the level ends."""
    module: nn.Module
    """Boundary tensor in, boundary tensor out."""
    width: int
    """Number of output neurons."""
    axis: int
    """Neuron axis of the output: 1 (channels, features of a flat tensor) or -1 (tokens)."""
    positions: int
    """Rows per sample: the output's spatial positions or tokens, 1 for a flat tensor."""
    head: bool
    """True for the last level: its neurons are the classes."""
    affine: nn.Linear | nn.Conv2d | None
    """The level's only parameters, last in it; None if the level is not affine in its weights."""
    prefix: nn.Module | None
    """What stands before `affine` (without parameters); None if the level is not affine."""
    why_not_affine: str
    """The reason, as the end of a sentence; empty for an affine level."""
    folds: tuple[tuple[batchnorm.Affine, batchnorm.Affine, batchnorm.BatchNorm], ...] = field(default=())
    """(folded layer, affine layer, BatchNorm) for each BatchNorm that was folded here."""

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return sum(p.numel() for p in self.module.parameters())

    @property
    def kind(self) -> str:
        """What the level is, for tables: Linear, Conv2d, or the reason why it is not affine."""
        return type(self.affine).__name__ if self.affine is not None else "not affine"

    def inputs(self, boundary: Tensor, dtype: torch.dtype | None = None, *, ones: bool = False) -> Tensor:
        """The level's input rows x of shape (N, p): one row per output position, convolution patches unfolded.

        Args:
            dtype: of the rows; default: the boundary tensor's.
            ones: append a column of ones (p + 1).
        """
        assert self.prefix is not None and self.affine is not None
        return unfolded(self.affine, self.prefix(boundary), dtype, ones=ones)

    def put_back(self) -> None:
        """Write folded layers back into the model they came from."""
        for layer, affine, norm in self.folds:
            batchnorm.put_back(layer, affine, norm)


def rows(tensor: Tensor, axis: int) -> Tensor:
    """A boundary tensor as rows x neurons: (B, C, H, W), (B, T, D) or (B, D) -> (N, width)."""
    return tensor.movedim(axis, -1).reshape(-1, tensor.shape[axis])


def unfolded(
    affine: nn.Linear | nn.Conv2d, tensor: Tensor, dtype: torch.dtype | None = None, *, ones: bool = False
) -> Tensor:
    """Input rows (N, p) such that `rows @ weight.flatten(1).T + bias` are the layer's output rows.

    Unfolding, conversion and the column of ones take one pass over memory.
    """
    windows = tensor if isinstance(affine, nn.Linear) else _windows(affine, tensor)
    p = affine.weight[0].numel()
    found = torch.empty(windows.numel() // p, p + ones, dtype=dtype or tensor.dtype, device=tensor.device)
    found[:, :p].view(windows.shape).copy_(windows)
    if ones:
        found[:, -1] = 1
    return found


def _windows(conv: nn.Conv2d, tensor: Tensor) -> Tensor:
    """A view (B, out height, out width, C, kernel height, kernel width) of the padded input."""
    mode = "constant" if conv.padding_mode == "zeros" else conv.padding_mode
    padding = conv._reversed_padding_repeated_twice  # holds for int, tuple, "same" and "valid" alike
    tensor = F.pad(tensor, padding, mode=mode) if any(padding) else tensor
    B, C, *sizes = tensor.shape
    spans = [d * (k - 1) + 1 for d, k in zip(conv.dilation, conv.kernel_size, strict=True)]
    counts = [(size - span) // step + 1 for size, span, step in zip(sizes, spans, conv.stride, strict=True)]
    b, c, *strides = tensor.stride()
    steps = [stride * step for stride, step in zip(strides, conv.stride, strict=True)]
    inner = [stride * d for stride, d in zip(strides, conv.dilation, strict=True)]
    return tensor.as_strided((B, *counts, C, *conv.kernel_size), (b, *steps, c, *inner))


def partition(
    model: nn.Module,
    example: Tensor,
    boundaries: str | int | Sequence[str] = "preactivations",
    *,
    leaves: Sequence[str] = (),
    neuron_axis: int | None = None,
) -> list[Level]:
    """Cut a model into levels whose composition is the model.

    BatchNorm is folded into the affine layer directly before it. The model is put into evaluation mode.

    Args:
        example: (B, ...) input, B >= 1; it fixes shapes and is used to check that the composition is right.
        boundaries: "preactivations" (after every affine layer or residual sum where one tensor is alive),
            "activations" (after every activation function), "blocks" (stem, each residual block, head; as
            "preactivations" where there are no such blocks), a wanted number of levels, or names of modules after
            which to cut.
        leaves: names of submodules to take whole, for parts that torch.fx cannot trace.
        neuron_axis: axis of the neurons at boundaries where the model does not tell.
    Raises:
        ValueError: the model cannot be traced or cut this way (with the reason and the way out), or a parameter would
            lie in two levels.
    """
    graph, modules, folds = _trace(model.eval(), leaves)
    root = fx.GraphModule(modules, graph)
    with torch.no_grad():
        _record_values(root, graph, example, model)
    cuts = _choose_cuts(graph, modules, boundaries, model)
    levels = [
        _build_level(segment, before, after, modules, folds, head=after is cuts[-1], axis=neuron_axis)
        for segment, before, after in _segments(graph, cuts)
    ]
    _refuse_tied_weights(levels)
    _check_composition(model, levels, example, exact=not folds)
    return levels


def compose(levels: Iterable[Level], x: Tensor) -> Tensor:
    """Run levels one after the other."""
    for level in levels:
        x = level.module(x)
    return x


# --- tracing -------------------------------------------------------------------------------------------------------


class _Tracer(fx.Tracer):
    def __init__(self, leaves: Sequence[str]) -> None:
        super().__init__()
        self.leaves = set(leaves)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return module_qualified_name in self.leaves or super().is_leaf_module(m, module_qualified_name)


def _trace(model: nn.Module, leaves: Sequence[str]) -> tuple[fx.Graph, dict[Any, Any], dict[str, tuple]]:
    """The traced graph without in-place operations and foldable BatchNorms, what its targets stand for, the folds."""
    unknown = set(leaves) - {name for name, _ in model.named_modules()}
    if unknown:
        raise ValueError(f"leaves={sorted(unknown)} are not submodules of {type(model).__name__}.")
    try:
        graph = _Tracer(leaves).trace(model)
    except Exception as error:  # torch.fx raises whatever the model's own code raises on a proxy
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(
            f"{type(model).__name__} cannot be traced by torch.fx ({reason}). Name the submodule in which this happens "
            "in leaves=[...], to take it whole, or wrap the model in one whose forward has no data-dependent branches."
        ) from error
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    if len([node for node in inputs if not node.args]) != 1:
        raise ValueError(
            f"{type(model).__name__} takes {len(inputs)} inputs; levels need exactly one. Wrap it in a module whose "
            "forward takes one tensor."
        )
    for node in inputs[1:]:  # optional arguments keep their defaults
        node.replace_all_uses_with(None) if node.args[0] is None else None
        if not node.users:
            graph.erase_node(node)
    modules = _targets(model, graph)
    _remove_inplace(graph, modules)
    folds = _fold_batchnorms(graph, modules)
    return graph, modules, folds


def _targets(model: nn.Module, graph: fx.Graph) -> dict[str, Any]:
    found: dict[Any, Any] = {}
    for node in graph.nodes:
        if node.op == "call_module":
            found[node.target] = model.get_submodule(node.target)
        elif node.op == "get_attr":
            found[node.target] = operator.attrgetter(node.target)(model)
    return found


def _remove_inplace(graph: fx.Graph, modules: dict[Any, Any]) -> None:
    """Boundary tensors are kept while the next level runs, so no operation may write into its input."""
    for node in graph.nodes:
        if node.op == "call_module" and getattr(modules[node.target], "inplace", False):
            plain = copy.copy(modules[node.target])
            plain.inplace = False
            modules[node.target] = plain
        elif node.op == "call_function" and node.target in INPLACE_OPERATORS:
            node.target = INPLACE_OPERATORS[node.target]
        elif node.op == "call_function" and node.kwargs.get("inplace"):
            node.kwargs = {**node.kwargs, "inplace": False}
        elif node.op == "call_method" and node.target.endswith("_") and not node.target.endswith("__"):
            node.target = node.target[:-1]


def _fold_batchnorms(graph: fx.Graph, modules: dict[Any, Any]) -> dict[str, tuple]:
    calls = [node.target for node in graph.nodes if node.op == "call_module"]
    folds: dict[str, tuple] = {}
    for node in list(graph.nodes):
        before = node.args[0] if node.args else None
        if (
            node.op == "call_module"
            and isinstance(modules[node.target], batchnorm.BATCHNORMS)
            and modules[node.target].running_mean is not None
            and isinstance(before, fx.Node)
            and before.op == "call_module"
            and isinstance(modules[before.target], AFFINE)
            and len(before.users) == 1
            and calls.count(before.target) == calls.count(node.target) == 1
        ):
            affine, norm = modules[before.target], modules.pop(node.target)
            layer = batchnorm.folded(affine, norm)
            folds[str(before.target)] = (layer, affine, norm)
            modules[before.target] = layer
            node.replace_all_uses_with(before)
            graph.erase_node(node)
    return folds


class _Recorder(fx.Interpreter):
    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        n.meta["value"] = result.shape if isinstance(result, Tensor) else result
        n.meta["is_tensor"] = isinstance(result, Tensor)
        n.meta["holds_tensors"] = _holds_tensors(result)
        return result


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_holds_tensors(item) for item in value)
    return isinstance(value, Tensor)


def _record_values(root: fx.GraphModule, graph: fx.Graph, example: Tensor, model: nn.Module) -> None:
    recorder = _Recorder(root)
    recorder.graph = graph  # GraphModule copies the graph; the values must land on ours
    try:
        output = recorder.run(example)
    except Exception as error:
        raise ValueError(
            f"{type(model).__name__} does not run on an input of shape {tuple(example.shape)}: "
            f"{str(error).splitlines()[0]}. Pass data of the shape that it was trained on."
        ) from error
    if not isinstance(output, Tensor):
        raise ValueError(
            f"{type(model).__name__} returns {type(output).__name__}, not one tensor. Wrap it in a module whose forward "
            "returns the logits only."
        )


# --- choosing the cuts ---------------------------------------------------------------------------------------------


def _choose_cuts(
    graph: fx.Graph, modules: dict[Any, Any], boundaries: str | int | Sequence[str], model: nn.Module
) -> list[fx.Node]:
    """The nodes after which to cut, the last one being the model's output; each segment holds parameters."""
    single = _single_tensor_nodes(graph)
    output = next(node for node in graph.nodes if node.op == "output").args[0]
    if isinstance(boundaries, str) and boundaries not in ("preactivations", "activations", "blocks"):
        raise ValueError(
            f"unknown boundaries {boundaries!r}. Use 'preactivations', 'activations', 'blocks', a number of levels or a "
            "list of module names."
        )
    if isinstance(boundaries, (str, int)):
        is_end = _is_activation if boundaries == "activations" else _is_preactivation
        wanted = _block_ends(graph, modules, single) if boundaries == "blocks" else []
        wanted = wanted or [node for node in single if is_end(node, modules)]
    else:
        wanted = [_end_of(name, graph, single, model) for name in boundaries]
    order = {node: index for index, node in enumerate(graph.nodes)}
    cuts: list[fx.Node] = []
    start, nodes = -1, list(graph.nodes)
    for node in sorted(set(wanted), key=order.__getitem__):
        here = nodes[start + 1 : order[node] + 1]
        after = nodes[order[node] + 1 :]
        if node is not output and _has_parameters(here, modules) and _has_parameters(after, modules):
            cuts.append(node)
            start = order[node]
        elif node is not output and not isinstance(boundaries, (str, int)):
            raise ValueError(f"boundary {node.name!r} leaves a level without parameters. Leave it out.")
    if isinstance(boundaries, int):
        cuts = _balanced(cuts, boundaries, nodes, modules)
    return [*cuts, output]


def _single_tensor_nodes(graph: fx.Graph) -> list[fx.Node]:
    """Nodes after which their own output is the only tensor alive (integers such as batch sizes do not count)."""
    nodes = list(graph.nodes)
    order = {node: index for index, node in enumerate(nodes)}
    alive: set[fx.Node] = set()
    single = []
    for index, node in enumerate(nodes):
        if node.op == "output":
            break
        alive = {other for other in alive if max(order[user] for user in other.users) > index}
        if node.op != "get_attr" and node.meta["holds_tensors"] and node.users:
            alive.add(node)
        if alive == {node} and node.meta["is_tensor"] and node.op != "placeholder":
            single.append(node)
    return single


def _block_ends(graph: fx.Graph, modules: dict[Any, Any], single: list[fx.Node]) -> list[fx.Node]:
    """Where residual blocks end, and where the stem before the first one does; empty without such blocks.

    A block is a module in whose own forward two tensors are added, the outermost where they nest. Without an activation
    function the stem is a mere embedding and goes with the first block; tokens that a selection drops after a
    block do not count as its output.
    """
    nodes = list(graph.nodes)
    paths = {node: [path for path, _ in node.meta.get("nn_module_stack", {}).values() if path] for node in nodes}
    owners = {paths[node][-1] for node in nodes if _is_sum(node) and paths[node]}
    spans = {path: [node for node in nodes if path in paths[node]] for path in owners if not _outer(path, owners)}
    ends = [span[-1] for span in spans.values() if span[-1] in single]
    if not ends:
        return []
    start = min(nodes.index(span[0]) for span in spans.values())
    stem = [node for node in single if nodes.index(node) < start]
    if stem and any(_is_activation(node, modules) for node in nodes[: nodes.index(stem[-1]) + 1]):
        ends.append(stem[-1])
    return [_after_selection(node) for node in ends]


def _outer(path: str, owners: set[str]) -> bool:
    """Whether a module lies within another one of these."""
    return any(path.startswith(f"{other}.") for other in owners)


def _after_selection(node: fx.Node) -> fx.Node:
    user = next(iter(node.users))
    return user if len(node.users) == 1 and user.target is operator.getitem else node


def _is_preactivation(node: fx.Node, modules: dict[Any, Any]) -> bool:
    if node.op == "call_module":
        return isinstance(modules[node.target], (*AFFINE, nn.Conv1d, nn.Conv3d))
    return _is_sum(node)


def _is_sum(node: fx.Node) -> bool:
    """Whether two tensors that the model computes are added here."""
    is_sum = (node.op == "call_function" and node.target in ADDITIONS) or (node.op, node.target) == (
        "call_method",
        "add",
    )
    inputs = [arg for arg in node.args if isinstance(arg, fx.Node) and arg.op != "get_attr" and arg.meta["is_tensor"]]
    return is_sum and len(inputs) == 2


def _is_activation(node: fx.Node, modules: dict[Any, Any]) -> bool:
    if node.op == "call_module":
        return isinstance(modules[node.target], ACTIVATIONS)
    name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    return node.op in ("call_function", "call_method") and name in ACTIVATION_FUNCTIONS


def _end_of(name: str, graph: fx.Graph, single: list[fx.Node], model: nn.Module) -> fx.Node:
    """The last node that module `name` computes, if one tensor is alive there."""
    inside = [
        node
        for node in graph.nodes
        if any(path == name for path, _ in node.meta.get("nn_module_stack", {}).values())
        or (node.op == "call_module" and node.target == name)
    ]
    if not inside:
        known = [path for path, _ in model.named_children()]
        raise ValueError(f"boundaries: {name!r} is not a module that runs in the model. Its children are {known}.")
    if inside[-1] not in single:
        raise ValueError(
            f"boundaries: after {name!r} more than one tensor is alive (a branch is open), so no level can end there. "
            "Name the block that encloses the branch."
        )
    return inside[-1]


def _has_parameters(nodes: Iterable[fx.Node], modules: dict[Any, Any]) -> bool:
    return any(_parameter_count(node, modules) for node in nodes)


def _parameter_count(node: fx.Node, modules: dict[Any, Any]) -> int:
    target = modules.get(node.target) if node.op in ("call_module", "get_attr") else None
    if isinstance(target, nn.Module):
        return sum(p.numel() for p in target.parameters())
    return target.numel() if isinstance(target, nn.Parameter) else 0


def _balanced(cuts: list[fx.Node], n_levels: int, nodes: list[fx.Node], modules: dict[Any, Any]) -> list[fx.Node]:
    """The n_levels - 1 cuts that make the largest level as small as possible, in parameters."""
    if not 1 <= n_levels <= len(cuts) + 1:
        raise ValueError(f"boundaries={n_levels}: this model can be cut into 1 to {len(cuts) + 1} levels.")
    order = {node: index for index, node in enumerate(nodes)}
    ends = [0, *(order[node] + 1 for node in cuts), len(nodes)]
    sizes = [
        sum(_parameter_count(node, modules) for node in nodes[a:b]) for a, b in zip(ends[:-1], ends[1:], strict=True)
    ]
    # best[j] after i levels: (largest level, where each level ends) over the first j pieces
    best: dict[int, tuple[int, list[int]]] = {0: (0, [])}
    for _ in range(n_levels):
        best = {
            j: min((max(largest, sum(sizes[i:j])), [*stops, j]) for i, (largest, stops) in best.items() if i < j)
            for j in range(1, len(sizes) + 1)
            if any(i < j for i in best)
        }
    return [cuts[stop - 1] for stop in best[len(sizes)][1][:-1]]


# --- building the levels -------------------------------------------------------------------------------------------


def _segments(graph: fx.Graph, cuts: list[fx.Node]) -> Iterable[tuple[list[fx.Node], fx.Node, fx.Node]]:
    before = next(node for node in graph.nodes if node.op == "placeholder")
    segment: list[fx.Node] = []
    pending = list(cuts)
    for node in graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        segment.append(node)
        if node is pending[0] and len(pending) > 1:
            yield segment, before, pending.pop(0)
            before, segment = node, []
    yield segment, before, pending[0]


def _build_level(
    segment: list[fx.Node],
    before: fx.Node,
    after: fx.Node,
    modules: dict[Any, Any],
    folds: dict[str, tuple],
    *,
    head: bool,
    axis: int | None,
) -> Level:
    owners = [node for node in segment if _parameter_count(node, modules)]
    name = str(owners[-1].target)
    why = _why_not_affine(segment, owners, after, modules)
    affine = None if why else modules[owners[0].target]
    prefix = None if why else _graph_module(segment, before, owners[0].args[0], modules)
    shape = after.meta["value"]
    axis = _neuron_axis(after, modules, name, axis)
    width = shape[axis]
    return Level(
        name=name,
        module=_graph_module(segment, before, after, modules),
        width=width,
        axis=axis,
        positions=shape.numel() // (shape[0] * width),
        head=head,
        affine=affine,
        prefix=prefix,
        why_not_affine=why,
        folds=tuple(folds[str(node.target)] for node in owners if str(node.target) in folds),
    )


def _why_not_affine(segment: list[fx.Node], owners: list[fx.Node], after: fx.Node, modules: dict[Any, Any]) -> str:
    if len(owners) != 1:
        return f"it holds {len(owners)} layers with parameters ({', '.join(str(node.target) for node in owners[:4])})"
    target = modules[owners[0].target]
    if not isinstance(target, AFFINE):
        return f"its parameters belong to a {type(target).__name__}, not to a Linear or Conv2d"
    if isinstance(target, nn.Conv2d) and target.groups > 1:
        return f"its convolution is grouped (groups={target.groups})"
    behind = segment[segment.index(owners[0]) + 1 : segment.index(after) + 1]
    others = [
        node for node in behind if not (node.op == "call_module" and isinstance(modules[node.target], TRANSPARENT))
    ]
    return f"{others[0].name!r} comes after its affine layer" if others else ""


def _neuron_axis(node: fx.Node, modules: dict[Any, Any], name: str, given: int | None) -> int:
    """Channels after a convolution, the last axis after a Linear or LayerNorm, the only axis of a flat tensor."""
    dims = len(node.meta["value"])
    if given is not None:
        return given
    axis = 1 if dims == 2 else _followed(node, modules, {})
    if axis is None:
        raise ValueError(
            f"level {name!r} ends with a tensor of shape {tuple(node.meta['value'])} whose neuron axis is ambiguous. "
            "Say which one it is with neuron_axis=1 (channels) or neuron_axis=-1 (tokens), or cut elsewhere."
        )
    return -1 if axis == dims - 1 > 1 else axis


def _followed(node: fx.Node, modules: dict[Any, Any], seen: dict[fx.Node, int | None]) -> int | None:
    """The neuron axis, counted from the left, followed from the layers that made it to a node's output.

    None where no such layer is found, where the axes were moved about in another way than by a permutation, or
    where the operands of a sum disagree.
    """
    if node in seen:
        return seen[node]
    seen[node] = None
    if not node.meta.get("is_tensor") or node.op in ("placeholder", "get_attr"):
        return None
    target = modules.get(node.target) if node.op == "call_module" else None
    operation = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    dims = len(node.meta["value"])
    if isinstance(target, CHANNELS_FIRST) or operation in {"conv1d", "conv2d", "conv3d", "batch_norm"}:
        axis = 1
    elif isinstance(target, CHANNELS_LAST) or operation in {"linear", "layer_norm"} or _is_attention(node, modules):
        axis = dims - 1
    else:
        axis = _carried(node, operation, modules, seen)
    seen[node] = axis
    return axis


def _carried(node: fx.Node, operation: Any, modules: dict[Any, Any], seen: dict[fx.Node, int | None]) -> int | None:
    """The neuron axis that an operation without neurons of its own takes over from its inputs."""
    shape = node.meta["value"]
    if operation in REARRANGING:
        return None
    if operation in {"permute", "transpose"}:
        before, order = _followed(node.all_input_nodes[0], modules, seen), _order(node, operation, len(shape))
        return order.index(before) if before in order else None
    found = set()
    for other in node.all_input_nodes:
        if other.meta.get("is_tensor") and len(other.meta["value"]) == len(shape):
            axis = _followed(other, modules, seen)
            found |= {axis} if axis is not None and other.meta["value"][axis] == shape[axis] else set()
    return found.pop() if len(found) == 1 else None


def _order(node: fx.Node, operation: str, dims: int) -> list[int]:
    """Which axis of its input each axis of a permutation is; empty if that is not told by plain numbers."""
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
    """The first of the two things that nn.MultiheadAttention returns."""
    source = node.args[0] if node.target is operator.getitem else None
    return isinstance(source, fx.Node) and isinstance(modules.get(source.target), nn.MultiheadAttention)


def _graph_module(segment: list[fx.Node], before: fx.Node, after: Any, modules: dict[Any, Any]) -> nn.Module:
    """The part of the graph from tensor `before` to tensor `after` as a module that shares the parameters."""
    graph = fx.Graph()
    start = graph.placeholder("x")
    copies: dict[fx.Node, Any] = {before: start}
    needed = _needed_for(after, segment, before)

    def here(node: fx.Node) -> Any:
        if node not in copies:  # an integer from an earlier level
            copies[node] = _integer(node, graph, start, here)
        return copies[node]

    for node in segment:
        if node in needed:
            copies[node] = graph.node_copy(node, here)
    graph.output(copies[after])
    used = {str(node.target) for node in graph.nodes if node.op in ("call_module", "get_attr")}
    return fx.GraphModule({name: modules[name] for name in sorted(used)}, graph).eval()


def _needed_for(after: fx.Node, segment: list[fx.Node], before: fx.Node) -> set[fx.Node]:
    inside, needed, todo = set(segment), set(), [after]
    while todo:
        node = todo.pop()
        if node in inside and node not in needed and node is not before:
            needed.add(node)
            todo.extend(node.all_input_nodes)
    return needed


def _integer(node: fx.Node, graph: fx.Graph, start: fx.Node, here: Callable[[fx.Node], Any]) -> Any:
    """An integer that an earlier level computed: a batch size is read off this level's input, the rest is fixed."""
    is_batch = (node.target is operator.getitem and node.args[1] == 0 and _is_shape(node.args[0])) or (
        node.op == "call_method" and node.target == "size" and node.args[1:] == (0,)
    )
    if is_batch:
        return graph.call_method("size", (start, 0))
    if isinstance(node.meta["value"], int) and any(arg.meta.get("is_tensor") is False for arg in node.all_input_nodes):
        return graph.node_copy(node, here) if not _is_shape(node.args[0]) else node.meta["value"]
    return node.meta["value"]


def _is_shape(node: Any) -> bool:
    return isinstance(node, fx.Node) and isinstance(node.meta.get("value"), torch.Size) and not node.meta["is_tensor"]


# --- checking ------------------------------------------------------------------------------------------------------


def _refuse_tied_weights(levels: list[Level]) -> None:
    seen: dict[int, tuple[str, int]] = {}
    for index, level in enumerate(levels):
        for name, parameter in level.module.named_parameters():
            first_name, first = seen.setdefault(id(parameter), (name, index))
            if first != index:
                raise ValueError(
                    f"levels {levels[first].name!r} and {level.name!r} share the weights {first_name!r}: tied weights "
                    "cannot be fitted one level at a time. Cut so that both uses lie in one level (boundaries=[...])."
                )


@torch.no_grad()
def _check_composition(model: nn.Module, levels: list[Level], example: Tensor, *, exact: bool) -> None:
    expected, found = model(example), compose(levels, example)
    gap = (expected - found).abs().max().item() if expected.shape == found.shape else float("inf")
    tolerance = 0.0 if exact else 1e-4 * max(1.0, expected.abs().max().item())
    if not gap <= tolerance and torch.isfinite(expected).all():
        raise ValueError(
            f"partition does not reproduce the model: outputs differ by up to {gap:.2g} (tolerance {tolerance:.2g}). "
            "Is its forward random or dependent on earlier calls? Name other boundaries with boundaries=[...]."
        )
