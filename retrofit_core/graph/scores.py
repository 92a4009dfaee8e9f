"""Importance of the neurons of a graph: the tensors that scores see, and differentiate, are values of its nodes."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from ..fusion.importance import Conductance, DeepLift, Importance, Neurons, Place, Scores, importance_name
from ..fusion.importance.base import BATCH_BYTES, summed, true_logits
from ..fusion.importance.conductance import _attributions, _change
from ..fusion.importance.deeplift import _captum
from ..fusion.importance.scoring import check_labels, normalised, scores_at
from ..networks.outputs import check_class_scores
from ..system.labels import check_classes
from ..system.monitor import Monitor
from ..system.refusals import Refusal
from .entries import MOVES
from .graph import Graph, Values, Weights, name_of, words
from .layers import weight_of
from .network import Network
from .tracing import leaves_of

#: Operations that are linear, for which DeepLIFT's rule is the gradient: of any inputs, and of one that depends on the data.
LINEAR = {"add", "sub", "mean", "sum", "avg_pool", "adaptive_avg_pool", "constant_pad_nd", "pad"} | MOVES
OF_ONE = {"linear", "conv", "conv_transpose", "batch_norm", "mul", "div", "matmul", "mm", "addmm"}
#: Functions of each entry that Captum has its rule for.
ENTRYWISE = words("relu elu leaky_relu sigmoid tanh softplus")
RULED = ENTRYWISE | {"max_pool"}


@dataclass(frozen=True, eq=False)
class GraphNeurons(Neurons):
    """The outputs of a network's layers, the last of which are the classes."""

    net: Network = field(kw_only=True)
    nodes: Sequence[fx.Node] = field(kw_only=True)

    def weights(self) -> list[Tensor]:
        """For each layer, (p, width) what each neuron reads its inputs with; last its bias, if the layer has one."""
        return [weight_of(layer, self.net.weights) for layer in self.net.layers]

    @property
    def in_chain(self) -> bool:
        """Whether each tensor is all that is alive there."""
        return not self.net.branched

    def batch(self, copies: int) -> int:
        """Samples (1 to 64) for which `copies` of all tensors, float32, fit into memory."""
        numbers = sum(self.net.spaces.neurons.shape(node).numel() for node in self.nodes)
        return max(1, min(64, BATCH_BYTES // (4 * copies * numbers)))

    def __call__(self, x: Any) -> list[Tensor]:
        """The tensors, (B, ...) each.

        Args:
            x: what the network is called with.
        """
        return self.run(leaves_of(x))

    def along(self, leaves: Sequence[Tensor], rows: Tensor, point: float) -> list[Tensor]:
        """The tensors of some samples at a point of the path from zero to them; whole numbers stay, and their embeddings are
        scaled.

        Args:
            leaves: the inputs of all samples.
        """
        return self.run([leaf[rows] for leaf in leaves], point)


def neurons_of(net: Network) -> GraphNeurons:
    """The neurons of a network, layer by layer; then the classes if no layer makes them."""
    graph, classes = net.graph, net.spaces.neurons.shape(net.graph.output)
    nodes, axes, names = [layer.place for layer in net.layers], list(net.axes), [layer.name for layer in net.layers]
    sizes, at = [len(columns) for columns in net.columns], len(nodes)
    if at - 1 in net.last and classes == (1, sizes[-1]):
        at -= 1
    else:
        names.append("classes")
    nodes[at:], axes[at:], sizes[at:] = [graph.output], [1], [classes[-1]]
    tables = [node for node in graph.nodes if name_of(node) == "embedding"]

    def run(leaves: Sequence[Tensor], point: float = 1.0) -> list[Tensor]:
        differentiable = torch.is_grad_enabled()

        def leaf(value: Tensor, factor: float) -> Tensor:
            return (value.detach() * factor).requires_grad_(differentiable) if value.is_floating_point() else value

        # Weights have gradients so that tensors which do not depend on the inputs have them too.
        weights = {name: leaf(tensor, 1.0) if name in graph.trained else tensor for name, tensor in net.weights.items()}
        given: Values = graph.given([leaf(value, point) for value in leaves])
        if not all(value.is_floating_point() for value in leaves):
            found = graph.run(net.weights, graph.given(leaves), tables)
            given |= {node: leaf(value, point) for node, value in found.items()}
        values = graph.run(weights, given, nodes)
        return [values[node] for node in nodes]

    places = [Place(*facts) for facts in zip(names, axes, sizes, strict=True)]
    return GraphNeurons(places, run, net=net, nodes=nodes)


def parents_scores(
    nets: Sequence[Network], importance: Importance, data: Sequence[tuple[Any, Tensor | None]], monitor: Monitor
) -> list[Scores]:
    """Scores of each network's neurons at each layer.

    Args:
        data: (inputs, labels) of each.
    Raises:
        ValueError: missing labels, or scores that are negative, not finite or of the wrong shape.
    """
    found = []
    for number, (net, (x, y)) in enumerate(zip(nets, data, strict=True)):
        monitor.emit("phase", name="importance", parent=number, parents=len(nets))
        weight, neurons = next(iter(net.weights.values())), neurons_of(net)

        def ready(leaf: Tensor, weight: Tensor = weight) -> Tensor:
            return leaf.to(weight.device, weight.dtype if leaf.is_floating_point() else None)

        x = pytree.tree_map_only(Tensor, ready, x) if importance.needs_data else x
        y = None if y is None else y.to(weight.device)
        y = check_labels(y, importance)
        if isinstance(importance, (Conductance, DeepLift)):
            attributed = conductance if isinstance(importance, Conductance) else deeplift
            with torch.enable_grad():
                raw = attributed(importance, neurons, leaves_of(x), y, monitor)
        else:
            raw = scores_at(neurons, x, y, importance, monitor)
        found.append(normalised(raw, importance, [place.name for place in neurons.places], weight.device))
    return found


def conductance(
    score: Conductance, neurons: GraphNeurons, leaves: Sequence[Tensor], y: Tensor, monitor: Monitor
) -> Scores:
    """Conductance at each tensor, see `Conductance`; y (B,) labels."""
    points, path = (np.polynomial.legendre.leggauss(score.steps + 1)[0] + 1) / 2, partial(neurons.along, leaves)

    def attribute(rows: Tensor, labels: Tensor) -> tuple[list[Tensor], float]:
        with torch.autocast(y.device.type, dtype=torch.bfloat16, enabled=score.mixed_precision):
            return _attributions(path, rows, labels, points), _change(path, rows, rows, labels)

    found = summed("conductance", attribute, neurons, torch.arange(len(y)), y, monitor, copies=8)
    return replace(found, report={"steps": score.steps, **found.report})


def deeplift(score: DeepLift, neurons: GraphNeurons, leaves: Sequence[Tensor], y: Tensor, monitor: Monitor) -> Scores:
    """DeepLIFT at each tensor by Captum's rules, in one pass; y (B,) labels."""
    graph = copy.copy(neurons.net.graph)
    graph.compute = partial(_by_rule, neurons.net.graph)  # type: ignore[method-assign]
    ruled = neurons_of(replace(neurons.net, graph=graph))

    def attribute(rows: Tensor, labels: Tensor) -> tuple[list[Tensor], float]:
        batch = [leaf[rows] for leaf in leaves]
        tensors = ruled.run([torch.cat([leaf, torch.zeros_like(leaf)]) for leaf in batch])
        logits = true_logits(tensors[-1], labels.repeat(2))
        gradients = torch.autograd.grad(logits.sum(), tensors)
        changes = [one - other for one, other in (tensor.detach().chunk(2) for tensor in (*tensors, logits))]
        parts = [change * gradient.chunk(2)[0] for change, gradient in zip(changes, gradients, strict=False)]
        return parts, changes[-1].sum().item()

    found = summed("deeplift", attribute, neurons, torch.arange(len(y)), y, monitor, copies=16)
    return replace(found, report={**found.report, "without_rule": without_rule(neurons.net)})


def without_rule(net: Network) -> list[str]:
    """Operations that have no rule of DeepLIFT, in words."""
    graph, missing = net.graph, list[str]()
    for node in graph.nodes:
        name, of_data = name_of(node), [other for other in node.all_input_nodes if other in graph.of_data]
        linear = name in LINEAR or (name in OF_ONE and len(of_data) == 1)
        if of_data and not (linear or name in RULED):
            missing.append(f"{name}() in {node.meta.get('module', '')!r}")
    return missing


def check_scores(nets: Sequence[Network], importance: Importance, data: Sequence[tuple[Any, Tensor | None]]) -> None:
    """Check before any work that neurons can be scored on these data.

    Raises:
        ValueError: as in `scoring.check_parents_data`, or the score does not cover the neurons.
    """
    name = f"importance {importance_name(importance)!r}"
    for net, (_, y) in zip(nets, data, strict=True):
        outputs = net.spaces.neurons.shape(net.graph.output)[1:]
        labels = check_labels(y, importance)
        if importance.needs_labels and importance.reads_logits:
            check_class_scores(outputs, name, "Use importance='uniform'.", ("importance", "uniform"))
        if importance.needs_labels and labels is not None and len(outputs) == 1:
            check_classes(labels, outputs[0], name)
        _check(importance, neurons_of(net))


def _check(importance: Importance, neurons: GraphNeurons) -> None:
    """Check that a score covers a network's neurons.

    Raises:
        ValueError: says what it does not cover, and a solution.
    """
    graph, real = neurons.net.graph, neurons.net.spaces.neurons.real
    whole = not any(real[node].is_floating_point() for node in graph.inputs)
    if isinstance(importance, Conductance) and whole and not any(name_of(node) == "embedding" for node in graph.nodes):
        raise Refusal(
            "importance 'conductance' follows a path from zero, but these networks read whole numbers without an nn.Embedding, "
            "whose outputs it could follow. Use importance='uniform'.",
            ("importance", "uniform"),
        )
    if not isinstance(importance, DeepLift):
        importance.check(neurons)
        return
    cures = ("importance", "uniform"), ("importance", "conductance")
    if not neurons.in_chain:
        raise Refusal(
            "importance 'deeplift' is defined only where all that is alive is one layer's output, but this network has neurons "
            "inside blocks. Use importance='uniform' or 'conductance'.",
            *cures,
        )
    missing = without_rule(neurons.net)
    if missing and importance.fallback != "gradient":
        raise Refusal(
            f"DeepLIFT has no rule for {missing[0]} ({len(missing)} such operations). Use importance='conductance', or the plain "
            "gradient there with fallback='gradient'.",
            cures[1],
            ("fallback", "gradient"),
        )


def _by_rule(graph: Graph, node: fx.Node, weights: Weights, values: Values) -> Any:
    """As `Graph.compute`, with gradients by DeepLIFT's rules."""
    source, name = node.args[0] if node.args else None, name_of(node)
    if source not in graph.of_data or name not in RULED:
        return Graph.compute(graph, node, weights, values)
    return _Rule.apply(values[source], lambda x: Graph.compute(graph, node, weights, {**values, source: x}), name)


class _Rule(torch.autograd.Function):
    """An operation on samples and their baselines, one after another, whose gradient is that of DeepLIFT.

    Max pooling: what a maximum rises from the baseline's to the larger of both belongs to the sample's entry, what it falls from
    there to the sample's to the baseline's entry. So does Captum, but it keeps only one of overlapping windows.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, compute: Callable[[Tensor], Tensor], name: str) -> Tensor:
        ctx.x, ctx.compute, ctx.name = x.detach(), compute, name
        return compute(ctx.x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        with torch.enable_grad():
            x = ctx.x.requires_grad_()
            made = ctx.compute(x)
        (plain,) = torch.autograd.grad(made, x, gradient, retain_graph=True)
        rule = _captum()._core.deep_lift.nonlinear
        with torch.no_grad():
            if ctx.name in ENTRYWISE:
                return rule(None, x, made, plain, gradient), None, None
            sample, zero = made.chunk(2)
            larger = sample.maximum(zero)
            (parts,) = torch.autograd.grad(made, x, gradient * torch.cat([larger - zero, sample - larger]))
            parts = torch.cat([sum(parts.chunk(2)), torch.zeros_like(parts.chunk(2)[0])])
            return rule(None, x, parts, plain, torch.ones_like(x)), None, None
