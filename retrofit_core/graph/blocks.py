"""The gradient fit of blocks between places where one tensor is alive (paper sec. 4.2.2 b and App. F.1)."""

import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor, fx, nn

from ..fusion.fit import Gradient
from ..fusion.fit.gradient import perturb
from ..fusion.grouping import Grouping
from ..fusion.results import Fitted
from ..system.graphs import replayed
from ..system.monitor import Monitor
from ..training.descent import descend
from .fit import mapped, parents_weights
from .graph import load, name_of, samples_axis
from .groups import Groups
from .ids import varying
from .layers import ACTIVATIONS, Layer, is_sum, write
from .network import Network
from .walk import Step


@dataclass(eq=False, kw_only=True)
class Block(Layer):
    """What is computed from one tensor to the next."""

    start: fx.Node
    trained: list[str]
    """Its parameters"""
    label: str
    """The module, or the parameter, of its last layer"""
    size: int

    @property
    def name(self) -> str:
        """See `label`."""
        return self.label

    @property
    def width(self) -> int:
        """Neurons at its end."""
        return self.size

    @property
    def reads(self) -> list[fx.Node]:
        """Its start."""
        return [self.start]

    @property
    def parts(self) -> int:
        """None of its own."""
        return 1

    @property
    def channelwise(self) -> bool:
        """Whether it is depthwise."""
        return False

    @property
    def kind(self) -> str:
        """What it is, in tables."""
        return super().kind if self.operations else "not affine"


def in_blocks(net: Network) -> Network:
    """A network with blocks in the place of its layers, which share no parameters: they end behind residual blocks, if modules
    hold them, and the stem before these, else behind every layer where one tensor is alive."""
    graph, neurons = net.graph, net.spaces.neurons
    ends, found, start, used = _ends(net), list[Layer](), graph.inputs[0], set[str]()
    axes = {layer.end: layer.axis for layer in net.layers}
    end = graph.output if len(neurons.shape(graph.output)) > 1 else net.layers[-1].end  # one number for each sample
    for node in [*sorted(ends.keys() - {end}, key=graph.place.__getitem__), end]:
        last, inside = node is end, graph.between([start, *graph.inputs], [node])
        own = [layer for layer in net.layers if layer.value in inside]
        names = [graph.names[other] for other in inside if graph.names.get(other) in graph.trained]
        if not last:
            behind = graph.between([node, *graph.inputs], graph.outputs)
            shared = used.union(names) & {graph.names.get(other) for other in behind}
            if shared or not own or not any(layer.value in behind for layer in net.layers):
                continue
        along = varying(neurons.ids.of(neurons.twins[node])) or [axes.get(node, 1)]
        axis = net.layers[-1].axis if last and len(neurons.shape(node)) > 2 else 1 if last else along[0]
        only = own[0].operations if len(own) == 1 and not (own[0].stream or own[0].mixes or own[0].table) else []
        label, size = ends.get(node, "") or (own or net.layers)[-1].name, neurons.shape(node)[axis]
        found.append(Block(only, node, axis=axis, start=start, trained=names, label=label, size=size))
        start, used = node, used.union(names)
    return replace(net, layers=found)


def _ends(net: Network) -> dict[fx.Node, str]:
    """Where blocks may end -> the module that ends there, or "" for one named after its last layer."""
    graph, neurons, place = net.graph, net.spaces.neurons, net.graph.place
    paths = {node: node.meta.get("module") or "" for node in graph.nodes if node.op == "call_function"}
    made = {} if neurons.lost else {layer.end: 0 for layer in net.layers}  # their neurons may stay in place
    alone = {
        node
        for node, count in net.alive(inputs=False).items()  # every block may read these
        if count == 1
        and node.meta.get("samples") is not None
        and made.get(node, 1) <= len(varying(neurons.ids.of(neurons.twins[node]))) <= 1
    }

    def span(path: str) -> list[fx.Node]:
        return [node for node in paths if f"{paths[node]}.".startswith(f"{path}.")]

    owners = {path for node, path in paths.items() if is_sum(neurons, node)} - {""}
    outermost = [path for path in owners if not any(path.startswith(f"{other}.") for other in owners)]
    blocks = {nodes[-1]: (path, nodes[0]) for path in outermost if (nodes := span(path))[-1] in alone}
    if not blocks:
        ends = {layer.end for layer in net.layers}
        return {node: "" for node in alone if node in ends or is_sum(neurons, node)}
    ends, begun = dict[fx.Node, str](), min(place[first] for _, first in blocks.values())
    for node, (path, _) in blocks.items():
        readers = graph.users[node]
        dropped = len(readers) == 1 and name_of(readers[0]) in ("select", "slice") and readers[0] in alone
        ends[readers[0] if dropped else node] = path  # where tokens are dropped right after it
    stem = [node for node in graph.nodes[:begun] if node in alone]
    if stem and any(name_of(node) in ACTIVATIONS for node in graph.nodes[: place[stem[-1]] + 1]):
        ends[stem[-1]] = ""  # one without a function is an embedding, and belongs to the first block
    return ends


class ByDescent:
    """The options of a gradient fit, settled for some networks, all of one code.

    Args:
        model: the fused network's module, for fresh weights.
    """

    def __init__(self, fit: Gradient, groups: Groups, model: nn.Module) -> None:
        self.fit, self.groups, self.model = fit, groups, model

    @property
    def same(self) -> set[str]:
        """Names of the tensors that have parent 0's shapes."""
        ours, first = self.groups.fused.weights, self.groups.nets[0].weights
        return {name for name, tensor in ours.items() if name in first and first[name].shape == tensor.shape}

    def start(self) -> None:
        """Start at parent 0's weights where shapes are alike."""
        self.groups.fused.weights.update({name: self.groups.nets[0].weights[name] for name in self.same})

    def fitted(self, step: Step, found: Grouping, s: Tensor, monitor: Monitor) -> Fitted:
        """Train a block's weights, starting at parent 0's where shapes are alike.

        Args:
            s: (m,) scores.
        """
        block, net, targets = step.layer, step.nets[-1], found.targets(s)
        assert isinstance(block, Block)
        self._start(step, block, targets.A)
        nodes = list(dict.fromkeys([block.start, *net.graph.inputs]))
        inputs, wanted = [], []
        for given, z in step.targets(targets.A):
            inputs.append([given[node].movedim(samples_axis(node), 0) for node in nodes])
            wanted.append(z)
        columns, T = [torch.cat(column) for column in zip(*inputs, strict=True)], torch.cat(wanted)
        module = nn.ParameterList([net.weights[name].clone() for name in block.trained])
        weights = targets.totals if self.fit.weighted_loss else torch.ones_like(targets.totals)
        scale = (weights * len(weights) / weights.sum()).to(T)

        def errors(samples: Tensor) -> Tensor:
            own = {**net.weights, **dict(zip(block.trained, module, strict=True))}
            given = {
                node: column[samples].movedim(0, samples_axis(node))
                for node, column in zip(nodes, columns, strict=True)
            }
            made = net.graph.run(own, given, [block.end])[block.end].movedim(net.axes[step.number], -1)
            return (made.movedim(samples_axis(block.end), 0).reshape(T[samples].shape) - T[samples]).square()

        def loss(samples: Tensor) -> Tensor:
            return (errors(samples) * scale).mean()

        mean = replayed(loss, T.device)

        def measure(samples: Tensor) -> float:
            parts = samples.split(max(self.fit.batch_size, 64))
            return sum(mean(part).item() * len(part) for part in parts) / len(samples)

        with step.clock.phase("fit"):
            curve = descend(module, len(T), loss, measure, self.fit, generator=step.generator, monitor=monitor)
        net.weights.update(zip(block.trained, (parameter.detach() for parameter in module), strict=True))
        every = torch.arange(len(T), device=T.device).split(len(step.inputs[0][0]))
        missed = sum(errors(samples).double().flatten(0, -2).sum(0) for samples in every)
        return Fitted("gradient", (targets.totals @ missed).item(), curve=curve)

    def _start(self, step: Step, block: Block, A: Tensor) -> None:
        """Start at parent 0's weights, or of a block of one layer of other shapes at the mapped mean of the parents', and move
        from there towards fresh ones."""
        weights, same = step.nets[-1].weights, self.same
        if block.operations and not same.issuperset(block.trained) and mapped(self.groups, step.number):
            parts = self.groups.parts_of_columns(step.number)
            write(block, weights, parents_weights(step, self.groups, parts) @ A)
        if self.fit.perturbation:
            fresh = load(copy.deepcopy(self.model), weights)
            perturb(fresh, self.fit.perturbation, step.generator)
            changed = dict(fresh.named_parameters())
            weights.update({name: changed[name].detach() for name in block.trained})
