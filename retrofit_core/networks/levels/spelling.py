"""Rewrite sums with factors (`torch.add(h, o, alpha=0.3)`, `addmm`) and sums of a stack as plain sums of plain products.

Readers of a graph then handle one form of sum and cannot miss a factor.
"""

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import fx
from torch.fx.node import Argument

from .kinds import operation

SUMS = {"add": operator.add, "sub": operator.sub, "subtract": operator.sub, "rsub": operator.sub}
#: The product that a function adds, and the names of its factors: of the first summand, and of the product.
PRODUCTS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "addmm": (torch.matmul, ("beta", "alpha")),
    "addmv": (torch.matmul, ("beta", "alpha")),
    "baddbmm": (torch.matmul, ("beta", "alpha")),
    "addcmul": (operator.mul, ("value",)),
    "addcdiv": (operator.truediv, ("value",)),
}
STACKED = ("sum", "mean")
#: Names of tensor arguments, in order.
NAMES = ("input", "other", "mat1", "batch1", "mat", "tensor1", "mat2", "batch2", "vec", "tensor2")


def spell_sums(graph: fx.Graph) -> None:
    """Rewrite them in a graph without in-place operations."""
    for node in list(graph.nodes):
        name = operation(node)
        if name in SUMS and (name == "rsub" or "alpha" in node.kwargs or len(node.args) > 2):
            args = [*node.args, *(node.kwargs[key] for key in NAMES if key in node.kwargs)]
            alpha = args.pop(1) if len(args) > 2 else node.kwargs.get("alpha", 1)  # deprecated torch.add(h, 0.3, o)
            first, second = reversed(args) if name == "rsub" else args
            with graph.inserting_before(node):
                _become(node, SUMS[name], first, _times(graph, node, second, alpha))
        elif name in PRODUCTS:
            product, factors = PRODUCTS[name]
            args = [*node.args, *(node.kwargs[key] for key in NAMES if key in node.kwargs)]
            numbers = [arg for arg in args if not isinstance(arg, fx.Node)]  # deprecated torch.addmm(0.5, h, 0.3, a, b)
            given = {**dict(zip(factors, numbers, strict=False)), **node.kwargs}
            first, left, right = (arg for arg in args if isinstance(arg, fx.Node))
            with graph.inserting_before(node):
                term = _new_node(graph, node, product, left, right)
                term = _times(graph, node, term, given.get(factors[-1], 1))
                _become(node, operator.add, _times(graph, node, first, given.get("beta", 1)), term)
        elif name in STACKED and (terms := _stacked(node)):
            stack = node.all_input_nodes[0]
            with graph.inserting_before(node):
                total = reduce(lambda left, right: _new_node(graph, node, operator.add, left, right), terms)
                total = _new_node(graph, node, operator.truediv, total, len(terms)) if name == "mean" else total
            node.replace_all_uses_with(total)
            for unused in (node, *(() if stack.users.keys() - {node} else (stack,))):
                graph.erase_node(unused)


def _stacked(node: fx.Node) -> Sequence[Any]:
    """The stacked tensors that a node sums; empty for any other sum."""
    stack, *rest = (*node.args, *(node.kwargs[key] for key in ("input", "dim") if key in node.kwargs))
    if not isinstance(stack, fx.Node) or operation(stack) != "stack" or len(node.args) + len(node.kwargs) != 2:
        return ()
    terms, *along = (*stack.args, *stack.kwargs.values())
    if not isinstance(terms, (list, tuple)) or len(terms) < 2 or not all(isinstance(term, fx.Node) for term in terms):
        return ()
    axes = [
        axis[0] if isinstance(axis, (list, tuple)) and len(axis) == 1 else axis for axis in (*(along or [0]), *rest)
    ]
    return terms if len(axes) == 2 and axes[0] == axes[1] else ()


def _times(graph: fx.Graph, node: fx.Node, value: float | fx.Node, factor: float) -> Any:
    if isinstance(factor, (int, float)) and factor == 1:
        return value
    return _new_node(graph, node, operator.mul, value, factor) if isinstance(value, fx.Node) else value * factor


def _new_node(graph: fx.Graph, node: fx.Node, function: Callable[..., Any], *args: Argument) -> fx.Node:
    """A new node with another's metadata."""
    new = graph.call_function(function, args)
    new.meta = dict(node.meta)
    return new


def _become(node: fx.Node, function: Callable[..., Any], *args: Argument) -> None:
    node.op, node.target, node.args, node.kwargs = "call_function", function, args, {}
