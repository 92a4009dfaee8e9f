"""torch.fx traces without in-place operations, with recorded shapes."""

import copy
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx, nn

from ...system.device import exact
from ...system.registry import first_line
from ..hooks import hooks_of, refuse_changing_hooks
from ..wrappers import class_name
from .inplace import Versions, copy_before, remove_inplace
from .kinds import argument, operation
from .plain import call_layers, erase_unused
from .spelling import spell_sums
from .tracer import Unregistered, holds_tensors, inputs_of, traced

#: Leading tensor arguments of torch functions that are inspected, in order.
LEADING = {
    "scaled_dot_product_attention": ("query", "key", "value"),
    **dict.fromkeys(("cat", "concat", "stack"), ("tensors",)),
    **dict.fromkeys(("bmm", "mm"), ("input", "mat2")),
    **dict.fromkeys(("add", "sub", "mul", "div", "matmul", "multiply", "subtract"), ("input", "other")),
    **dict.fromkeys(("permute", "transpose"), ("input",)),
}

#: Dropout functions: the argument that switches them on, its position, its default.
DROPPING: dict[str, tuple[str, int, bool]] = {
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d"), ("training", 2, True)),
    **dict.fromkeys(("alpha_dropout", "feature_alpha_dropout", "feature_dropout"), ("training", 2, False)),
    "stochastic_depth": ("training", 3, True),
}
DROPPING_ATTENTION = "a dropout_p of 0.0 unless self.training"
STAYS_RANDOM = (
    "{network} calls {name}(), which drops at random in evaluation mode too, so its outputs are not those of one "
    "network. Pass {cure} to it."
)


@dataclass(eq=False)
class Trace:
    """A model's operations on an example, traced once for cutting levels and following neurons.

    There are no in-place operations. The nodes hold the shapes of their values on the example, see `record_values`.
    """

    model: nn.Module
    graph: fx.Graph
    modules: dict[Any, Any]
    """Target -> object"""
    example: Tensor
    """(B, ...)"""
    sizes: bool
    """Whether the model's code reads sizes"""

    def copy(self) -> "Trace":
        """A copy whose graph may be changed; nodes keep their names."""
        return replace(self, graph=copy.deepcopy(self.graph), modules=dict(self.modules))

    @torch.no_grad()
    def of_one(self) -> "Trace":
        """A copy with the shapes of the first sample alone."""
        if len(self.example) == 1:
            return self
        one = replace(self.copy(), example=self.example[:1])
        record_values(one.graph, one.modules, one.example, self.model)
        return one


@exact()
def trace(model: nn.Module, leaves: Sequence[str], example: Tensor, *, whole: bool = False) -> Trace:
    """Trace a model on an example.

    Args:
        example: (B, ...) input; control flow sees its shapes.
        whole: whether to treat modules that cannot be followed as `leaves`.
    Raises:
        ValueError: `leaves` names no submodule, a forward hook changes values, the model cannot be traced, does not run on the
            example, or takes more than one input.
    """
    unknown = set(leaves) - {name for name, _ in model.named_modules()}
    if unknown:
        raise ValueError(f"leaves={sorted(unknown)} are not submodules of {class_name(model)}.")
    graph, followed, sizes = _traced(model, list(leaves), example, whole)
    modules = _targets(model, followed, graph)
    _name_no_tensors(graph, modules)
    in_place = remove_inplace(graph, modules)
    _remove_dropout(graph, class_name(model))
    spell_sums(graph)
    with torch.no_grad():
        output, writing = record_values(graph, modules, example, model)
        if writing:
            copy_before(graph, writing)
            output, _ = record_values(graph, modules, example, model)
        if in_place or writing:
            _check_views(model, example, output)
    erase_unused(graph)
    call_layers(graph, modules)
    return Trace(model, graph, modules, example, sizes)


def _traced(model: nn.Module, leaves: list[str], example: Tensor, whole: bool) -> tuple[fx.Graph, nn.Module, bool]:
    name = class_name(model)
    inputs = inputs_of(model)
    if len(inputs) != 1:
        raise ValueError(
            f"{name} takes {len(inputs)} inputs; levels need exactly one. Wrap it in a module whose forward takes "
            "one tensor."
        )
    hooks = hooks_of(model, example)
    refuse_changing_hooks(model, hooks)
    try:
        return traced(model, leaves, example, hooks, whole=whole)
    except Unregistered as error:
        raise ValueError(
            f"{name} calls a {error} that is not one of its submodules, so its weights cannot be found. Create it in "
            "__init__ as an attribute (self.layer = ...), and lists of modules as nn.ModuleList."
        ) from error
    except Exception as error:  # whatever the model's code raises
        with torch.no_grad():
            _run(model, model, example)
        raise ValueError(
            f"{name} cannot be traced by torch.fx ({first_line(error)}). Name the submodule in which this "
            "happens in leaves=[...], to take it whole, or wrap the model in one whose forward has no data-dependent "
            "branches."
        ) from error


def _targets(model: nn.Module, followed: nn.Module, graph: fx.Graph) -> dict[str, Any]:
    """The modules and tensors of the model that a graph names; constants, which the model has not, are those of `followed`."""
    targets: dict[Any, Any] = {}
    for node in graph.nodes:
        if node.op == "call_module":
            targets[node.target] = model.get_submodule(node.target)
        elif node.op == "get_attr":
            read = operator.attrgetter(node.target)
            try:
                targets[node.target] = read(model)
            except AttributeError:
                targets[node.target] = read(followed)
    return targets


def _name_no_tensors(graph: fx.Graph, modules: dict[Any, Any]) -> None:
    """Turn tensors passed by keyword (`layer(input=x)`, `torch.add(x, other=y)`) into positional arguments."""
    for node in graph.nodes:
        names: Iterable[str] = ()
        if node.op == "call_module":
            names = inspect.signature(modules[node.target].forward).parameters
        else:
            names = LEADING.get(operation(node), ())
        for name in list(names)[len(node.args) :]:
            if not isinstance(node.kwargs.get(name), (fx.Node, list, tuple)):
                break  # later ones cannot be positional either
            node.args = (*node.args, node.kwargs[name])
            node.kwargs = {key: value for key, value in node.kwargs.items() if key != name}


def _remove_dropout(graph: fx.Graph, network: str) -> None:
    """Remove dropout functions.

    Raises:
        ValueError: one is active in evaluation mode too.
    """
    for node in list(graph.nodes):
        name = operation(node)
        if name == "scaled_dot_product_attention" and argument(node, "dropout_p", 4, 0.0):
            raise ValueError(STAYS_RANDOM.format(network=network, name=name, cure=DROPPING_ATTENTION))
        if name not in DROPPING:
            continue
        flag, place, default = DROPPING[name]
        if argument(node, flag, place, argument(node, "train", place, default)) and argument(node, "p", 1, 0.5):
            cure = f"{flag}=self.training"
            raise ValueError(STAYS_RANDOM.format(network=network, name=name, cure=cure))
        node.replace_all_uses_with(node.all_input_nodes[0])
        graph.erase_node(node)


class Interpreter(fx.Interpreter):
    """Runs a traced graph node by node; the values are in `env`.

    Args:
        modules: target -> object.
        keep: whether values stay after their last reader.
    """

    def __init__(self, graph: fx.Graph, modules: Mapping[Any, Any], *, keep: bool = False) -> None:
        super().__init__(nn.Module(), not keep, graph)  # a GraphModule would compile code, and copy the graph
        self.targets = modules

    def fetch_attr(self, target: str) -> Any:
        """The module or tensor of that name."""
        return self.targets[target]


class _Recorder(Interpreter):
    def __init__(self, graph: fx.Graph, modules: Mapping[Any, Any]) -> None:
        super().__init__(graph, modules)
        self.writing: dict[fx.Node, list[fx.Node]] = {}
        """Nodes that write into inputs, and which inputs"""

    def run_node(self, n: fx.Node) -> Any:
        versions = Versions(n, self.env)
        result = super().run_node(n)
        if written := versions.written():
            self.writing[n] = written
        n.meta["value"] = result.shape if isinstance(result, Tensor) else result
        n.meta["is_tensor"] = isinstance(result, Tensor)
        n.meta["holds_tensors"] = holds_tensors(result)
        return result


def record_values(
    graph: fx.Graph, modules: dict[Any, Any], example: Tensor, model: nn.Module
) -> tuple[Tensor, dict[fx.Node, list[fx.Node]]]:
    """Run an example through a graph and set each node's meta: "value" (a tensor's shape, or any other value itself),
    "is_tensor" and "holds_tensors".

    Returns:
        The output, and the nodes that write into inputs, with these inputs.
    Raises:
        ValueError: the model does not run on the example, or does not return one tensor.
    """
    recorder = _Recorder(graph, modules)
    output = _run(recorder.run, model, example)
    check_output(class_name(model), output)
    return output, recorder.writing


def _check_views(model: nn.Module, example: Tensor, output: Tensor) -> None:
    """Refuse a model whose trace without in-place operations differs, because one wrote into a view."""
    expected = model(example.clone())
    if not torch.allclose(output, expected, rtol=0, atol=rounding(expected), equal_nan=True):
        raise ValueError(
            f"{class_name(model)} writes into a part of a tensor that it reads again as a whole (an operation in "
            "place on a view), or is random; its operations cannot be followed. Let it compute a new tensor "
            "instead, as x = x * 2 does where x.mul_(2) writes."
        )


def rounding(numbers: Tensor) -> float:
    """By how much a tensor may differ from one that is computed in another order: half of the digits that its dtype has, of
    the largest finite number in it."""
    digits = torch.finfo(numbers.dtype).eps ** 0.5 if numbers.is_floating_point() else 0.0
    return digits * numbers.double().nan_to_num(0, 0, 0).abs().max().item()


def _run(network: Callable[[Tensor], Any], model: nn.Module, example: Tensor) -> Any:
    """Run a network, or its trace, on an example."""
    try:
        return network(example.clone())  # may be written into
    except Exception as error:
        raise ValueError(
            f"{class_name(model)} does not run on an input of shape {tuple(example.shape)}: "
            f"{first_line(error)}. Pass data of the shape that it was trained on."
        ) from error


def check_output(network: str, output: object) -> None:
    """Refuse outputs that are not one tensor.

    Args:
        network: its name, to start the message.
    Raises:
        ValueError: says what was returned.
    """
    if not isinstance(output, Tensor):
        kind = type(output).__name__.removeprefix("immutable_")  # torch.fx's own lists and dicts
        raise ValueError(
            f"{network} returns {kind}, not one tensor. Say which of its tensors holds the logits: "
            "retrofit_core.giving_logits(model, NAME)."
        )
