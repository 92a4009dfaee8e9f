"""A torch.fx tracer that runs an example along: control flow may depend on shapes, not on contents.

It records one spelling of what PyTorch lets one write in several: nothing writes in place, because boundary tensors are kept
while the network runs on; sums have no factors; dropout, which does nothing in evaluation mode, is left out; tensors are passed
by position.
"""

import copy
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import reduce, wraps
from inspect import Parameter, signature
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, fx, nn
from torch.fx import _symbolic_trace
from torch.fx.node import Target
from torch.fx.proxy import Attribute, TraceError
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from ..copies import sharing_parameters
from ..hooks import Hook, remove_looking_hooks
from ..wrappers import Wrapper, class_name, entry_point
from .kinds import plain, words

#: Tensor attributes that are the same for all batches.
FACTS = words("ndim dtype device layout requires_grad is_cuda is_cpu is_sparse is_nested is_quantized is_meta")
#: Methods whose result depends on nothing but shape and type.
SHAPES = words("size dim ndimension numel nelement stride is_contiguous is_floating_point is_complex")
#: Leading tensor arguments of torch functions that are inspected, in order.
LEADING = {
    "scaleddotproductattention": ("query", "key", "value"),
    **dict.fromkeys(("cat", "concat", "stack"), ("tensors",)),
    **dict.fromkeys(("bmm", "mm"), ("input", "mat2")),
    **dict.fromkeys(("add", "sub", "rsub", "mul", "div", "matmul", "multiply", "subtract"), ("input", "other")),
    **dict.fromkeys(("permute", "transpose", "sum", "mean"), ("input",)),
    "addmm": ("input", "mat1", "mat2"),
    "addmv": ("input", "mat", "vec"),
    "baddbmm": ("input", "batch1", "batch2"),
    **dict.fromkeys(("addcmul", "addcdiv"), ("input", "tensor1", "tensor2")),
}
#: Sums of two tensors, the second times `alpha`.
SUMS = {"add": operator.add, "sub": operator.sub, "subtract": operator.sub, "rsub": operator.sub}
#: The product that a function adds, and the name of its factor; the first summand is multiplied by `beta`.
PRODUCTS: dict[str, tuple[Callable[..., Any], str]] = {
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), (torch.matmul, "alpha")),
    "addcmul": (operator.mul, "value"),
    "addcdiv": (operator.truediv, "value"),
}
#: Dropout functions: the argument that switches them on, its position, its default.
DROPPING: dict[str, tuple[str, int, bool]] = {
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d"), ("training", 2, True)),
    **dict.fromkeys(("alphadropout", "featurealphadropout", "featuredropout"), ("training", 2, False)),
    "stochasticdepth": ("training", 3, True),
}
DROPPING_ATTENTION = "a dropout_p of 0.0 unless self.training"
CONTENTS = "its control flow depends on the contents of tensors"
#: Composite torch modules, which are traced like a model's own.
TRANSFORMERS = (
    nn.Transformer,
    nn.TransformerEncoder,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoder,
    nn.TransformerDecoderLayer,
)
CONVOLUTIONS = (F.conv1d, F.conv2d, F.conv3d)
#: Makes a function that torch.fx records as one operation.
recorded = _symbolic_trace._create_wrapped_func


class Size(int):
    """A size, or a number computed from sizes: an int to the model's code, a computed node in the graph."""

    node: fx.Node
    tracer: "Tracer"

    def __fx_create_arg__(self, tracer: fx.Tracer) -> fx.Node:
        return self.node


def _computed(name: str) -> Any:
    """An arithmetic operation that is recorded in the graph if its result is an int."""
    of_ints, operation = getattr(int, f"__{name}__"), name[1:] if name in REFLECTED else name

    def compute(self: Size, *others: object) -> Any:
        result = of_ints(self, *others)
        if type(result) is not int:
            return result
        arguments = (*others, self) if name in REFLECTED else (self, *others)
        return self.tracer.create_proxy("call_function", getattr(operator, operation), arguments, {})

    return compute


REFLECTED = {"radd", "rsub", "rmul", "rfloordiv", "rmod"}
for _name in ("add", "sub", "mul", "floordiv", "mod", "neg", *REFLECTED):
    setattr(Size, f"__{_name}__", _computed(_name))


def with_item(tensor: Tensor, index: object, value: object) -> Tensor:
    """A copy of a tensor after `copy[index] = value`."""
    copy = tensor.clone()
    copy[index] = value  # type: ignore[index]
    return copy


class _Known(fx.Proxy):
    """A proxy that knows its tensor's shape."""

    tracer: "Tracer"
    part_of: "tuple[_Known, object] | None" = None
    """The tensor that this one is a part of, in the same memory, and which part"""

    def __getattr__(self, k: str) -> Any:
        value = self.tracer.values[self.node]
        if isinstance(value, Tensor) and plain(k) in FACTS:
            return getattr(value, k)
        return self.size() if isinstance(value, Tensor) and k == "shape" else _Attribute(self, k)

    def __int__(self) -> int:
        raise TraceError(CONTENTS)

    def __float__(self) -> float:
        raise TraceError(CONTENTS)

    def __setitem__(self, index: object, value: object) -> None:
        self.becomes(self.tracer.create_proxy("call_function", with_item, (self, index, value), {}))

    def becomes(self, copy: fx.Proxy) -> "_Known":
        """Let all names of a tensor that was written stand for a modified copy; so nothing is written in place."""
        setattr(self, "_node" if isinstance(self, Attribute) else "node", copy.node)
        self.tracer.wrote = True
        if self.part_of is not None:
            whole, index = self.part_of
            whole[index] = self
        return self

    def __len__(self) -> int:
        value = self.tracer.values[self.node]
        return self.size(0) if isinstance(value, Tensor) else len(value)


def _in_place(operation: Callable[..., Any]) -> Any:
    return lambda self, other: self.becomes(operation(self, other))


for _name in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow"):
    setattr(_Known, f"__i{_name}__", _in_place(getattr(operator, _name)))


class _Attribute(Attribute, _Known):  # type: ignore[misc]
    """An attribute of a proxy; it becomes a node when used other than by a call."""

    def __getattr__(self, k: str) -> Any:
        return _Known.__getattr__(self, k)


class Refused(ValueError):
    """The model does something that no way of tracing changes."""


class Tracer(fx.Tracer):
    """Trace a model on an example. Sizes stay computed in the graph, so that it runs on other batches too; branches and loops
    see the example's sizes.

    Args:
        leaves: submodules to trace as a whole.
        example: (B, ...) input; contents do not matter.
    """

    proxy_buffer_attributes = True

    def __init__(self, leaves: Sequence[str], example: Tensor) -> None:
        super().__init__()
        self.leaves, self.example = set(leaves), example
        self.values: dict[fx.Node, Any] = {}
        self.opaque: set[fx.Node] = set()
        """Nodes other than tensors that depend on contents of tensors"""
        self.batches: set[fx.Node] = set()
        """Numbers of samples, and what is computed from them"""
        self.sizes = False
        """Whether the model's code has read a size"""
        self.running = False
        """Whether the example is running through an operation, which must not be traced"""
        self.wrote = False
        """Whether the model's code writes into tensors"""
        self.stuck: str | None = None
        """The innermost module whose code could not be followed"""

    @property
    def wrapped(self) -> Iterator[nn.Module]:
        """The networks inside our wrappers, whose names are the wrappers'."""
        inside = self.root
        while isinstance(inside, Wrapper):
            inside = inside.wrapped
            yield inside

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: object = None,
        proxy_factory_fn: Callable[[fx.Node], fx.Proxy] | None = None,
    ) -> Any:
        """Record an operation in its one spelling; returns what the model's code sees."""
        word = str(target) if kind == "call_method" else getattr(target, "__name__", "")
        args, kwargs = self._by_position(kind, target, plain(word), args, kwargs)
        read = args[0] if args else kwargs.get("input")
        if self._drops(word, args, kwargs):
            return read
        proxy = _plain_sum(plain(word), args, kwargs)
        writes = proxy is not None and word.endswith("_")
        if proxy is None:
            writes = kind == "call_module" and getattr(self.root.get_submodule(str(target)), "inplace", False)
            versions = [] if writes else self._versions(args, kwargs)
            proxy = super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)
            self._write_into_copies(proxy, versions)
        if writes and isinstance(read, _Known):
            read.becomes(proxy)
        value = self.values.get(proxy.node)
        if target is operator.getitem and isinstance(read, _Known) and isinstance(value, Tensor) and value._is_view():
            proxy.part_of = (read, args[1]) if isinstance(self.values[read.node], Tensor) else None  # type: ignore
        if kind in ("placeholder", "get_attr") or holds_tensors(value) or not self._tells_shapes(proxy.node):
            return proxy
        if isinstance(value, torch.Size):
            return tuple(self.create_proxy("call_method", "size", (*args, axis), {}) for axis in range(len(value)))
        if type(value) is int:
            size = Size(value)
            size.node, size.tracer, self.sizes = proxy.node, self, True
            if self.batches.intersection(proxy.node.all_input_nodes) or (target, *args[1:]) == ("size", 0):
                self.batches.add(proxy.node)
            return size
        return value

    def _by_position(
        self, kind: str, target: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with tensors that are passed by keyword (`layer(input=x)`, `torch.add(x, other=y)`) as positional ones."""
        is_module = kind == "call_module" and kwargs
        names = signature(self.root.get_submodule(target).forward).parameters if is_module else LEADING.get(name, ())
        for key in list(names)[len(args) :]:
            if not isinstance(kwargs.get(key), (fx.Proxy, list, tuple)):
                break  # later ones cannot be positional either
            args, kwargs = (*args, kwargs[key]), {other: value for other, value in kwargs.items() if other != key}
        return args, kwargs

    def _drops(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a function is dropout, which does nothing.

        Raises:
            Refused: it, or an attention, drops in evaluation mode too.
        """
        flag, place, default = DROPPING.get(plain(name), ("", 0, False))

        def given(key: str, position: int, otherwise: object) -> Any:
            return args[position] if len(args) > position else kwargs.get(key, otherwise)

        if plain(name) == "scaleddotproductattention":
            active, cure = given("dropout_p", 4, 0.0), DROPPING_ATTENTION
        else:
            active, cure = flag and given(flag, place, given("train", place, default)), f"{flag}=self.training"
            active = active and given("p", 1, 0.5)
        if active:
            raise Refused(
                f"{class_name(self.root)} calls {name}(), which drops at random in evaluation mode too, so its outputs are not "
                f"those of one network. Pass {cure} to it."
            )
        return flag != ""

    def _versions(self, *arguments: Any) -> list[tuple[_Known, int]]:
        """The tensors among the arguments of an operation, and how often each was written."""
        read = [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, _Known)]
        values = [self.values.get(proxy.node) for proxy in read]
        return [(p, _version(value)) for p, value in zip(read, values, strict=True) if isinstance(value, Tensor)]

    def _write_into_copies(self, proxy: fx.Proxy, versions: Sequence[tuple[_Known, int]]) -> None:
        """Let an operation write into copies of the tensors that it was seen to modify."""
        for written, version in versions:
            read = written.node
            if _version(self.values[read]) != version:
                with self.graph.inserting_before(proxy.node):
                    copied = super().create_proxy("call_method", "clone", (written,), {})
                proxy.node.replace_input_with(read, copied.node)
                written.becomes(proxy if self.values[proxy.node] is self.values[read] else copied)

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """The proxy of a node."""
        return _Known(node, self)

    def to_bool(self, obj: fx.Proxy) -> bool:
        """The truth value for a branch, known for constants such as masks, which are the same for all inputs."""
        if self._is_constant(obj.node):
            return bool(self.values[obj.node])
        raise TraceError(CONTENTS)

    def _is_constant(self, node: fx.Node) -> bool:
        """Whether a value depends on buffers alone."""
        if node.op == "get_attr":
            return not isinstance(self.values[node], nn.Parameter)
        return node.op in ("call_function", "call_method") and all(map(self._is_constant, node.all_input_nodes))

    def iter(self, obj: fx.Proxy) -> Iterator[Any]:
        """The entries of a tuple, or of a tensor along its first axis, for a loop."""
        self.sizes = True
        return (obj[index] for index in range(len(self.values[obj.node])))  # type: ignore[index]

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Any, list[Any]]:
        """The inputs, see `inputs_of`."""
        inputs = [self.create_proxy("placeholder", name, (), {}) for name in inputs_of(self.root)]
        own = vars(self.root).get("forward")  # replaced on the network itself
        return (root_fn, [self.root, *inputs]) if own is None else (own, inputs)

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: object = None,
    ) -> fx.Node:
        """Record an operation and run it on the example."""
        node = super().create_node(kind, target, args, kwargs, name, type_expr)
        before, self.running = self.running, True
        try:
            self.values[node] = self._value(node)
        finally:
            self.running = before
        describe(node, self.values[node])
        return node

    def _value(self, node: fx.Node) -> Any:
        if node.op == "placeholder":
            return self.example.clone()  # in-place operations may write into it
        args, kwargs = fx.map_arg((node.args, node.kwargs), self.values.__getitem__)
        if node.op == "output":
            return args[0]
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        if node.op == "call_function":
            return node.target(*args, **kwargs)  # type: ignore[operator]
        value: Any = self.root
        for name in str(node.target).split("."):
            value = getattr(value, name)
        return value if node.op == "get_attr" else value(*args, **kwargs)

    def _tells_shapes(self, node: fx.Node) -> bool:
        """Whether a value other than a tensor depends on shapes alone; if not, marks it opaque."""
        inputs = node.all_input_nodes
        tells = plain(str(node.target)) in SHAPES or not any(
            n in self.opaque or holds_tensors(self.values[n]) for n in inputs
        )
        if not tells:
            self.opaque.add(node)
        return tells

    def getattr(self, attr: str, attr_val: object, parameter_proxy_cache: dict[str, Any]) -> Any:
        """An attribute of a module: parameters become nodes unless the example is running."""
        return attr_val if self.running else super().getattr(attr, attr_val, parameter_proxy_cache)

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a module; remembers the first one that fails."""
        if self.running:
            return forward(*args, **kwargs)
        if isinstance(m, TRANSFORMERS):  # their code checks whether masks are tensors, and causal

            def known(value: Any) -> Any:
                is_constant = isinstance(value, fx.Proxy) and self._is_constant(value.node)
                return self.values[value.node] if is_constant else value

            args, kwargs = fx.node.map_aggregate((args, kwargs), known)  # type: ignore[misc]
        if all(m is not module for module in self.root.modules()):
            if m in self.wrapped:
                return forward(*args, **kwargs)
            if any(True for _ in (*m.parameters(), *m.buffers())):
                raise Refused(
                    f"{class_name(self.root)} calls a {type(m).__name__} that is not one of its submodules, so its weights "
                    "cannot be found. Create it in __init__ as an attribute (self.layer = ...), and lists of modules as "
                    "nn.ModuleList."
                )
            return forward(*args, **kwargs)  # created for this call: trace into it
        try:
            start = len(self.graph.nodes)
            result = super().call_module(m, forward, args, kwargs)
            if self.is_leaf_module(m, self.path_of_module(m)):
                for number, hook in m._forward_hooks.items():  # its code may read what they keep
                    hook(m, args, *([kwargs] if number in m._forward_hooks_with_kwargs else []), result)
            if not (
                isinstance(m, nn.modules.conv._ConvNd) and self._computes_its_weight(list(self.graph.nodes)[start:])
            ):
                return result
            self._forget(start)
            return self.create_proxy("call_module", self.path_of_module(m), args, kwargs)
        except Exception:
            self.stuck = self.stuck or self.path_of_module(m)
            raise

    def _forget(self, start: int) -> None:
        """Erase the nodes from a number on."""
        for node in reversed(list(self.graph.nodes)[start:]):
            self.graph.erase_node(node)

    def followed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that torch.fx would record as one operation, because its author asked for that (`torch.fx.wrap`); recorded
        so only where its code cannot be followed."""

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            start = len(self.graph.nodes)
            if plain(function.__name__) not in DROPPING:
                try:
                    return function(*args, **kwargs)
                except Refused:
                    raise
                except Exception:  # whatever its code raises on what stands for tensors
                    self._forget(start)
            return recorded(function)(*args, **kwargs)

        return call

    def _computes_its_weight(self, nodes: Sequence[fx.Node]) -> bool:
        """Whether a convolution computes its weight from other tensors, as weight standardisation does."""
        called = [node for node in nodes if node.op == "call_function" and node.target in CONVOLUTIONS]
        return any(isinstance(node.args[1], fx.Node) and node.args[1].op != "get_attr" for node in called)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether to trace a module as a whole."""
        followed = isinstance(m, TRANSFORMERS) or "forward" in vars(m)
        return module_qualified_name in self.leaves or (
            not followed and super().is_leaf_module(m, module_qualified_name)
        )


class _Factories(TorchFunctionMode):
    """Within it, what makes tensors with one row per sample is recorded as operations, not as constants."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self.tracer = tracer

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        leaves = [] if self.tracer.running else tree_leaves((args, kwargs))
        counts = any(isinstance(leaf, Size) and leaf.node in self.tracer.batches for leaf in leaves)
        if counts and not any(isinstance(leaf, fx.Proxy) for leaf in leaves):
            return self.tracer.create_proxy("call_function", func, args, kwargs)
        return func(*args, **kwargs)


def _plain_sum(name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """A sum with factors (`torch.add(h, o, alpha=0.3)`, `addmm`), or of a stack, as plain sums of plain products; None for
    other operations. Readers of a graph then handle one form of sum and cannot miss a factor."""
    if name in SUMS and (name == "rsub" or "alpha" in kwargs or len(args) > 2):
        first, *factor, second = args  # deprecated: torch.add(h, 0.3, o)
        first, second = (second, first) if name == "rsub" else (first, second)
        return SUMS[name](first, _times(second, kwargs.get("alpha", *factor or [1])))
    if name in PRODUCTS:
        product, factor = PRODUCTS[name]
        first, left, right = args
        term = _times(product(left, right), kwargs.get(factor, 1))
        return _times(first, kwargs.get("beta", 1)) + term
    stack: Any = args[0].node if name in ("sum", "mean") and args and isinstance(args[0], fx.Proxy) else None
    if stack is None or plain(getattr(stack.target, "__name__", "")) != "stack" or len(args) + len(kwargs) != 2:
        return None
    terms, *along = (*stack.args, *stack.kwargs.values())
    axes = [
        axis[0] if isinstance(axis, (list, tuple)) and len(axis) == 1 else axis
        for axis in (*(along or [0]), *args[1:], *kwargs.values())
    ]
    if len(axes) != 2 or axes[0] != axes[1] or len(terms) < 2 or not all(isinstance(term, fx.Node) for term in terms):
        return None
    total: Any = reduce(operator.add, [args[0].tracer.proxy(term) for term in terms])
    return total / len(terms) if name == "mean" else total


def _times(value: Any, factor: Any) -> Any:
    return value if isinstance(factor, (int, float)) and factor == 1 else value * factor


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def describe(node: fx.Node, value: object) -> None:
    """Set a node's meta: "value" (a tensor's shape, or any other value itself), "is_tensor" and "holds_tensors"."""
    node.meta["value"] = value.shape if isinstance(value, Tensor) else value
    node.meta["is_tensor"], node.meta["holds_tensors"] = isinstance(value, Tensor), holds_tensors(value)


def holds_tensors(value: object) -> bool:
    """Whether a value is a tensor, or a tuple or list with one inside."""
    return any(map(holds_tensors, value)) if isinstance(value, (tuple, list)) else isinstance(value, Tensor)


def inputs_of(model: nn.Module) -> list[str]:
    """The names of a model's inputs without a default; the first input if all have one."""
    inputs = list(signature(entry_point(model)).parameters.values())
    needed = [p for p in inputs if p.default is Parameter.empty and p.kind is not Parameter.VAR_KEYWORD]
    several = [p.name for p in needed if p.kind is not Parameter.VAR_POSITIONAL]
    return several or [p.name for p in inputs[:1]]


def traced(model: nn.Module, leaves: list[str], example: Tensor, hooks: list[Hook], *, whole: bool) -> Tracer:
    """A tracer that holds the graph of a model, with `describe`d nodes that hold what they call.

    Works on copies that share the model's parameters: code that assigns attributes or buffers assigns what stands for tensors
    in the graph.

    Args:
        example: (B, ...) input.
        hooks: of the model; those that only look are not called, because there is nothing to see.
        whole: whether to add submodules that cannot be followed to `leaves`.
    Raises:
        Exception: whatever the model's own code raises.
    """
    while True:
        tracer, followed = Tracer(leaves, example), sharing_parameters(model)
        remove_looking_hooks(followed, hooks)
        followed.train().eval()  # clears tensors that a network caches in eval mode, such as attention biases
        try:
            followed_too = patch.object(_symbolic_trace, "_create_wrapped_func", tracer.followed)
            with torch.no_grad(), _Factories(tracer), followed_too:
                graph = tracer.trace(followed)
            _hold(graph, model, followed)
            return tracer
        except Exception as error:
            if isinstance(error, Refused) or not (whole and tracer.stuck and tracer.stuck not in leaves):
                raise
            leaves.append(tracer.stuck)
        finally:
            tracer.values.clear()  # free the activations, which sizes would keep alive
            model.train().eval()


def _hold(graph: fx.Graph, model: nn.Module, followed: nn.Module) -> None:
    """Let nodes hold the modules and tensors that they name; constants, which the model has not, are those of `followed`."""
    known: dict[str, Any] = {}
    for node in graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        name = str(node.target)
        if name not in known:
            read = operator.attrgetter(name)
            try:
                known[name] = read(model)
            except AttributeError:
                known[name] = read(followed)
            if getattr(known[name], "inplace", False):
                known[name] = copy.copy(known[name])
                known[name].inplace = False
        node.meta["held"] = known[name]
