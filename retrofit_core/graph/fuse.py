"""Algorithm 1 on graphs: layer by layer, group the parents' neurons, and fit the fused layer to the groups' means.

Legend: N rows, p inputs of the fused layer, m neurons of all parents side by side, d fused neurons.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..fusion.correspondence import aligned, check_alike, check_groupings
from ..fusion.fit import Gradient, Ridge
from ..fusion.grouping import Grouping, assigned, level_generator
from ..fusion.importance import Scores
from ..fusion.importance.scoring import check_scores, parents_scores
from ..fusion.moments import dual_bytes, dual_is_cheaper
from ..fusion.results import Fitted, FusionResult, LevelReport, level_report
from ..fusion.task import Task
from ..networks.inputs import Inputs, batches_of, leaves_of, moved, rows_of
from ..networks.outputs import check_class_scores, say_what_is_left
from ..system import device as devices
from ..system.device import in_units
from ..system.duplicates import duplicate
from .blocks import ByDescent, in_blocks
from .centring import bias_of_logits, mean_logits
from .fit import ClosedForm, fitted
from .graph import load
from .groups import Groups
from .heads import Heads, bases, head_sums, heads_of, read_back, with_joined_heads
from .layers import Layer, weight_of
from .network import Network, networks_of
from .norms import reset_statistics
from .tracing import check_copy
from .walk import Step, Walk


class Fusion:
    """One fusion: making it traces and checks, without work; `run` is Algorithm 1.

    Args:
        method: a `Retrofit`.
        task: parents and data.
    Raises:
        ValueError: the networks cannot be fused; before any work.
    """

    def __init__(self, method: Any, task: Task) -> None:
        self.method, self.task, self.device = method, task, task.device
        #: The parents' scores, once they are known
        self.scored: Sequence[Scores] = ()
        self.model = duplicate(task.target if task.target is not None else task.parents[0]).eval().to(self.device)
        of_device = [*(devices.on_device(parent, self.device) for parent in task.parents), self.model]
        inputs = task.inputs
        half = any(leaf.is_floating_point() and leaf.dtype != task.dtype for leaf in leaves_of(inputs))
        ready = moved(rows_of(inputs, slice(9)) if half else inputs, self.device, task.dtype)
        descends = isinstance(method.fit, Gradient)
        nets = networks_of(of_device, ready, opaque=descends)
        say_what_is_left(task.parents[0], nets[-1].graph.weights)
        check_copy(self.model, nets[-1].graph, rows_of(ready, slice(3)))
        leaves, sample = leaves_of(inputs), [leaf[:2] for leaf in leaves_of(ready)]
        #: The heads of each attention in each network
        self.heads: list[list[Heads]] = []
        #: Parameters and buffers that are not fitted and not yet written
        self.carried = _carried(nets[-1])
        if descends:
            nets = [*map(in_blocks, nets)]
        else:
            attentions = heads_of(nets, sample)
            if len({(len(net.layers), len(of_net)) for net, of_net in zip(nets, attentions, strict=True)}) == 1:
                self.heads = [list(of_nets) for of_nets in zip(*attentions, strict=True) if all(of_nets)]
            if self.heads:  # networks of other numbers of heads correspond, too
                nets = [with_joined_heads(net, own) for net, *own in zip(nets, *self.heads, strict=True)]
        nets = aligned(nets, apart=descends)
        check_alike(nets)
        self.nets, self.fused = nets, nets[-1]  # parents and, last, the fused network
        size, counted = min(net.batch() for net in nets), tokens_of(inputs)
        self.batches = batches_of(leaves, size)
        #: For each batch, which tokens count
        self.tokens = [None] * len(self.batches) if counted is None else list(counted.split(size))
        self.groups = Groups(nets, method.grouping)
        self.form: ClosedForm | ByDescent
        if isinstance(method.fit, Ridge):
            self.form = ClosedForm(method.fit, self.groups, bool(self.heads))
        else:
            assert isinstance(method.fit, Gradient)
            self.form = ByDescent(method.fit, self.groups, self.model)
        self._check_classes()
        #: The bias of each parent's logits, if these are centred
        self.biases = [
            bias_of_logits(net.graph, net.weights, sample, f"parent {k}")
            for k, net in enumerate(nets[:-1])
            if method.centre
        ]
        self.own_data = task.parents_data()
        check_scores(nets[:-1], task.importance, self.own_data)
        self.reports: list[LevelReport] = []
        kept = {space for space, writers in self.groups.writers.items() if not writers}
        if descends:  # blocks train their parameters, and keep parent 0's buffers inside
            spaces = enumerate(self.fused.spaces.spaces)
            self.carried &= {
                name for k, space in spaces if k not in kept for name, _ in space.axes
            } - self.fused.graph.trained
        for *_, ours in self.heads:  # their spaces are not grouped
            for number, places in ours.places:
                kept |= set(self.fused.columns[number][places.flatten(), 0].tolist())
        for space in kept:
            self.groups.keep(space)
        check_groupings(self.groups)
        self._check_memory()

    def _check_memory(self) -> None:
        """Check that each layer's sums fit the memory budget."""
        memory = self.task.runtime.memory
        for number, layer in enumerate(self.fused.layers):
            if (need := self._bytes(number)) > memory:
                raise ValueError(
                    f"level {layer.name!r} needs {in_units(need)} for its sums, but the budget is {in_units(memory)}. Allow at "
                    f"least memory={need} bytes in Python, or fuse narrower networks."
                )

    def _check_classes(self) -> None:
        """Check that the outputs are class scores where the head needs them."""
        method = self.method
        for output in self.fused.graph.outputs if method.head.startswith("ensemble") else ():
            shape = self.fused.spaces.neurons.shape(output)[1:]
            check_class_scores(shape, f"head={method.head!r}", "Use head='scores'.", ("head", "scores"))

    @torch.no_grad()
    def run(self) -> FusionResult:
        """Algorithm 1."""
        device, memory, monitor = self.device, self.task.runtime.memory, self.task.runtime.monitor
        config: dict[str, Any] = {}
        if self.biases:
            config["mean_logits"] = means = mean_logits(self.nets[:-1], self.batches, self.own_data)
            for net, name, mean in zip(self.nets, self.biases, means, strict=False):
                net.weights[name] = net.weights[name] - torch.tensor(mean).to(net.weights[name])
        scored = self.scores()
        alike = self.method.scored == "head"
        self.groups.scores = [[s.mean().expand_as(s) if alike else s for s in parent.values] for parent in scored]
        walks = [Walk(net.graph, self.batches, device, memory) for net in self.nets]
        if isinstance(self.form, ByDescent):
            self.form.start()
        self._carry()
        clock = devices.Stopwatch(device)
        for number, _ in enumerate(monitor.each("level", self.fused.layers)):  # line 1: bottom-up
            raw = [parent.values[number] for parent in scored]
            s = self.groups.weights(number, raw, self.method.head).to(device)  # line 3
            votes = s if self.method.head.startswith("ensemble") and number in self.fused.last else None
            generator = level_generator(self.task.seed, number)
            step = Step(self.nets, walks, number, clock, self.tokens, self.batches, generator, votes)
            step.go(step.layer.reads, memory - self._bytes(number))
            self._fit_heads(step)
            self.reports.append(replace(self._layer(step, s), stream=self._stream(number), seconds=clock.read()))
        reset_statistics(self.fused.graph, self.fused.weights, self.batches)
        load(self.model, self.fused.weights)
        return FusionResult(self.model, self.reports, config, importance=[parent.report for parent in scored])

    def scores(self) -> Sequence[Scores]:
        """Scores of the parents' neurons, see `parents_scores`."""
        task = self.task
        return self.scored or parents_scores(self.nets[:-1], task.importance, self.own_data, task.runtime.monitor)

    def _layer(self, step: Step, s: Tensor) -> LevelReport:
        """Fuse one layer.

        Args:
            s: (m,) weights of its neurons.
        """
        layer, groups, number, m = step.layer, self.groups, step.number, sum(step.widths)
        begun, cost, report = groups.begun(number), float("nan"), groups.report_of(number)
        emit, clock = self.task.runtime.monitor.emit, step.clock
        grams = self._grams(step, begun)
        raw = layer.table or layer.mixes or isinstance(self.form, ByDescent) or (layer.channelwise and bool(begun))
        dtype = next(iter(self.fused.weights.values())).dtype
        if raw:  # the neurons are grouped by the parents' outputs alone
            sums = step.of_neurons(dtype if isinstance(self.form, ByDescent) else torch.float64)
            cost, report = self._group(step, begun, sums.zz, {number: sums.zz, **grams}) or (cost, report)
        if isinstance(self.form, ClosedForm) and not layer.table:  # line 2: z of the parents, x of the fused network
            dtype = self.form.fit.products(dtype, step.device)
            parts = groups.parts_of_columns(number)
            parts = None if parts is None else parts.to(step.device)
            targets = [A.to(step.device) for A in groups.of_positions(number)] if layer.mixes else ()
            sums = step.moments(dtype, parts, self.task.runtime.memory, targets)
            with clock.phase("solve"):
                solution = self.form.solve(step, sums, parts)
        emit("phase", name="grouping", level=layer.name)
        if not raw:  # line 4: the groups, space by space
            cost, report = self._group(step, begun, solution.gram, {number: sums.zz[:m, :m], **grams}) or (cost, report)
        self._carry()
        emit("phase", name="fit", level=layer.name)
        # lines 5-9: targets T = z A, and the weights of the layer
        with clock.phase("solve"):
            basis = groups.bases.get(number)
            weights = None if basis is None else groups.targets(number, s.cpu()).to(step.device)
            reading = None if weights is None else read_back(weights, sums.zz[:m, :m])
            found = Grouping(groups.labels_of(number).to(step.device), layer.width, cost, report, weights, reading)
            if isinstance(self.form, ByDescent):
                result = self.form.fitted(step, found, s, self.task.runtime.monitor)
            elif layer.table:  # it has a row for each token: means of the parents' rows are the targets of every token
                result = Fitted("lookup", 0.0, 0.0, 0.0)
            else:
                result = fitted(step, sums, solution, found, s)
        with clock.phase("report"):
            return level_report(layer, step.widths, sums, s, found, result)

    def _stream(self, number: int) -> str:
        """The name of the layer at which a layer's only space began, if others make its neurons too."""
        spaces = self.fused.columns[number][:, 0].unique().tolist()
        alone = len(spaces) == 1 and spaces[0] >= 0 and not self.fused.layers[number].mixes
        alone = alone and number not in self.groups.bases  # queries and keys, which share the space of their heads
        writers = self.groups.writers[spaces[0]] if alone else []
        return self.fused.layers[writers[0]].name if len(writers) > 1 else ""

    # --- groups -----------------------------------------------------------------------------------------------------------------

    def _group(
        self, step: Step, begun: Sequence[int], gram: Tensor, grams: Mapping[int, Tensor]
    ) -> tuple[float, dict[str, Any]] | None:
        """Group the spaces that begin at a layer; their cost, and facts about the search. None if none begin."""
        cost, report = 0.0, dict[str, Any]()
        with step.clock.phase("group"):
            for space in begun:
                family = self.fused.spaces[space].family
                if family is not None and family not in self.groups.parts:
                    self.groups.group_parts(space, grams, step.generator)
                own, report = self.groups.group(space, step.number, gram, grams, step.generator)
                cost += own
        if not self.groups.plain(step.number):
            kinds = len(self.fused.columns[step.number][:, 0].unique())
            report = {"algorithm": report.get("algorithm"), "kinds": kinds}
        return (cost, report) if begun else None

    def _grams(self, step: Step, begun: Sequence[int]) -> dict[int, Tensor]:
        """(m, m) the parents' inner products at later layers with which a layer's neurons are compared, for which they run
        ahead."""
        later = {k for space in begun for k in self.groups.compared(space)}
        for space in begun:
            family = self.fused.spaces[space].family
            if family is not None and family not in self.groups.parts:
                later |= set(self.groups.family(space))
        return step.grams(later - {step.number})

    # --- heads ------------------------------------------------------------------------------------------------------------------

    def _fit_heads(self, step: Step) -> None:
        """Targets of the queries, keys and values of the attentions that begin at a layer."""
        for of_nets in self.heads:
            *theirs, ours = of_nets
            if step.number != min(ours.layers):
                continue
            groups, parents = self.groups, self.nets[:-1]
            generator = level_generator(self.task.seed, step.number)
            sums = head_sums(parents, step.walks[:-1], theirs, self.tokens)
            s = torch.cat([self._head_scores(net, own) for net, own in enumerate(theirs)]).to(step.device)
            found, blocks = bases(theirs, ours, sums, s, self._outgoing(theirs, ours), groups.grouping, generator)
            weights, labels = {}, {}
            for role, (net, rows, columns, A) in blocks:
                number = ours.places[role][0]
                widths = [len(columns) for columns in groups.columns(number)]
                if number not in weights:
                    weights[number] = torch.zeros(sum(widths[:-1]), widths[-1], dtype=torch.float64)
                    labels[number] = torch.zeros(sum(widths[:-1]), dtype=torch.int64)
                rows = sum(widths[:net]) + rows
                weights[number][rows[:, None], columns] = A
                labels[number][rows] = columns[_nearest(A)]
            report = {**found.report, "heads": found.labels.tolist(), "heads_cost": found.cost}
            for number in weights:
                groups.bases[number], groups.reports[number] = (weights[number], labels[number]), report

    def _outgoing(self, theirs: Sequence[Heads], ours: Heads) -> Tensor:
        """(D, n) weights of what reads the values, to the fused stream if its groups are known, else to each parent's own
        neurons."""
        weights = []
        for net, own in zip(self.nets, theirs, strict=False):
            V = weight_of(Layer([own.reader], own.reader.value), net.weights)
            weights.append(V[own.reads.flatten().to(V.device)].T)
        outgoing = torch.block_diag(*weights)
        reader = next(k for k, layer in enumerate(self.fused.layers) if ours.reader in layer.operations)
        columns = self.fused.columns[reader]
        if columns[:, 0].min() >= 0 and self.groups.labels.keys() >= set(columns[:, 0].tolist()):
            outgoing = self.groups.targets(reader, self.groups.of_layer(reader)).T.to(outgoing) @ outgoing
        return outgoing

    def _head_scores(self, net: int, heads: Heads) -> Tensor:
        """(H,) sums of the scores of a parent's neurons."""
        scores: Any = sum(
            self.groups.of_layer(number).split([len(c) for c in self.groups.columns(number)[:-1]])[net][places].sum(1)
            for number, places in heads.places
        )
        return scores

    # --- what is not fitted -----------------------------------------------------------------------------------------------------

    def _carry(self) -> None:
        """Write parameters that are not fitted, once the groups of all their neurons are known: means along neuron axes."""
        for name in sorted(self.carried):
            tensor = self.fused.weights[name]
            axes = [
                axis for axis in range(tensor.ndim) if any((name, axis) in space.axes for space in self.fused.spaces)
            ]
            found = [of_axis for axis in axes if (of_axis := self.groups.along(name, axis)) is not None]
            if len(found) < len(axes):
                continue
            total = torch.zeros((), dtype=torch.float64, device=tensor.device)
            for net, parent in enumerate(self.nets[:-1]):
                mean = parent.weights[name].double()
                for number, (axis, of_parents) in enumerate(zip(axes, found, strict=True)):
                    A = of_parents[net].to(mean)
                    A = A if number == len(axes) - 1 else A / A.sum(0).clamp_min(1e-300) * (A.sum(0) > 0)
                    mean = (mean.movedim(axis, -1) @ A).movedim(-1, axis)
                total = total + (mean if axes else mean / (len(self.nets) - 1))
            self.fused.weights[name] = total.to(tensor.dtype).contiguous()
            self.carried.discard(name)

    def _bytes(self, number: int) -> int:
        """Of a layer's sums and the solver's matrices, in the cheaper of the two forms."""
        layer, net = self.fused.layers[number], self.fused
        m = sum(len(columns) for columns in self.groups.columns(number)[:-1]) + layer.width * bool(layer.stream)
        if layer.table:
            return 16 * m * m
        samples, shape = sum(len(batch[0]) for batch in self.batches), net.spaces.neurons.shape(layer.end)
        n, p = samples * shape.numel() // layer.width, layer.inputs
        primal = 8 * (3 * layer.parts * p * p + 3 * p * m + 2 * m * m)
        return min(primal, dual_bytes(n, p, m)) if dual_is_cheaper(n, p, m) and layer.parts == 1 else primal


def _carried(net: Network) -> set[str]:
    """Parameters and buffers that no layer writes."""
    fitted = [op for layer in net.layers if not layer.table for op in layer.operations]
    written = {name for op in fitted for name in (*op.names, *op.vectors)}
    return {name for name in net.graph.weights if name not in written and net.weights[name].is_floating_point()}


def _nearest(A: Tensor) -> Tensor:
    """(n,) the column in which each row has most weight; one to one as far as possible."""
    labels = A.abs().argmax(1)
    rows, columns = assigned(A.abs(), maximize=True)
    labels[rows] = columns
    return labels


def tokens_of(inputs: Inputs) -> Tensor | None:
    """(B, T) which tokens are not padding, by the input `attention_mask` of zeros and ones; None: all, or it is not known."""
    if not isinstance(inputs, Mapping) or any(name.startswith("decoder") for name in inputs):
        return None
    mask = inputs.get("attention_mask")
    if (
        not isinstance(mask, Tensor)
        or mask.ndim != 2
        or not ((mask == 0) | (mask == 1)).all()
        or (mask == mask[:1, :1]).all()
    ):
        return None
    return mask == 1
