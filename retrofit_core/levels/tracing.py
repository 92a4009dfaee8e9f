"""torch.fx traces of a model: without in-place operations and foldable BatchNorms, shapes recorded."""

import copy
import inspect
import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from .. import batchnorm
from ..registry import first_line
from .kinds import AFFINE
from .opening import open_attention
from .weights import computed_weights, repeated

INPLACE_OPERATORS = {operator.iadd: operator.add, operator.isub: operator.sub, operator.imul: operator.mul}
#: Names and order of the leading tensor arguments of the torch functions whose arguments are inspected.
LEADING = {
    "scaled_dot_product_attention": ("query", "key", "value"),
    **dict.fromkeys(("cat", "concat", "stack"), ("tensors",)),
    **dict.fromkeys(("bmm", "mm"), ("input", "mat2")),
    **dict.fromkeys(("add", "sub", "mul", "div", "matmul", "multiply", "subtract"), ("input", "other")),
    **dict.fromkeys(("permute", "transpose"), ("input",)),
}


class _Tracer(fx.Tracer):
    def __init__(self, leaves: Sequence[str]) -> None:
        super().__init__()
        self.leaves = set(leaves)
        self.stuck: str | None = None
        """The innermost module whose code could not be followed"""

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        try:
            return super().call_module(m, forward, args, kwargs)
        except Exception:
            self.stuck = self.stuck or self.path_of_module(m)
            raise

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return module_qualified_name in self.leaves or super().is_leaf_module(m, module_qualified_name)


def trace(
    model: nn.Module,
    leaves: Sequence[str],
    *,
    fold: bool = True,
    example: Tensor | None = None,
    whole: bool = False,
    opened: bool = False,
) -> tuple[fx.Graph, dict[Any, Any], dict[str, tuple]]:
    """The traced graph without in-place operations and foldable BatchNorms, the objects behind its targets, the folds.

    Args:
        fold: False keeps every BatchNorm where it is.
        example: (B, ...) input; with it the nodes hold their shapes (`record_values`), and a BatchNorm behind a Linear is
            folded only where it reads flat tensors, not tokens.
        whole: take modules whole whose code torch.fx cannot follow, as if `leaves` named them.
        opened: take attention modules apart, see `open_attention`.
    Raises:
        ValueError: `leaves` names no submodule, torch.fx cannot trace the model, or it takes more than one input.
    """
    unknown = set(leaves) - {name for name, _ in model.named_modules()}
    if unknown:
        raise ValueError(f"leaves={sorted(unknown)} are not submodules of {type(model).__name__}.")
    graph = _traced(model, list(leaves), whole)
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
    _name_no_tensors(graph, modules)
    _remove_inplace(graph, modules)
    if opened:
        open_attention(graph, modules)
    if example is not None:
        with torch.no_grad():
            record_values(fx.GraphModule(modules, graph), graph, example, model)
    folds = _fold_batchnorms(graph, modules) if fold else {}
    return graph, modules, folds


def _traced(model: nn.Module, leaves: list[str], whole: bool) -> fx.Graph:
    """The graph; with `whole`, modules inside of the model whose code torch.fx cannot follow are taken whole."""
    while True:
        tracer = _Tracer(leaves)
        try:
            return tracer.trace(model)
        except Exception as error:  # torch.fx raises whatever the model's own code raises on a proxy
            if whole and tracer.stuck and tracer.stuck not in leaves:
                leaves.append(tracer.stuck)
                continue
            raise ValueError(
                f"{type(model).__name__} cannot be traced by torch.fx ({first_line(error)}). Name the submodule in which this "
                "happens in leaves=[...], to take it whole, or wrap the model in one whose forward has no data-dependent "
                "branches."
            ) from error


def _targets(model: nn.Module, graph: fx.Graph) -> dict[str, Any]:
    targets: dict[Any, Any] = {}
    for node in graph.nodes:
        if node.op == "call_module":
            targets[node.target] = model.get_submodule(node.target)
        elif node.op == "get_attr":
            targets[node.target] = operator.attrgetter(node.target)(model)
    return targets


def _name_no_tensors(graph: fx.Graph, modules: dict[Any, Any]) -> None:
    """Tensors that are passed by name (`layer(input=x)`, `torch.add(x, other=y)`) become positional arguments."""
    for node in graph.nodes:
        names: Iterable[str] = ()
        if node.op == "call_module":
            names = inspect.signature(modules[node.target].forward).parameters
        elif node.op in ("call_function", "call_method"):
            name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
            names = LEADING.get(str(name), ())
        for name in list(names)[len(node.args) :]:
            if not isinstance(node.kwargs.get(name), (fx.Node, list, tuple)):
                break  # what comes after it cannot be positional either
            node.args = (*node.args, node.kwargs[name])
            node.kwargs = {key: value for key, value in node.kwargs.items() if key != name}


def _remove_inplace(graph: fx.Graph, modules: dict[Any, Any]) -> None:
    """Make operations copy: boundary tensors are kept while the next level runs, so nothing may write into them."""
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
    """Replace each affine layer that only a BatchNorm reads, and that BatchNorm, by one new layer.

    Except if another layer uses a tensor of either (the tie would be lost), or if a weight is computed (it cannot be
    written back).
    """
    calls = Counter(node.target for node in graph.nodes if node.op == "call_module")
    tied = repeated(holder for holder in modules.values() if isinstance(holder, nn.Module))
    tied |= {id(tensor) for tensor in modules.values() if isinstance(tensor, Tensor)}
    folds: dict[str, tuple] = {}
    for node in list(graph.nodes):
        before = node.args[0] if node.args else None
        if not (
            node.op == "call_module"
            and isinstance(modules[node.target], batchnorm.BATCHNORMS)
            and modules[node.target].running_mean is not None
            and isinstance(before, fx.Node)
            and before.op == "call_module"
            and isinstance(modules[before.target], AFFINE)
            and len(before.users) == 1
            and calls[before.target] == calls[node.target] == 1
        ):
            continue
        affine, norm = modules[before.target], modules[node.target]
        tensors = (*affine.parameters(), *norm.parameters(), *norm.buffers())
        if (
            _normalises_neurons(affine, norm, before)
            and not tied & set(map(id, tensors))
            and not computed_weights(affine)
            and not computed_weights(norm)
        ):
            del modules[node.target]
            layer = batchnorm.folded(affine, norm)
            folds[str(before.target)] = (layer, affine, norm)
            modules[before.target] = layer
            node.replace_all_uses_with(before)
            graph.erase_node(node)
    return folds


def _normalises_neurons(affine: nn.Module, norm: batchnorm.BatchNorm, node: fx.Node) -> bool:
    """Whether the BatchNorm normalises the axis of the layer's neurons; on (B, tokens, D) it normalises tokens."""
    shape = node.meta.get("value")
    if isinstance(affine, nn.Linear) and shape is not None and len(shape) != 2:
        return False
    return norm.num_features == len(affine.weight)  # type: ignore[arg-type]


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


def record_values(root: fx.GraphModule, graph: fx.Graph, example: Tensor, model: nn.Module) -> None:
    """Run an example through a graph; each node's meta then holds "value" (a tensor's shape, or anything else as it is),
    "is_tensor" and "holds_tensors".

    Raises:
        ValueError: the model does not run on the example, or returns something else than one tensor.
    """
    recorder = _Recorder(root)
    recorder.graph = graph  # GraphModule copies the graph; the values must land on ours
    try:
        output = recorder.run(example)
    except Exception as error:
        raise ValueError(
            f"{type(model).__name__} does not run on an input of shape {tuple(example.shape)}: "
            f"{first_line(error)}. Pass data of the shape that it was trained on."
        ) from error
    check_output(type(model).__name__, output)


def check_output(network: str, output: Any) -> None:
    """Refuse outputs that are not one tensor.

    Args:
        network: its name, for the start of the message.
    Raises:
        ValueError: says what was returned.
    """
    if not isinstance(output, Tensor):
        kind = type(output).__name__.removeprefix("immutable_")  # torch.fx's own lists and dicts
        raise ValueError(
            f"{network} returns {kind}, not one tensor. Say which of its tensors holds the logits: "
            "retrofit_core.giving_logits(model, NAME)."
        )
