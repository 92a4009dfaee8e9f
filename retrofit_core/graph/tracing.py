"""Record a network's operations: `trace(model, example)` returns its `Graph`.

The network runs with two and with three samples, and every ATen operation is recorded above autograd (at torch's key PreDispatch,
where export and make_fx record too): linear, conv2d, batch_norm, layer_norm, embedding and scaled_dot_product_attention are
whole; modules, functions, methods, operators, names and in-place spellings are gone. Numbers that differ between both runs
are multiples of the number of samples.
"""

import operator
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ..networks.inputs import Inputs, arguments, leaves_of
from ..networks.outputs import Several, logits_in
from .graph import Graph, Values, load, weights_of, words

aten = torch.ops.aten
#: A recorded operation: function, arguments, keywords, output, and the name of the module that called it.
Call = tuple[Any, Sequence[Any], Mapping[str, Any], Any, str]

#: Operations that give their first input, in evaluation mode.
NOTHING = {
    *("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "detach", "alias", "lift_fresh"),
    *("lift_fresh_copy", "clone", "contiguous"),
}
#: Operations that give a number to the code.
READS = {"aten::is_nonzero", "aten::item", "aten::_local_scalar_dense", "aten::equal"}
FACTORIES = {
    getattr(torch, name) for name in words("arange zeros ones full empty eye zeros_like ones_like full_like empty_like")
}
RANDOM = {getattr(torch, name) for name in words("rand randn randint randperm rand_like randn_like randint_like")}
#: Advice for code that cannot be recorded.
INSTEAD = "Write that part with torch operations alone, or fuse networks without it."


def trace(model: nn.Module, inputs: Inputs, *, logits: Sequence[str | int] = (), fallback: bool = False) -> Graph:
    """Record a network in evaluation mode.

    Args:
        inputs: at least three samples of what it is called with.
        logits: names or places of the outputs that hold logits, where it returns several; default: the only tensor, or that
            of this name.
        fallback: record by `make_fx`, which is slower, and independent of the recorder's private parts of torch.
    Raises:
        ValueError: its code depends on the data or on the number of samples, it draws random numbers, or it reads
            statistics of the batch.
    """
    leaves, structure = pytree.tree_flatten(arguments(inputs))
    record = _recorded_by_make_fx if fallback else _recorded
    runs, more = (
        [],
        pytree.tree_map_only(Tensor, lambda leaf: leaf[:3].clone(), leaves),
    )  # a network may write into its own
    for samples in (2, 3):
        given = [leaf[:samples].clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(given, structure)
        calls, output = record(model, args, kwargs)
        runs.append((given, calls, logits_of(output, logits)))
    (given, calls, outputs), (_, others, expected) = runs
    if [call[0] for call in calls] != [call[0] for call in others]:
        raise ValueError(f"it does other things for other numbers of samples, so it has no one graph. {INSTEAD}")
    assembly = _Assembly(model, given)
    graph = assembly.graph(calls, others, outputs)
    for number in assembly.reads:  # would it do something else? A warning does not matter
        flipped = []
        if not fallback:
            with suppress(Exception):  # such as an assertion of the code
                flipped = _recorded(model, *pytree.tree_unflatten(given, structure), flip=number)[0]
        same = assembly.read_by(flipped) == assembly.read_by(calls)
        if same and [*map(_plain, flipped)] == [*map(_plain, calls)]:
            continue
        graph.branches = True
        if not same:
            raise ValueError(
                f"its code branches on the data, or reads a number from them{_at(calls[number])}, so other samples would run "
                f"other operations. {INSTEAD}"
            )
    with torch.no_grad():
        made = graph(weights_of(model), *leaves_of(more))
    alike = all(_alike(one, other) for one, other in zip(made, expected, strict=True))
    if not alike:
        args, kwargs = pytree.tree_unflatten(more, structure)
        again = logits_of(record(model, args, kwargs)[1], logits)
        if not all(_alike(one, other) for one, other in zip(again, expected, strict=True)):
            raise ValueError(
                "its outputs differ from call to call: it draws random numbers in evaluation mode too, as F.dropout and "
                "attention do without training=self.training, and modules that are created as it runs. Create them in __init__."
            )
    if not (alike and graph.of_data.issuperset(graph.outputs)):
        raise ValueError(f"its recorded operations do not compute what it computes for another batch. {INSTEAD}")
    return graph


def trace_all(model: nn.Module, inputs: Inputs) -> Graph:
    """`trace` on the first samples; where the code branches on the data, as on padding, the branch that is right for all samples.

    Raises:
        ValueError: see `trace`; or there is no such branch.
    """
    leaves, structure = pytree.tree_flatten(arguments(inputs))
    count = max(map(len, leaves_of(inputs)))

    def some(rows: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return pytree.tree_unflatten([leaf[rows] if isinstance(leaf, Tensor) else leaf for leaf in leaves], structure)

    rows = torch.arange(3) % count
    for _ in range(4):
        args, kwargs = some(rows)
        graph = trace(model, kwargs or args)
        wrong = None
        for batch in torch.arange(count).split(100) if graph.branches else ():
            args, kwargs = some(batch)
            with _evaluating(model), torch.no_grad():
                expected = logits_of(model(*args, **kwargs))
                made = graph(
                    weights_of(model),
                    *leaves_of((args, kwargs)),
                )
            if not all(_alike(one, other) for one, other in zip(made, expected, strict=True)):
                off = (made[0] - expected[0]).flatten(1).abs().amax(1)
                wrong = batch[off.argsort(descending=True)[:3]]
                break
        if wrong is None:
            return graph
        rows = wrong if len(wrong) == 3 else wrong.repeat(3)[:3]
    raise ValueError(f"its code branches on the data, and no one branch is right for all samples. {INSTEAD}")


def check_copy(model: nn.Module, graph: Graph, inputs: Inputs) -> None:
    """Check that a network of other weights computes what the graph says: its weights are none but its own.

    Args:
        model: a copy of the traced network, whose weights are changed and put back.
    Raises:
        ValueError: a patched or stored forward runs the weights of another network.
    """
    kept = {name: tensor.clone() for name, tensor in weights_of(model).items()}
    generator = torch.Generator().manual_seed(0)
    changed = {
        name: tensor
        * (1 + 0.1 * torch.rand([*tensor.shape[:1], *[1] * (tensor.ndim - 1)], generator=generator)).to(tensor)
        if name in graph.trained
        else tensor
        for name, tensor in kept.items()
    }
    args, kwargs = arguments(pytree.tree_map_only(Tensor, lambda tensor: tensor[:2].clone(), inputs))
    try:
        with _evaluating(load(model, changed)), torch.no_grad():
            made = graph(changed, *leaves_of((args, kwargs)))
            expected = logits_of(model(*args, **kwargs))  # last: it may write into them
    finally:
        load(model, kept)
    if not all(_alike(one, other) for one, other in zip(made, expected, strict=True)):
        raise ValueError(
            "a copy of it with other weights does not compute what these weights say: its forward was replaced, or holds "
            "another network, and runs that one's weights, or it shortens an Embedding's rows as it runs (max_norm). Make it a "
            "method of the network's class, and set max_norm=None."
        )


def logits_of(output: Any, which: Sequence[str | int] = ()) -> list[Tensor]:
    """The tensors of an output that hold logits; see `trace`."""
    if isinstance(output, Several):
        return [*output]
    return [logits_in(output, "it", each) for each in which or [None]]


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True)


def _at(call: Call) -> str:
    return f" (in {call[4]!r})" if call[4] else ""


# --- recording --------------------------------------------------------------------------------------------------------------


class _Recorder(SchemaCheckMode):  # torch allows three classes of modes at this key, of which this one does least
    """Records operations.

    Args:
        flip: the number of an operation whose answer, yes or no or a number, is to be another one.
    """

    def __init__(self, flip: int | None = None) -> None:
        TorchDispatchMode.__init__(self, torch._C.DispatchKey.PreDispatch)
        self.calls: list[Call] = []
        self.flip = flip
        self.modules: list[str] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first operation imports torch's compiler: 3 seconds and 140 MB

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C._DisablePythonDispatcher():  # whose decompositions are slower, and import sympy
            output = func(*args, **(kwargs or {}))
        if len(self.calls) == self.flip:
            output = not output if isinstance(output, bool) else output + 1
        self.add(func, args, kwargs or {}, output)
        return output

    def add(self, func: Any, args: Any, kwargs: Any, output: Any) -> None:
        self.calls.append((func, args, kwargs, output, self.modules[-1] if self.modules else ""))


class _Factories(TorchFunctionMode):
    """Notes new tensors, which the recorder does not see: `torch.arange(len(x))`."""

    def __init__(self, recorder: _Recorder) -> None:
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if func in RANDOM:
            raise ValueError(f"it draws random numbers by {func.__name__}. Switch that off in evaluation mode.")
        if func in FACTORIES:
            self.recorder.add(func, args, kwargs or {}, output)
        return output


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, and torch's transformer layers operation by operation."""
    flags, fast = [(module, module.training) for module in model.modules()], torch.backends.mha.get_fastpath_enabled()
    model.eval()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for module, flag in flags:
            module.training = flag


@contextmanager
def _naming(model: nn.Module, modules: list[str]) -> Iterator[None]:
    """Keep the name of the module that runs on a list, for people."""
    hooks = []
    for name, module in model.named_modules():
        if name and not isinstance(module, torch.jit.ScriptModule):
            hooks.append(module.register_forward_pre_hook(lambda *_, name=name: modules.append(name)))
            hooks.append(module.register_forward_hook(lambda *_: modules.pop() and None, always_call=True))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _plain(call: Call) -> list[str]:
    """What an operation does, apart from its tensors."""
    numbers = [leaf for leaf in pytree.tree_leaves((call[1], call[2])) if not isinstance(leaf, Tensor)]
    return [str(call[0]), *map(str, numbers)]


def _recorded(model: nn.Module, args: Any, kwargs: Any, *, flip: int | None = None) -> tuple[list[Call], Any]:
    """All operations of one run in evaluation mode, and what it returns."""
    recorder = _Recorder(flip)
    named = _naming(model, recorder.modules)
    with _evaluating(model), named, torch.no_grad(), enable_python_dispatcher(), recorder, _Factories(recorder):
        output = model(*args, **kwargs)
    return recorder.calls, output


def _recorded_by_make_fx(model: nn.Module, args: Any, kwargs: Any) -> tuple[list[Call], Any]:
    """The same by make_fx: its graph is interpreted with the network's own tensors."""
    from torch.fx.experimental.proxy_tensor import make_fx

    names = [name for name, _ in [*model.named_parameters(), *model.named_buffers()]]
    tensors = [tensor for _, tensor in [*model.named_parameters(), *model.named_buffers()]]
    leaves, structure = pytree.tree_flatten((args, kwargs))
    given = leaves_of((args, kwargs))
    form: list[Any] = []

    def function(tensors: list[Tensor], given: list[Tensor]) -> list[Any]:
        waiting = iter(given)
        args, kwargs = pytree.tree_unflatten(
            [next(waiting) if isinstance(leaf, Tensor) else leaf for leaf in leaves], structure
        )
        output = torch.func.functional_call(model, dict(zip(names, tensors, strict=True)), args, kwargs)
        flat, spec = pytree.tree_flatten(output)
        form[:] = [spec]
        return flat

    with _evaluating(model), torch.no_grad():
        module = make_fx(function, pre_dispatch=True)(tensors, given)
        calls: list[Call] = []

        class Calling(fx.Interpreter):
            def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
                output = super().call_function(target, args, kwargs)
                if target is not operator.getitem:
                    calls.append((target, args, kwargs, output, ""))
                return output

        flat = Calling(module).run(*tensors, *given)
    return calls, pytree.tree_unflatten(list(flat), form[0])


# --- from recorded operations to a graph ------------------------------------------------------------------------------------


class _Assembly:
    """Makes a graph of recorded operations; writing in place becomes new tensors.

    Args:
        leaves: the inputs of the first run.
    """

    def __init__(self, model: nn.Module, leaves: Sequence[Any]) -> None:
        self.fx, self.node = fx.Graph(), dict[int, fx.Node]()
        self.alive: dict[
            int, tuple[Tensor, Tensor]
        ] = {}  # tensors of both runs; an id belongs to one only as long as it lives
        self.constants: Values = {}
        self.reads: list[int] = []  # numbers of calls that tell the code something about the data
        tensors = dict[str, Tensor]([*model.named_parameters(), *model.named_buffers()])
        self.trained = {name for name, _ in model.named_parameters()}
        self.weights = {
            name: self._place(tensors[name], self.fx.placeholder(f"w{k}")) for k, name in enumerate(weights_of(model))
        }
        self.own = set(self.weights.values())
        self.inputs = [
            self._place(leaf, self.fx.placeholder(f"x{k}")) for k, leaf in enumerate(leaves) if isinstance(leaf, Tensor)
        ]

    def graph(self, calls: Sequence[Call], others: Sequence[Call], outputs: Sequence[Tensor]) -> Graph:
        """The graph of both runs' operations."""
        of_calls: list[tuple[int, fx.Node]] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # constants are no attributes of a module
            for number, (call, (_, *other)) in enumerate(zip(calls, others, strict=True)):
                before = next(reversed(self.fx.nodes))
                self._add(call, *other[:3])
                for node in self._after(before):
                    node.meta["module"] = call[4]
                    of_calls += [(number, node)]
        last = [self._read(output, output) for output in outputs]
        whole = Graph(list(self.fx.nodes), self.weights, self.trained, self.inputs, last, self.constants)
        sizes = {node for node in whole.nodes if node.target is of_samples}  # no data
        known = set[fx.Node]()
        for node in whole.nodes:
            if node in sizes or (node not in self.inputs and known.issuperset(node.all_input_nodes)):
                known.add(node)
        schemas = {node: getattr(getattr(node.target, "_schema", None), "name", "") for node in whole.nodes}
        self.reads = [number for number, node in of_calls if node not in known and schemas[node] in READS]
        nodes = whole.between([], last)
        self._refuse(nodes, known)
        used = set(nodes)
        weights = {name: node for name, node in self.weights.items() if node in used}
        return Graph(nodes, weights, self.trained, self.inputs, last, self.constants, owner=self.fx)

    def read_by(self, calls: Sequence[Call]) -> set[int]:
        """Which of the network's own tensors some operations read."""
        own = {key for key, node in self.node.items() if node in self.own}
        return own & {id(leaf) for call in calls for leaf in pytree.tree_leaves((call[1], call[2]))}

    def _refuse(self, nodes: Sequence[fx.Node], known: set[fx.Node]) -> None:
        """Refuse random operations, statistics of the batch, and weights of other networks; `known` nodes read no data."""
        for node in nodes:
            tags, where = getattr(node.target, "tags", ()), node.meta.get("module", "")
            where = f" (in {where!r})" if where else ""
            name = str(node.target).removeprefix("aten.").partition(".")[0]
            if torch.Tag.nondeterministic_seeded in tags and not name.startswith(
                (
                    "scaled_dot_product",
                    "rrelu",
                    "multi_head",
                    "gru",
                    "lstm",
                    "rnn",
                )  # without dropout in evaluation mode
            ):
                raise ValueError(f"it draws random numbers by {name}{where}. Switch that off in evaluation mode.")
            if name == "batch_norm" and node.args[5] and node not in known:  # of weights it standardises them
                raise ValueError(
                    f"a BatchNorm{where} uses statistics of the batch in evaluation mode. Let it track running statistics."
                )
            if isinstance(self.constants.get(node), nn.Parameter):
                raise ValueError(
                    "it reads a parameter that is none of its own (of another network, or in a list), so a copy would share it. "
                    "Make it an attribute of the network."
                )

    def _after(self, before: fx.Node) -> Iterator[fx.Node]:
        node = before.next
        while node.op != "root":
            yield node
            node = node.next

    def _place(self, value: Any, node: fx.Node, other: Any = None) -> fx.Node:
        """Note the node of a tensor, or of each tensor of several; `other` is the value in the second run."""
        if isinstance(value, Tensor):
            other = value if other is None else other
            self.node[id(value)], self.alive[id(value)] = node, (value, other)
            _describe(node, value, other)
        elif isinstance(value, (tuple, list)):
            for place, part in enumerate(value):
                if isinstance(part, (Tensor, tuple, list)):
                    self._place(part, self.fx.call_function(operator.getitem, (node, place)), other[place])
        return node

    def _read(self, value: Any, other: Any) -> Any:
        """An argument: nodes in place of tensors, and of numbers that depend on the number of samples."""
        if isinstance(value, Tensor):
            if id(value) not in self.node:  # made by other means than torch's operations
                if value.shape != other.shape:
                    raise ValueError(
                        "a tensor that is made outside of torch's operations depends on the number of samples. Use torch."
                    )
                node = self._place(value, self.fx.get_attr(f"c{len(self.constants)}"))
                self.constants[node] = value
            return self.node[id(value)]
        if isinstance(value, (tuple, list)):
            return type(value)(map(self._read, value, other))
        if isinstance(value, (bool, float)) and value != other and value == value:
            raise ValueError(f"a number is read from the data. {INSTEAD}")
        if isinstance(value, int) and value != other:
            return self.fx.call_function(of_samples, (self.inputs[0], other - value, 3 * value - 2 * other))
        return value

    def _add(self, call: Call, other_args: Any, other_kwargs: Any, other: Any) -> None:
        func, args, kwargs, value, _ = call
        schema = getattr(func, "_schema", None)
        if schema is None:  # a factory
            read = [self._read(*pair) for pair in zip(args, other_args, strict=True)]
            named = {key: self._read(part, other_kwargs[key]) for key, part in kwargs.items()}
            self._place(value, self.fx.call_function(func, tuple(read), named), other)
            return
        name = schema.name.removeprefix("aten::")
        args, other_args, kwargs = list(args), list(other_args), dict(kwargs)
        by_place = {argument.name for argument in schema.arguments if not argument.kwarg_only}
        for argument in schema.arguments[len(args) :]:
            if argument.kwarg_only or not kwargs.keys() & by_place:
                break
            args.append(kwargs.pop(argument.name, argument.default_value))
            other_args.append(other_kwargs.get(argument.name, argument.default_value))
        read = [self._read(*pair) for pair in zip(args, other_args, strict=True)]
        if name in NOTHING:
            self._place(value, read[0], other)
            return
        named = {key: self._read(part, other_kwargs[key]) for key, part in kwargs.items()}
        if name == "copy_":
            self._write(args[0], self.fx.call_function(copied, tuple(read[:2])))
        elif schema.is_mutable:
            name = name.rstrip("_")
            self._write(args[0], self._in_plain_words(getattr(aten, name), name, read, named))
        else:
            self._place(value, self._in_plain_words(func, name, read, named), other)

    def _in_plain_words(self, func: Any, name: str, read: list[Any], named: dict[str, Any]) -> fx.Node:
        """The node of an operation; sums of stacks, of multiples and with zero become plain sums, in which layers are found."""
        if name == "addmm" and (named or read[0] not in self.weights.values()):  # the bias is no parameter
            shape = (read[1].meta["shape"][0], read[2].meta["shape"][1])
            product = self._node(aten.mm.default, (read[1], read[2]), shape)
            factors = named.get("alpha", 1), named.get("beta", 1)
            terms = [self._times(node, factor) for node, factor in zip((product, read[0]), factors, strict=True)]
            return self.fx.call_function(aten.add.Tensor, tuple(terms))
        if name == "add" and len(read) == 2:
            read[1] = self._times(read[1], named.pop("alpha", 1))
            if read[1] == 0 and read[0].meta.get("float"):
                return read[0]
        if name in ("sum", "mean") and len(read) == 2 + bool(read[2:] == [False]) and not named:
            stack = read[0]
            if str(stack.target) == "aten.stack.default" and read[1] == [stack.args[1] if len(stack.args) > 1 else 0]:
                total, *others = stack.args[0]
                for other in others:
                    total = self._node(aten.add.Tensor, (total, other), total.meta["shape"])
                return (
                    total
                    if name == "sum"
                    else self._node(aten.div.Tensor, (total, len(others) + 1), total.meta["shape"])
                )
        target = aten.reshape.default if name in ("view", "_unsafe_view") else func
        return self.fx.call_function(target, tuple(read), named)

    def _node(self, target: Any, args: tuple[Any, ...], shape: Sequence[int]) -> fx.Node:
        node = self.fx.call_function(target, args)
        node.meta |= {"shape": torch.Size(shape), "float": True}
        return node

    def _times(self, value: Any, factor: Any) -> Any:
        if factor == 1:
            return value
        return (
            self._node(aten.mul.Tensor, (value, factor), value.meta["shape"])
            if isinstance(value, fx.Node)
            else factor * value
        )

    def _write(self, tensor: Tensor, new: fx.Node) -> None:
        """A tensor has new entries: so have all that share its memory."""
        base = tensor if tensor._base is None else tensor._base
        new_base = new
        _describe(new, *self.alive[id(tensor)])
        if id(base) not in self.node:  # of an operation that returns a view of what it made, as linear does for tokens
            whole, other = next(pair for pair in self.alive.values() if pair[0]._base is base)
            assert other._base is not None  # as of its twin
            shape = self._read(list(base.shape), list(other._base.shape))
            node = self.fx.call_function(aten.reshape.default, (self.node[id(whole)], shape))
            self._place(base, node, other._base)
        if base is not tensor:
            new_base = self.fx.call_function(as_strided_scatter, (self.node[id(base)], new, *self._form(tensor)))
        for view, _ in [*self.alive.values()]:
            if view._base is base:
                self.node[id(view)] = self.fx.call_function(aten.as_strided, (new_base, *self._form(view)))
                _describe(self.node[id(view)], *self.alive[id(view)])
        self.node[id(base)], self.node[id(tensor)] = new_base, new

    def _form(self, view: Tensor) -> list[Any]:
        """Size, stride and offset in the memory of its base."""
        one, other = ((list(t.size()), list(t.stride()), t.storage_offset()) for t in self.alive[id(view)])
        return [self._read(*pair) for pair in zip(one, other, strict=True)]


def _describe(node: fx.Node, value: Tensor, other: Tensor) -> None:
    """Note a value's form, and its axis of samples, of which there are 2 and 3."""
    sizes = list(zip(value.shape, other.shape, strict=True))
    by = [axis for axis, pair in enumerate(sizes) if pair == (2, 3)]
    along = [axis for axis, (one, two) in enumerate(sizes) if 2 * two == 3 * one > 0]
    node.meta["samples"] = by[0] if len(by) == 1 else None
    node.meta["along"] = along[0] if len(along) == 1 else None  # of samples, perhaps with others
    node.meta["shape"], node.meta["float"] = value.shape, value.is_floating_point()


def copied(x: Tensor, source: Tensor) -> Tensor:
    """`source` in the form of x; torch's own has no gradient."""
    return source.to(x.dtype).expand_as(x)


def as_strided_scatter(x: Tensor, source: Tensor, size: Sequence[int], stride: Sequence[int], offset: int) -> Tensor:
    """x with `source` in the place of a view of its memory; torch's own has a gradient at that view alone."""
    new = x.clone()
    new.as_strided(size, stride, offset).copy_(source)
    return new


def of_samples(x: Tensor, times: int, more: int) -> int:
    """A size that depends on the number of samples."""
    return len(x) * times + more
