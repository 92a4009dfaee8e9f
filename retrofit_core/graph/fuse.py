"""Algorithm 1 on graphs: layer by layer, group the parents' neurons, and fit the fused layer to the groups' means.

Legend: N rows, p inputs of the fused layer, m neurons of all parents side by side, d fused neurons.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..fusion.fit import Ridge
from ..fusion.fit.heads import read_back
from ..fusion.fit.ridge import IN_BLOCKS, WITH_ATTENTIONS
from ..fusion.grouping import Grouping, KMeans
from ..fusion.moments import (
    Moments,
    Rows,
    Solution,
    approximation_error,
    cross_error,
    dual_bytes,
    dual_is_cheaper,
    solve,
    squared_misses,
    unavoidable_error,
)
from ..fusion.results import Fitted, FusionResult, LevelReport, level_report
from ..fusion.targets import Targets
from ..fusion.walk import level_generator
from ..networks.norm_statistics import reset_statistics
from ..system import device as devices
from ..system.runtime import Runtime
from .activated import refined
from .graph import load
from .groups import Groups
from .heads import Heads, bases, head_sums, heads_of
from .layers import Layer, weight_of, write
from .network import Network, networks_of
from .tracing import Inputs, arguments, check_copy
from .walk import Step, Walk, side_by_side


def fuse(
    models: Sequence[nn.Module],
    inputs: Inputs,
    *,
    grouping: Callable[..., Grouping] | None = None,
    fit: Ridge | None = None,
    target: nn.Module | None = None,
    scores: Sequence[Sequence[Tensor]] | None = None,
    logits: Sequence[str | int] = (),
    seed: int = 0,
    runtime: Runtime | None = None,
) -> FusionResult:
    """Fuse trained networks into one, without changing the parents (Luenam et al., Algorithm 1).

    Args:
        models: the parents, in any mode; parent 0 determines the architecture unless there is a target.
        inputs: what they are called with: a tensor (B, ...), several by position, or several by name.
        grouping: default: k-means.
        fit: the ridge; it pulls to zero, and its `active`, `repair` and `refit=False` are not there yet.
        target: network of the fused architecture (widths).
        scores: of each parent, (width,) importance of the neurons of each layer; default: uniform.
        logits: names or places of the outputs that hold logits; default: the only one, or that of this name.
        seed: of k-means starts.
    Returns:
        A copy of parent 0, or of the target, with the fused weights, and a report for each layer.
    Raises:
        ValueError: the networks cannot be fused; before any work.
    """
    fit = fit or Ridge()
    if fit.active or fit.repair or not fit.refit or fit.toward == "parents":
        raise ValueError(
            "this kernel has no toward='parents', active, repair or refit=False yet: use retrofit_core.fuse."
        )
    fusion = Fusion.of(models, inputs, grouping or KMeans(), fit, target, scores, logits, seed, runtime or Runtime())
    with devices.exact(), torch.no_grad():
        return fusion.run()


@dataclass(eq=False)
class Fusion:
    """One fusion: `run` is Algorithm 1."""

    nets: list[Network]
    """Parents and, last, the fused network"""
    model: nn.Module
    """That becomes the fused one"""
    batches: list[list[Tensor]]
    tokens: list[Tensor | None]
    """For each batch, which tokens count"""
    groups: Groups
    fit: Ridge
    seed: int
    runtime: Runtime
    heads: list[list[Heads]]
    """The heads of each attention in each network"""
    carried: set[str] = field(default_factory=set)
    """Parameters and buffers that are not fitted and not yet written"""
    reports: list[LevelReport] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        models: Sequence[nn.Module],
        inputs: Inputs,
        grouping: Callable[..., Grouping],
        fit: Ridge,
        target: nn.Module | None,
        scores: Sequence[Sequence[Tensor]] | None,
        logits: Sequence[str | int],
        seed: int,
        runtime: Runtime,
    ) -> "Fusion":
        """Trace and check; no work."""
        device = devices.pick(runtime.device)
        model = copy.deepcopy(target if target is not None else models[0]).eval()
        of_device = [devices.on_device(parent, device) for parent in models]
        model.to(device)
        few = pytree.tree_map_only(Tensor, lambda tensor: tensor[:3].to(device), inputs)
        nets = networks_of(
            [*of_device, model], pytree.tree_map_only(Tensor, lambda tensor: tensor.to(device), inputs), logits
        )
        check_copy(model, nets[-1].graph, few, logits)
        _check_alike(nets)
        leaves = [leaf for leaf in pytree.tree_leaves(arguments(inputs)) if isinstance(leaf, Tensor)]
        size = min(net.batch() for net in nets)
        batches = [list(batch) for batch in zip(*(leaf.split(size) for leaf in leaves), strict=True)]
        counted = tokens_of(inputs)
        uniform = [[torch.full((len(c),), 1 / len(c)).double() for c in net.columns] for net in nets[:-1]]
        groups = Groups(nets, grouping, scores or uniform)
        sample = [leaf[:2].to(device) for leaf in leaves]
        attentions = zip(*(heads_of(net, sample) for net in nets), strict=True)
        fusion = cls(
            nets,
            model,
            batches,
            [None] * len(batches) if counted is None else list(counted.split(size)),
            groups,
            fit,
            seed,
            runtime,
            [list(of_nets) for of_nets in attentions if all(of_nets)],
        )
        fusion.carried = fusion._carried()
        for *_, ours in fusion.heads:  # their spaces are not grouped
            for number, places in ours.places:
                for space in nets[-1].columns[number][places.flatten(), 0].unique().tolist():
                    groups.keep(space)
        for space, writers in groups.writers.items():
            if not writers:
                groups.keep(space)
        return fusion

    def run(self) -> FusionResult:
        """Algorithm 1."""
        device, monitor = devices.pick(self.runtime.device), self.runtime.monitor
        walks = [Walk(net.graph, self.batches, device, self.runtime.memory) for net in self.nets]
        self._carry()
        clock = devices.Stopwatch(device)
        for number in monitor.each("level", range(len(self.fused.layers))):  # line 1: bottom-up
            step = Step(self.nets, walks, number, clock, self.tokens, self.batches)
            step.go(self.runtime.memory - self._bytes(number))
            self._fit_heads(step)
            report = self._table(step) if step.layer.table else self._layer(step)
            self.reports.append(replace(report, seconds=clock.read()))
        load(self.model, self.fused.weights)
        if len(self.batches[0]) == 1 and self.batches[0][0].is_floating_point():
            x = torch.cat([batch for (batch,) in self.batches])
            reset_statistics(self.model, x, keep_function=True, batch=len(self.batches[0][0]))
        return FusionResult(self.model, self.reports, {"seed": self.seed})

    @property
    def fused(self) -> Network:
        """The fused network."""
        return self.nets[-1]

    def _layer(self, step: Step) -> LevelReport:
        """Fuse one layer."""
        layer, groups, number = step.layer, self.groups, step.number
        begun, m, s = groups.begun(number), sum(step.widths), groups.of_layer(number).to(step.device)
        generator = level_generator(self.seed, number)
        grams = self._grams(step, begun)
        if begun and layer.mixes:
            self._group(step, begun, step.gram(), grams, generator)
            begun = []
        targets = groups.targets(number, s.cpu()).to(step.device).split(step.widths) if layer.mixes else ()
        # line 2: z of the parents, x of the fused network
        dtype = self.fit.products(next(iter(self.fused.weights.values())).dtype, step.device)
        sums = step.moments(dtype, self._parts_of_columns(step), self.runtime.memory, targets)
        with step.clock.phase("solve"):
            solution = self._solve(step, sums)
        cost, report = float("nan"), {"algorithm": "stream"}
        if begun:  # line 4: the groups, space by space
            with step.clock.phase("group"):
                gram = solution.gram if self.fit.project else sums.zz
                cost, report = self._group(step, begun, gram[:m, :m], {number: sums.zz[:m, :m], **grams}, generator)
        self._carry()
        if layer.mixes:
            return self._mixed(step, sums, solution, s)
        labels, basis = groups.labels_of(number).to(step.device), groups.bases.get(number)
        weights = None if basis is None else groups.targets(number, s.cpu()).to(step.device)
        reading = None if weights is None else read_back(weights, sums.zz[:m, :m])
        found = Grouping(labels, layer.width, cost, report, weights, reading)
        # lines 5-9: targets T = z A, and the weights of the layer
        with step.clock.phase("solve"):
            if layer.functions:
                fitted = self._activated(step, sums, solution, found.targets(s))
            else:
                fitted = _fitted(layer, self.fused.weights, sums, solution, found, s)
        with step.clock.phase("report"):
            return level_report(layer, step.widths, sums, s, found, fitted)

    def _table(self, step: Step) -> LevelReport:
        """A table has a row for each token, so means of the parents' rows are the targets of every token."""
        number, generator = step.number, level_generator(self.seed, step.number)
        zz, begun = step.gram(), self.groups.begun(step.number)
        if begun:
            self._group(step, begun, zz, {number: zz, **self._grams(step, begun)}, generator)
        self._carry()
        s = self.groups.of_layer(number).to(step.device)
        rows = sum(len(batch[0]) for batch in self.batches)
        sums = Moments(zz, zz.new_zeros(len(zz)), zz.new_zeros(0, 0), zz.new_zeros(0, len(zz)), rows, False)
        labels = self.groups.labels_of(number).to(step.device)
        return level_report(
            step.layer, step.widths, sums, s, Grouping(labels, step.layer.width, 0.0), Fitted("lookup", 0.0, 0.0, 0.0)
        )

    # --- groups -----------------------------------------------------------------------------------------------------------------

    def _group(
        self, step: Step, begun: Sequence[int], gram: Tensor, grams: Mapping[int, Tensor], generator: torch.Generator
    ) -> tuple[float, dict[str, Any]]:
        """Group the spaces that begin at a layer."""
        grams, cost, report = {step.number: gram, **grams}, 0.0, dict[str, Any]()
        for space in begun:
            family = self.fused.spaces[space].family
            if family is not None and family not in self.groups.parts:
                self.groups.group_parts(space, grams, generator)
            own, report = self.groups.group(space, step.number, gram, grams, generator)
            cost += own
        return cost, report

    def _grams(self, step: Step, begun: Sequence[int]) -> dict[int, Tensor]:
        """(m, m) the parents' inner products at later layers with which a layer's neurons are compared, for which they run
        ahead."""
        later = {k for space in begun for k in self.groups.compared(space)}
        for space in begun:
            family = self.fused.spaces[space].family
            if family is not None and family not in self.groups.parts:
                later |= set(self.groups.family(space))
        ahead = [
            Step(self.nets, step.walks, k, step.clock, self.tokens, self.batches) for k in sorted(later - {step.number})
        ]
        if not ahead:
            return {}
        sums = {other.number: 0.0 for other in ahead}
        for number in range(len(self.batches)):
            values = [
                walk.ahead(number, net.weights, [net.layers[other.number].place for other in ahead])
                for net, walk in zip(self.nets[:-1], step.walks, strict=False)
            ]
            for other in ahead:
                z = side_by_side(other.neurons(values), devices.sum_dtype(step.device), other.counted[number])
                sums[other.number] = sums[other.number] + (z.T @ z).double()
        return sums

    def _parts_of_columns(self, step: Step) -> Tensor | None:
        """(m,) the fused part of a grouped convolution of each column of z; None if there are no parts."""
        layer, groups = step.layer, self.groups
        if layer.parts == 1:
            return None
        each, columns = layer.width // layer.parts, self.fused.columns[step.number]
        if layer.mixes:
            own = torch.arange(layer.width) // each
            return torch.cat([own, own] if layer.stream else [own]).to(step.device)
        space = int(columns[0, 0])
        if space >= 0 and self.fused.spaces[space].family is not None:
            parts = torch.empty(sum(step.widths), dtype=torch.int64)
            parts[groups.places(space, step.number)[0]] = groups.part_of(space)[:, None]
        else:
            parts = groups.labels_of(step.number) // each
        own = torch.arange(layer.width) // each
        return torch.cat([parts, own] if layer.stream else [parts]).to(step.device)

    # --- fit --------------------------------------------------------------------------------------------------------------------

    @cached_property
    def strength(self) -> float | str:
        """The ridge, which depends on the kind of network."""
        if self.fit.ridge == "auto" and self.fused.branched:
            return WITH_ATTENTIONS if self.heads else IN_BLOCKS
        return self.fit.ridge

    def _solve(self, step: Step, sums: Moments | Rows) -> Solution:
        """Every parent neuron's own fit; or the means of the parents' own weights."""
        mapped = self._mapped(step) if self.fit.needs_parents_weights else None
        solution = solve(sums, self.strength, toward=mapped if self.fit.toward == "parents" else None)
        if mapped is not None and not self.fit.refit:
            solution = replace(solution, weights=lambda A: mapped @ A, missed=partial(squared_misses, sums))
        return solution

    def _mapped(self, step: Step) -> Tensor:
        """W0 (p, m): the parents' weights for the fused network's inputs; then zeros for the stream."""
        raise ValueError("toward='parents' is not there yet.")

    def _activated(self, step: Step, sums: Moments | Rows, solution: Solution, targets: Targets) -> Fitted:
        """Fit a layer first to the outputs of the parents' layers, then to what is missing after the function."""
        layer, net, m, d = step.layer, self.fused, sum(step.widths), step.layer.width
        first = torch.cat([targets.A.new_zeros(m + d * bool(layer.stream), d), targets.A])
        x, missing = [], []
        dtype = next(iter(net.weights.values())).dtype
        stream = -torch.eye(d, dtype=torch.float64, device=step.device)[: d * bool(layer.stream)]
        from .walk import _chunks

        for ends, given, counted in step.batches():
            views = step.outputs(ends, given, dtype)[: len(self.nets) - 1 + bool(layer.stream)]
            z = side_by_side(views, dtype, counted)
            for rows, some in _chunks(layer, [given[op.x] for op in layer.operations], z, counted, dtype):
                x.append(rows[:, 0])
                missing.append(some @ torch.cat([targets.A, stream]).to(some))

        def function(u: Tensor) -> Tensor:
            """What is done to each output before the sum."""
            for node in layer.functions:
                u = net.graph.run(net.weights, {node.all_input_nodes[0]: u}, [node])[node]
            return u

        xx = sums.x.T @ sums.x if isinstance(sums, Rows) else sums.xx
        V = refined(
            xx, sums.bias, solution.weights(first), solution.strength, function, [*zip(x, missing, strict=True)]
        )
        write(layer, net.weights, V)
        return Fitted(sums.form, float("nan"), ridge=solution.strength)

    def _mixed(self, step: Step, sums: Moments | Rows, solution: Solution, s: Tensor) -> LevelReport:
        """Write a layer that mixes positions, whose z are targets."""
        layer = step.layer
        d = layer.width
        missing = torch.cat([torch.eye(d), -torch.eye(d)][: 1 + bool(layer.stream)]).double().to(step.device)
        V = solution.weights(missing)
        write(layer, self.fused.weights, V)
        ones = torch.ones(d, dtype=torch.float64, device=step.device)
        groups = Grouping(torch.arange(d, device=step.device), d, float("nan"))
        fitted = Fitted(sums.form, approximation_error(sums, Targets(missing, ones), V), 0.0, solution.strength)
        return level_report(layer, (d,), sums, ones, groups, fitted)

    # --- heads ------------------------------------------------------------------------------------------------------------------

    def _fit_heads(self, step: Step) -> None:
        """Targets of the queries, keys and values of the attentions that begin at a layer."""
        for of_nets in self.heads:
            *theirs, ours = of_nets
            if step.number != min(ours.layers):
                continue
            groups, parents = self.groups, self.nets[:-1]
            generator = level_generator(self.seed, step.number)
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
            for number in weights:
                groups.bases[number] = weights[number], labels[number]

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
        return sum(
            self.groups.of_layer(number).split([len(c) for c in self.groups.columns(number)[:-1]])[net][places].sum(1)
            for number, places in heads.places
        )

    # --- what is not fitted -----------------------------------------------------------------------------------------------------

    def _carried(self) -> set[str]:
        """Parameters and buffers that no layer writes."""
        fitted = [op for layer in self.fused.layers if not layer.table for op in layer.operations]
        entries = [part for op in fitted for part in (op.weight, op.bias, op.scales) if part is not None]
        written = {name for part in entries for name in part.names} | {name for op in fitted for name in op.vectors}
        return {
            name
            for name in self.fused.graph.weights
            if name not in written and self.fused.weights[name].is_floating_point()
        }

    def _carry(self) -> None:
        """Write parameters that are not fitted, once the groups of all their neurons are known: means along neuron axes."""
        for name in sorted(self.carried):
            tensor = self.fused.weights[name]
            axes = [
                axis for axis in range(tensor.ndim) if any((name, axis) in space.axes for space in self.fused.spaces)
            ]
            found = [self.groups.along(name, axis) for axis in axes]
            if any(of_axis is None for of_axis in found):
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


def _fitted(
    layer: Layer, weights: dict[str, Tensor], sums: Moments | Rows, solution: Solution, groups: Grouping, s: Tensor
) -> Fitted:
    """Write the weights for the groups' targets, less the stream, into a layer."""
    targets = groups.targets(s)
    stream = -torch.eye(layer.width, dtype=torch.float64, device=s.device)[: layer.width * bool(layer.stream)]
    missing = replace(targets, A=torch.cat([targets.A, stream]))
    V = solution.weights(missing.A)
    write(layer, weights, V)
    labels, missed = groups.labels, solution.missed(missing.A, V)
    untouched = approximation_error(sums, missing, torch.zeros_like(V)) if layer.stream else float("nan")
    if groups.reading is not None:  # heads: compare each neuron with its reconstruction from the targets
        missing, V = Targets(missing.A @ groups.reading, s), V @ groups.reading
        labels, missed = torch.arange(len(s), device=s.device), None
    return Fitted(
        sums.form,
        approximation_error(sums, missing, V, missed),
        unavoidable_error(sums.minus(labels), s),
        solution.strength,
        cross_error(sums, s, labels, missing, V),
        untouched,
    )


def _nearest(A: Tensor) -> Tensor:
    """(n,) the column in which each row has most weight; one to one as far as possible."""
    from ..fusion.grouping.assignment import assigned

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


def _check_alike(nets: Sequence[Network]) -> None:
    """Check that layers and spaces of all networks correspond."""
    *parents, fused = nets
    for number, net in enumerate(parents):
        if len(net.layers) != len(fused.layers) or len(net.spaces) != len(fused.spaces):
            raise ValueError(
                f"parent {number} has {len(net.layers)} layers and the fused network {len(fused.layers)}; they must correspond "
                "one to one. Use a target of the parents' depth."
            )
        for own, ours in zip(net.layers, fused.layers, strict=True):
            one, other = (
                {(int(space), int(copies)) for space, _, copies in of.columns[of.layers.index(layer)].tolist()}
                for of, layer in ((net, own), (fused, ours))
            )
            if one != other or own.kind != ours.kind:
                raise ValueError(
                    f"layer {ours.name!r}: its neurons are joined to others than in parent {number}, so they do not correspond. "
                    "Give all of them one architecture."
                )
