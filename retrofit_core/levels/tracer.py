"""A torch.fx tracer that runs an example beside the trace: control flow may look at shapes, not at contents."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.proxy import Attribute, TraceError

#: What a tensor tells of itself without being looked at.
SHAPES = {
    "shape",
    "size",
    "dim",
    "ndim",
    "ndimension",
    "numel",
    "nelement",
    "stride",
    "device",
    "dtype",
    "layout",
    "requires_grad",
    "is_contiguous",
    "is_cuda",
    "is_floating_point",
    "is_complex",
    "is_sparse",
    "is_nested",
    "__len__",
}
#: Functions that make tensors of a given size, which torch.fx does not record by itself.
FACTORIES = ("zeros", "ones", "full", "empty", "arange", "linspace", "eye", "tensor", "rand", "randn", "randperm")


class _Known(fx.Proxy):
    """A value of the trace that knows what it is on the example, as far as that follows from shapes."""

    tracer: "Tracer"

    def __getattr__(self, k: str) -> "_Attribute":
        return _Attribute(self, k)

    def __len__(self) -> int:
        return len(self.tracer.known(self))

    def __index__(self) -> int:
        return self.tracer.known(self).__index__()

    def __int__(self) -> int:
        return int(self.tracer.known(self))

    def __float__(self) -> float:
        return float(self.tracer.known(self))

    def __contains__(self, item: Any) -> bool:
        return item in self.tracer.known(self)


class _Attribute(Attribute, _Known):  # type: ignore[misc]
    """An attribute of such a value, a node of its own once it is used other than called."""


class Tracer(fx.Tracer):
    """Follows a model on an example. Sizes stay in the graph as they are computed, so that other batches run through it too;
    only what branches and loops ask of them is taken from the example: such nodes have "asked" in their meta.

    Args:
        leaves: submodules that are taken whole.
        example: (B, ...) input; contents do not matter.
    """

    def __init__(self, leaves: Sequence[str], example: Tensor) -> None:
        super().__init__()
        self.leaves, self.example = set(leaves), example
        self.values: dict[fx.Node, Any] = {}
        self.opaque: set[fx.Node] = set()
        """Nodes that are no tensors, and follow from contents of tensors"""
        self.running = False
        """Whether the example runs through an operation, which is not to be traced"""
        self.stuck: str | None = None
        """The innermost module whose code could not be followed"""

    def known(self, proxy: fx.Proxy) -> Any:
        """What a value is on the example.

        Raises:
            TraceError: it is a tensor, or follows from a tensor's contents.
        """
        value = self.values[proxy.node]
        if isinstance(value, Tensor) or proxy.node in self.opaque:
            raise TraceError("its control flow depends on the contents of tensors")
        proxy.node.meta["asked"] = True
        return value

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """The value of a node."""
        return _Known(node, self)

    def to_bool(self, obj: fx.Proxy) -> bool:
        """What a branch asks."""
        return bool(self.known(obj))

    def iter(self, obj: fx.Proxy) -> Iterator[Any]:
        """What a loop asks: the entries of a tuple, or of a tensor along its first axis."""
        obj.node.meta["asked"] = True
        return (obj[index] for index in range(len(self.values[obj.node])))  # type: ignore[index]

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> tuple[Any, list[Any]]:
        """The inputs, see `inputs_of`."""
        names = inputs_of(self.root)
        return root_fn, [self.root, *(self.create_proxy("placeholder", name, (), {}) for name in names)]

    def create_node(self, kind: str, target: Any, args: Any, kwargs: Any, *more: Any, **named: Any) -> fx.Node:
        """Note an operation, and run it on the example."""
        node = super().create_node(kind, target, args, kwargs, *more, **named)
        if kind != "output":
            with self._run():
                self.values[node] = self._value(node)
            if not holds_tensors(self.values[node]) and self._looks_inside(node):
                self.opaque.add(node)
        return node

    def _value(self, node: fx.Node) -> Any:
        if node.op == "placeholder":
            return self.example.clone()  # operations in place may write into it
        args, kwargs = fx.map_arg((node.args, node.kwargs), self.values.__getitem__)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        if node.op == "call_function":
            return node.target(*args, **kwargs)  # type: ignore[operator]
        value: Any = self.root
        for name in str(node.target).split("."):
            value = getattr(value, name)
        return value if node.op == "get_attr" else value(*args, **kwargs)

    def _looks_inside(self, node: fx.Node) -> bool:
        """Whether a value that is no tensor follows from the contents of one."""
        if any(other in self.opaque for other in node.all_input_nodes):
            return True
        name = node.args[1] if node.target is getattr else node.target
        name = name if isinstance(name, str) else getattr(name, "__name__", "")
        return name not in SHAPES and any(holds_tensors(self.values[other]) for other in node.all_input_nodes)

    @contextmanager
    def _run(self) -> Iterator[None]:
        before, self.running = self.running, True
        try:
            yield
        finally:
            self.running = before

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """An attribute of a module: parameters become nodes, but not while the example runs."""
        return attr_val if self.running else super().getattr(attr, attr_val, parameter_proxy_cache)

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        """A call of a module; notes the first one that fails."""
        if self.running:
            return forward(*args, **kwargs)
        try:
            return super().call_module(m, forward, args, kwargs)
        except Exception:
            self.stuck = self.stuck or self.path_of_module(m)
            raise

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether a module is taken whole."""
        return module_qualified_name in self.leaves or super().is_leaf_module(m, module_qualified_name)


def holds_tensors(value: Any) -> bool:
    """Whether a value is a tensor, or a tuple or list with one inside."""
    return any(map(holds_tensors, value)) if isinstance(value, (tuple, list)) else isinstance(value, Tensor)


def inputs_of(model: nn.Module) -> list[str]:
    """The names of a model's inputs: those without a default, for others keep theirs; the first one if all have one."""
    inputs = list(signature(model.forward).parameters.values())
    needed = [p for p in inputs if p.default is Parameter.empty and p.kind is not Parameter.VAR_KEYWORD]
    several = [p.name for p in needed if p.kind is not Parameter.VAR_POSITIONAL]
    return several or [p.name for p in inputs[:1]]


def traced(model: nn.Module, leaves: list[str], example: Tensor, *, whole: bool) -> fx.Graph:
    """The graph of a model.

    Args:
        whole: modules inside of the model whose code cannot be followed are taken whole, and added to `leaves`.
    Raises:
        Exception: whatever the model's own code raises.
    """
    while True:
        tracer = Tracer(leaves, example)
        try:
            with torch.no_grad():
                return tracer.trace(model)
        except Exception:
            if not (whole and tracer.stuck and tracer.stuck not in leaves):
                raise
            leaves.append(tracer.stuck)
