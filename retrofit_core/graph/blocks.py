"""The gradient fit of blocks between places where one tensor is alive (paper sec. 4.2.2 b and App. F.1)."""

import copy
from collections.abc import Sequence
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
from .graph import load, name_of
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


def in_blocks(net: Network, boundaries: str | int | Sequence[str] = "auto") -> Network:
    """A network with blocks in the place of its layers: the stem, each residual block, and the head; without residual blocks, as
    many as possible.

    Args:
        boundaries: 1: the whole network; or names of layers, behind which alone blocks end.
    Raises:
        ValueError: two blocks share a parameter, or there is no such layer.
    """
    graph, neurons = net.graph, net.spaces.neurons
    inner = {op.node for layer in net.layers for op in layer.operations if op.value is not op.node}
    alone = [
        node for node, count in net.alive.items() if count == 1 and node.meta.get("samples") == 0 and node not in inner
    ]
    layers, found, start = {layer.value: layer for layer in net.layers}, list[Layer](), graph.inputs[0]
    for node in [*(_ends(net, alone) or alone), graph.output]:
        along, last = varying(neurons.ids.of(neurons.twins[node])), node is graph.output
        between = graph.between([start, *graph.inputs], [node]) if found else graph.between(graph.inputs, [node])
        own = [layers[other] for other in between if other in layers]
        ends = own[-1].name if own else ""
        stops = isinstance(boundaries, str) or (boundaries != 1 and ends in boundaries)
        if not (own and (last or (len(along) == 1 and stops))):
            continue
        axis = net.layers[-1].axis if last and len(neurons.shape(node)) > 2 else 1 if last else along[0]
        names = [graph.names[other] for other in between if graph.names.get(other) in graph.trained]
        size = neurons.shape(node)[axis]
        only = own[0].operations if len(own) == 1 and not (own[0].stream or own[0].mixes or own[0].table) else []
        found.append(Block(only, node, axis=axis, start=start, trained=names, label=ends, size=size))
        start = node
    names = [name for block in found if isinstance(block, Block) for name in block.trained]
    if len(names) > len(set(names)):
        shared = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"several blocks share the parameter {shared!r}, which a gradient fit of one would change in the others. Use "
            "boundaries=1, or fit='ridge' (HF-Linear, KF-Linear)."
        )
    return replace(net, layers=found)


def _ends(net: Network, alone: Sequence[fx.Node]) -> list[fx.Node]:
    """The ends of residual blocks, and of the stem before the first one; empty if there are none.

    A block is the outermost module whose own forward adds two tensors. A stem without an activation function is an embedding
    and belongs to the first block. If tokens are dropped right after a block, it ends there.
    """
    graph, place = net.graph, net.graph.place
    paths = {node: node.meta.get("module", "") for node in graph.nodes if node.op == "call_function"}
    owners = {path for node, path in paths.items() if is_sum(net.spaces.neurons, node)} - {""}
    outermost = [path for path in owners if not any(path.startswith(f"{other}.") for other in owners)]
    spans = [[node for node in paths if f"{paths[node]}.".startswith(f"{path}.")] for path in outermost]
    ends = {span[-1] for span in spans if span[-1] in alone}
    stem = [node for node in alone if ends and place[node] < min(place[span[0]] for span in spans)]
    if stem and any(name_of(node) in ACTIVATIONS for node in graph.nodes[: place[stem[-1]] + 1]):
        ends.add(stem[-1])
    for node in list(ends):
        if len(graph.users[node]) == 1 and name_of(reader := graph.users[node][0]) == "select":
            ends = ends - {node} | {reader}
    return sorted(ends, key=place.__getitem__)


class ByDescent:
    """The options of a gradient fit, settled for some networks, all of one code.

    Args:
        model: the fused network's module, for fresh weights.
    """

    def __init__(self, fit: Gradient, groups: Groups, model: nn.Module) -> None:
        self.fit, self.groups, self.model = fit, groups, model

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
            inputs.append([given[node] for node in nodes])
            wanted.append(z)
        columns, T = [torch.cat(column) for column in zip(*inputs, strict=True)], torch.cat(wanted)
        module = nn.ParameterList([net.weights[name].clone() for name in block.trained])
        weights = targets.totals if self.fit.weighted_loss else torch.ones_like(targets.totals)
        scale = (weights * len(weights) / weights.sum()).to(T)

        def errors(samples: Tensor) -> Tensor:
            own = {**net.weights, **dict(zip(block.trained, module, strict=True))}
            given = {node: column[samples] for node, column in zip(nodes, columns, strict=True)}
            made = net.graph.run(own, given, [block.end])[block.end].movedim(net.axes[step.number], -1)
            return (made.reshape(T[samples].shape) - T[samples]).square()

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
        weights, first = step.nets[-1].weights, step.nets[0].weights
        same = {name for name, tensor in weights.items() if name in first and first[name].shape == tensor.shape}
        if not step.number:
            weights.update({name: first[name] for name in same})
        if block.operations and not same.issuperset(block.trained) and mapped(self.groups, step.number):
            parts = self.groups.parts_of_columns(step.number)
            write(block, weights, parents_weights(step, self.groups, parts) @ A)
        if self.fit.perturbation:
            fresh = load(copy.deepcopy(self.model), weights)
            perturb(fresh, self.fit.perturbation, step.generator)
            changed = dict(fresh.named_parameters())
            weights.update({name: changed[name].detach() for name in block.trained})
