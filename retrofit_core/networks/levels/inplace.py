"""Make in-place operations copy instead, because boundary tensors are kept while the network runs on."""

import copy
import inspect
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn import functional as F

from .tracer import INPLACE_OPERATORS, with_item


def remove_inplace(graph: fx.Graph, modules: dict[Any, Any]) -> bool:
    """Replace in-place operations by copying ones; returns whether there were any.

    Later readers of the written tensor read the copy, as the model's code would.
    """
    found = False
    writing = {name for name, module in modules.items() if getattr(module, "inplace", False)}
    for name in writing:
        modules[name] = copy.copy(modules[name])
        modules[name].inplace = False
    for node in list(graph.nodes):
        if _without_writing(node) or (node.op == "call_module" and node.target in writing):
            found = True
            written = node.args[0] if node.args else node.kwargs.get("input")
            if isinstance(written, fx.Node):
                _read_instead(graph, written, node)
    return found


def _without_writing(node: fx.Node) -> bool:
    """Make a function or method known to write into its first input copy; returns whether the node is one."""
    target: Any = node.target
    if node.op == "call_function" and target in INPLACE_OPERATORS:
        node.target = INPLACE_OPERATORS[target]
    elif node.op == "call_function" and _asked_in_place(node):
        node.kwargs = {**node.kwargs, "inplace": False}
    elif node.op == "call_function" and _copying_name(target.__name__):
        name = _copying_name(target.__name__)
        plain = getattr(F, name, None) or getattr(torch, name, None)
        if plain is None:
            return False
        node.target = plain
    elif node.op == "call_method" and callable(getattr(Tensor, _copying_name(target), None)):
        node.target = _copying_name(target)
    else:
        return node.op == "call_function" and target is with_item
    return True


def _copying_name(name: str) -> str:
    """The name of the copying variant, such as `relu` for `relu_`; empty if the name has no such form."""
    return name[:-1] if name.endswith("_") and not name.endswith("__") else ""


def _asked_in_place(node: fx.Node) -> bool:
    """Whether a function is called with inplace=True; drops a positional one, so that it can be set by keyword."""
    if node.kwargs.get("inplace"):
        return True
    try:
        names = list(inspect.signature(node.target).parameters)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # builtins
        return False
    place = names.index("inplace") if "inplace" in names else len(node.args)
    if not (place == len(node.args) - 1 and node.args[place]):
        return False
    node.args = node.args[:place]
    return True


def _read_instead(graph: fx.Graph, written: fx.Node, copied: fx.Node) -> None:
    """Make all nodes after `copied` read it instead of `written`."""
    order = {node: number for number, node in enumerate(graph.nodes)}
    written.replace_all_uses_with(copied, delete_user_cb=lambda user: order[user] > order[copied])


def copy_before(graph: fx.Graph, writing: dict[fx.Node, list[fx.Node]]) -> None:
    """Make nodes write into copies of the tensors they were seen to modify; see `Versions`."""
    for node, inputs in writing.items():
        for written in inputs:
            with graph.inserting_before(node):
                copied = graph.call_method("clone", (written,))
            copied.meta["nn_module_stack"] = node.meta.get("nn_module_stack", {})
            node.replace_input_with(written, copied)
            returned = node.kwargs.get("out") is copied or (node.op == "call_method" and str(node.target).endswith("_"))
            _read_instead(graph, written, node if returned else copied)


class Versions:
    """Detects by torch's version counters which of a node's inputs it modifies."""

    def __init__(self, node: fx.Node, values: dict[fx.Node, Any]) -> None:
        self.before = {
            other: (values[other], _version(values[other]))
            for other in node.all_input_nodes
            if isinstance(values.get(other), Tensor)
        }

    def written(self) -> list[fx.Node]:
        """Inputs modified since construction."""
        return [node for node, (value, version) in self.before.items() if _version(value) != version]


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version
