"""Run networks layer by layer, so that all stand at the same place, and sum what they compute there.

Each network keeps, for each batch, the values that later operations read; if they do not fit into the budget of memory, they are
recomputed from those that it kept before.

Legend: N rows = samples x positions, m neurons of all parents, d fused neurons, p inputs of a neuron.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx

from ..fusion.moments import Moments, MomentSums, Rows, dual_bytes, dual_is_cheaper
from ..fusion.moments.lags import MIN_CHANNELS, LagSums
from ..fusion.targets import of_ensemble
from ..system.device import CHUNK_BYTES, Stopwatch, check_sums, rows_per_batch, sum_dtype
from .graph import Graph, Values, beside, name_of, samples_axis
from .layers import Layer, moved_back, rows_of
from .network import Network

#: Positions of a map that is small.
SMALL_MAP = 16
#: A batch: a tensor (B, ...) for each input.
Batch = Sequence[Tensor]


class Walk:
    """Runs one network step by step, batch by batch.

    Args:
        batches: on any device.
        memory: bytes that it may keep.
    """

    def __init__(self, graph: Graph, batches: Sequence[Batch], device: torch.device, memory: int) -> None:
        self.graph, self.device, self.memory = graph, device, memory
        self.batches = batches
        self.states: list[Values] = [{} for _ in batches]
        self.at = [0] * len(batches)  # the step that each batch has reached
        self.step, self.done = 0, set(graph.inputs)
        self.wanted: list[fx.Node] = []
        self.kept: set[fx.Node] = set()
        self.keeps = True
        #: Whether an operation reads memory as it lies
        self.reads_memory = any(name_of(node).startswith("as_strided") for node in graph.nodes)

    def go(self, wanted: Sequence[fx.Node], memory: int) -> None:
        """Stand where some nodes are computed.

        Args:
            memory: bytes that it may keep here.
        """
        graph = self.graph
        self.step, self.wanted, self.memory, self.keeps = self.step + 1, list(wanted), memory, True
        self.done |= {node for node in graph.between(self.done, wanted) if node in graph.of_data}
        self.kept = {
            node
            for node in self.done
            if node in graph.outputs or any(user not in self.done for user in graph.users[node])
        }

    @torch.no_grad()
    def values(self, number: int, weights: dict[str, Tensor]) -> Values:
        """Values of the wanted nodes for one batch."""
        if self.at[number] == self.step:
            return {node: self.states[number][node] for node in self.wanted}
        state = self.ahead(number, weights, {*self.kept, *self.wanted})
        size = sum(value.nbytes for value in state.values() if isinstance(value, Tensor))
        self.keeps = self.keeps and size * len(self.states) <= self.memory
        if self.keeps:
            self.states[number], self.at[number] = state, self.step
        return {node: state[node] for node in self.wanted}

    @torch.no_grad()
    def ahead(self, number: int, weights: dict[str, Tensor], wanted: Collection[fx.Node]) -> Values:
        """Values of later nodes for one batch; none are kept."""
        state = dict(self.states[number])
        needed = self.graph.between(state, wanted)
        for node, tensor in self.graph.input_values(self.batches[number]).items():  # sizes are read again later
            if node in needed:
                state[node] = self._laid_out(beside(tensor, weights))
        return {node: self._laid_out(value) for node, value in self.graph.run(weights, state, wanted).items()}

    def _laid_out(self, value: Any) -> Any:
        """On a CPU, large maps channels-last and others contiguous: pooling and sums over rows of large maps are faster so,
        convolutions of small maps of many channels are not."""
        if not isinstance(value, Tensor) or value.device.type != "cpu" or value.ndim != 4 or self.reads_memory:
            return value
        return value.contiguous(
            memory_format=torch.channels_last if value[0, 0].numel() > SMALL_MAP else torch.contiguous_format
        )


@dataclass(eq=False)
class Step:
    """One layer, in all networks.

    Args:
        layers: of each parent and, last, the fused network.
    """

    nets: Sequence[Network]
    walks: Sequence[Walk]
    number: int
    clock: Stopwatch
    tokens: Sequence[Tensor | None]
    """For each batch, which tokens count (B, T), those of padding not; None: all"""
    inputs: Sequence[Batch]
    generator: torch.Generator
    votes: Tensor | None = None
    """(m,) weights of the parents' classes, if the ensemble's answer takes the place of each parent's"""
    reads: bool = False
    """Whether anything is read of the fused network"""

    @property
    def layers(self) -> list[Layer]:
        """The layer of each parent and, last, of the fused network."""
        return [net.layers[self.number] for net in self.nets]

    @property
    def layer(self) -> Layer:
        """The fused network's."""
        return self.layers[-1]

    @property
    def device(self) -> torch.device:
        """Of the sums."""
        return self.walks[-1].device

    @property
    def widths(self) -> tuple[int, ...]:
        """Outputs of each parent's layer; of one that mixes positions, its targets take the place of each parent's outputs."""
        return tuple(net.widths[self.number] for net in self.nets[:-1])

    def go(self, before: Sequence[fx.Node], memory: int) -> None:
        """Let all networks stand at the layer: parents behind it, the fused network where some nodes are computed."""
        for walk, layer in zip(self.walks[:-1], self.layers, strict=False):
            made = [op.value for op in layer.operations] * bool(layer.chain)
            walk.go([layer.end, *made], memory // len(self.nets))
        if before:
            self.walks[-1].go(before, memory // len(self.nets))
        self.reads = bool(before)

    def batches(self) -> Iterator[tuple[list[Values], Values, Tensor | None]]:
        """For each batch: the parents' values behind the layer, the fused network's before it, and which rows count."""
        for number, (batch, counted) in enumerate(zip(self.inputs, self.counted, strict=True)):
            with self.clock.phase("forward"):
                ends = [walk.values(number, net.weights) for net, walk in zip(self.nets[:-1], self.walks, strict=False)]
                given = self.walks[-1].values(number, self.nets[-1].weights) if self.reads else {}
                given |= self.nets[-1].graph.input_values(batch)
            yield ends, given, counted

    @property
    def counted(self) -> Sequence[Tensor | None]:
        """For each batch, which rows (N,) of a linear layer or table over tokens count; None: all."""
        layer, net = self.layer, self.nets[-1]
        shape = net.spaces.neurons.shape(layer.end)
        tokens = next((t for t in self.tokens if t is not None), None)
        if (
            tokens is None
            or any(op.axis != -1 for op in layer.operations)
            or shape.numel() // shape[-1] != tokens.shape[1]
        ):
            return [None] * len(self.inputs)
        second = layer.end.meta.get("samples") == 1
        return [t if t is None else (t.T if second else t).flatten().to(self.device) for t in self.tokens]

    def outputs(self, ends: Sequence[Values], given: Values, targets: Sequence[Tensor] = ()) -> list[Tensor]:
        """Views, neurons last, of the parents' outputs, the fused network's stream, and the parents' layers before a function.

        Args:
            targets: (n of a parent, d) for a layer that mixes positions: its neurons lie along another axis, so targets take
                the place of outputs.
        """
        sides, before = [], []
        for net, layer, values in zip(self.nets, self.layers, ends, strict=False):
            sizes = net.graph.input_values([given[node] for node in self.nets[-1].graph.inputs])
            value = moved_back(layer, net.graph, sizes, values[layer.value] if layer.chain else None, values[layer.end])
            axis = layer.operations[0].axis
            if targets:
                value = value.movedim(net.axes[self.number], -1)
            sides.append(value if targets else value.movedim(axis, -1))
            if layer.functions:
                before.append(values[layer.value].movedim(axis, -1))
        layer, net, axis = self.layer, self.nets[-1], self.layer.operations[0].axis
        if targets:
            mean: Any = sum(value @ A.to(value) for value, A in zip(sides, targets, strict=True))
            sides = [mean.movedim(-1, net.axes[self.number]).movedim(axis, -1)] * len(targets)
        if layer.stream:
            made = net.graph.run(net.weights, given, [layer.value])[layer.value] if layer.chain else None
            stream: Any = sum(given[node] for node in layer.stream)
            sides.append(moved_back(layer, net.graph, given, made, stream).movedim(axis, -1))
        return [*sides, *before]

    def sides(
        self, dtype: torch.dtype, targets: Sequence[Tensor] = ()
    ) -> Iterator[tuple[list[Tensor], Tensor, Tensor | None]]:
        """For each batch: the inputs of the fused layer's operations; z (N, columns), see `outputs`; and which rows count."""
        for ends, given, counted in self.batches():
            with self.clock.phase("moments"):
                z = self.voted(side_by_side(self.outputs(ends, given, targets), dtype, counted))
            yield [given[op.x] for op in self.layer.operations], z, counted

    def rows(self, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor]]:
        """The fused layer's inputs (n, G, p) and z (n, columns), some samples at a time."""
        for tensors, z, counted in self.sides(dtype):
            yield from rows_in_chunks(self.layer, tensors, z, counted, dtype)

    def moments(
        self, dtype: torch.dtype, parts: Tensor | None, memory: int, targets: Sequence[Tensor] = ()
    ) -> Moments | Rows:
        """Sums over the rows of the fused layer's inputs and the parents' outputs, or the rows themselves if that is cheaper.

        Args:
            dtype: of products; sums are float64.
            parts: (m,) the fused part of each column of z, for a grouped convolution.
            memory: bytes for the rows.
            targets: see `outputs`.
        """
        sums: MomentSums | LagSums | list[tuple[Tensor, Tensor]] | None = None
        layer, dtype = (
            self.layer,
            dtype if parts is None else torch.float64,
        )  # parts are too small for float32 to be faster
        for tensors, z, counted in self.sides(dtype, targets):
            with self.clock.phase("moments"):
                if sums is None:
                    sums = self._collector(z, len(tensors[0]), parts, memory)
                if isinstance(sums, LagSums):
                    sums.add(z, tensors[0])
                    continue
                for x, rows in rows_in_chunks(layer, tensors, z, counted, dtype):
                    if isinstance(sums, list):
                        sums.append((x[:, 0].double(), rows.double()))
                    else:
                        sums.add(rows, x if parts is not None else x[:, 0])
        if isinstance(sums, list):
            x, z = (torch.cat(side) for side in zip(*sums, strict=True))
            found: Moments | Rows = Rows(x, z, layer.has_bias)
        else:
            assert sums is not None
            found = sums.finish()
        check_sums(layer.name, found.zz)
        return found

    def _collector(
        self, z: Tensor, samples: int, parts: Tensor | None, memory: int
    ) -> MomentSums | LagSums | list[tuple[Tensor, Tensor]]:
        layer, op, m = self.layer, self.layer.operations[0], z.shape[1]
        rows = len(z) * sum(len(batch[0]) for batch in self.inputs) // samples
        if parts is None and dual_is_cheaper(rows, layer.inputs, m) and dual_bytes(rows, layer.inputs, m) <= memory:
            return []
        if op.by_lags and len(layer.operations) == 1 and op.channels >= MIN_CHANNELS and z.device.type == "cpu":
            return LagSums(op.channels, m, bias=layer.has_bias, device=z.device)
        of_parts = parts if parts is None else (parts, layer.parts)
        return MomentSums(m, layer.inputs, bias=layer.has_bias, device=z.device, parts=of_parts)

    def of_neurons(self, dtype: torch.dtype = torch.float64) -> Moments:
        """Sums over the rows of the parents' neurons, of products in some precision."""
        sums = MomentSums(sum(len(net.columns[self.number]) for net in self.nets[:-1]), device=self.device)
        for ends, _, counted in self.batches():
            with self.clock.phase("moments"):
                sums.add(self.voted(side_by_side(self.neurons(ends), dtype, counted)))
        found = sums.finish()
        check_sums(self.layer.name, found.zz)
        return found

    def grams(self, later: Collection[int]) -> dict[int, Tensor]:
        """(m, m) inner products of the parents' neurons at later layers, to which they run ahead."""
        ahead = [replace(self, number=number, votes=None) for number in sorted(later)]
        sums = {
            other.number: MomentSums(sum(len(net.columns[other.number]) for net in self.nets[:-1]), device=self.device)
            for other in ahead
        }
        for number in range(len(self.inputs) * bool(ahead)):
            values = [
                walk.ahead(number, net.weights, [net.layers[other.number].place for other in ahead])
                for net, walk in zip(self.nets[:-1], self.walks, strict=False)
            ]
            for other in ahead:
                z = side_by_side(other.neurons(values), sum_dtype(self.device), other.counted[number])
                sums[other.number].add(z)
        return {number: found.finish().zz for number, found in sums.items()}

    def targets(self, A: Tensor) -> Iterator[tuple[Values, Tensor]]:
        """For each batch: the fused network's values, and the targets z A (B, positions, d)."""
        for (ends, given, _), batch in zip(self.batches(), self.inputs, strict=True):
            views = [view.movedim(samples_axis(self.layer.end), 0) for view in self.neurons(ends)]
            z = self.voted(side_by_side(views, views[0].dtype))
            yield given, (z @ A.to(z)).view(len(batch[0]), -1, A.shape[1])

    def voted(self, z: Tensor) -> Tensor:
        """The parents' outputs, or the ensemble's answer in the place of each, in the same memory."""
        if self.votes is not None:
            logits = z[:, : len(self.votes)].unflatten(1, (len(self.widths), -1))
            said = of_ensemble(logits, self.votes.view(len(self.widths), -1))
            logits.copy_(said[:, None].expand_as(logits))
        return z

    def neurons(self, ends: Sequence[Values]) -> list[Tensor]:
        """Views, neurons last, of the parents' outputs at their ends."""
        return [
            values[layer.place].movedim(net.axes[self.number], -1)
            for net, layer, values in zip(self.nets, self.layers, ends, strict=False)
        ]


def side_by_side(views: Sequence[Tensor], dtype: torch.dtype, counted: Tensor | None = None) -> Tensor:
    """(N, columns) the rows of some tensors (..., columns) that count, converted in one pass over memory."""
    sizes = [view.shape[-1] for view in views]
    z = torch.empty(views[0].numel() // sizes[0], sum(sizes), dtype=dtype, device=views[0].device)
    for part, view in zip(z.split(sizes, 1), views, strict=True):
        part.view(view.shape).copy_(view)
    return _counted(z, counted)


def _counted(rows: Tensor, counted: Tensor | None) -> Tensor:
    """Those rows (N, ...) that count; what is the same for all samples, such as positions, counts once for each."""
    if counted is None:
        return rows
    return rows.repeat(len(counted) // len(rows), *[1] * (rows.ndim - 1))[counted]


def rows_in_chunks(
    layer: Layer, tensors: Sequence[Tensor], z: Tensor, counted: Tensor | None, dtype: torch.dtype
) -> Iterator[tuple[Tensor, Tensor]]:
    """Input rows (n, G, p) and z (n, m), some samples at a time."""
    total = len(z) if counted is None else len(counted)
    if counted is not None or layer.operations[0].x.meta.get("samples") not in (0, None):  # rows of a sample lie apart
        x = rows_of(layer, tensors, dtype)
        yield _counted(x, counted), z
        return
    positions = total // len(tensors[0])
    step = rows_per_batch(dtype.itemsize * positions * layer.parts * (layer.inputs + z.shape[1]), CHUNK_BYTES)
    chunks = zip(*(tensor.split(step) for tensor in tensors), strict=True)
    for some, rows in zip(chunks, z.split(step * positions), strict=True):
        yield rows_of(layer, some, dtype), rows
