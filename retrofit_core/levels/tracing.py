"""torch.fx traces of a model: without in-place operations and foldable BatchNorms, shapes recorded."""

import copy
import operator
from collections.abc import Sequence
from typing import Any

from torch import Tensor, fx, nn

from .. import batchnorm
from .kinds import AFFINE

INPLACE_OPERATORS = {operator.iadd: operator.add, operator.isub: operator.sub, operator.imul: operator.mul}


class _Tracer(fx.Tracer):
    def __init__(self, leaves: Sequence[str]) -> None:
        super().__init__()
        self.leaves = set(leaves)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return module_qualified_name in self.leaves or super().is_leaf_module(m, module_qualified_name)


def trace(
    model: nn.Module, leaves: Sequence[str], *, fold: bool = True
) -> tuple[fx.Graph, dict[Any, Any], dict[str, tuple]]:
    """The traced graph without in-place operations and foldable BatchNorms, what its targets stand for, the folds.

    Args:
        fold: False keeps every BatchNorm where it is.
    """
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
    folds = _fold_batchnorms(graph, modules) if fold else {}
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


def record_values(root: fx.GraphModule, graph: fx.Graph, example: Tensor, model: nn.Module) -> None:
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
