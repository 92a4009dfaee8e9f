"""fuse(): Algorithm 1 of the paper, level by level, from moments."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ..networks.levels import Alive, Level
from ..networks.norm_statistics import reset_statistics
from ..system import device as devices
from ..system.registry import made, name_of
from ..system.runtime import Runtime
from ..system.settings import Value, setting
from .budget import check_memory
from .eligibility import check_inputs, output_shape
from .fit import FITS, Fit, Fitting, Groups, Ridge
from .fit.heads import head_groupings, read_back
from .grouping import (
    GROUPINGS,
    Grouper,
    Grouping,
    KMeans,
    SameIndex,
    alike,
    among,
    grouped,
    grouped_cost,
    grouped_within,
    part_gram,
)
from .importance import Importance, as_importance, check_covered, importance_name
from .importance.parents import check_parents_data, parents_scores
from .network_levels import Levels, check_groupings, cut_into_levels
from .results import FusionResult, LevelReport, level_report
from .targets import weighted_means
from .task import Algorithm, Cost, Takes, Task, carry_out
from .walk import Step, Walk


def fuse(
    models: Sequence[nn.Module],
    data: Any,
    *,
    grouping: str | Grouper | Callable[..., Grouping] = "kmeans",
    fit: str | Fit = "ridge",
    importance: str | Importance | Callable[..., Any] = "uniform",
    target: nn.Module | None = None,
    head: Literal["scores", "mean", "shares"] = "scores",
    scored: Literal["all", "head"] = "all",
    class_shares: Tensor | None = None,
    boundaries: str | int | Sequence[str] = "auto",
    leaves: Sequence[str] = (),
    logits: str | int | None = None,
    samples: int | None = None,
    seed: int = 0,
    runtime: Runtime | None = None,
) -> FusionResult:
    """Fuse trained networks into one by retrofitting (Luenam et al., Algorithm 1). The parents are left as they are.

    Args:
        models: the parents; parent 0 gives the architecture unless there is a target.
        data: fusion data: a tensor (B, ...), (inputs, labels), a DataLoader or a Dataset, normalised as in training.
        grouping: a value such as KMeans(restarts=10), a name in GROUPINGS, or a function of your own.
        fit: Ridge(...), Gradient(...), or a name in FITS.
        importance: a value such as Conductance(data, steps=50), a name in IMPORTANCE, or a function of your own.
        target: network of the fused architecture (widths); its weights do not matter to the closed form.
        head, scored: see `Retrofit`.
        class_shares: (n, classes) each parent's share of each class, for head="shares".
        boundaries, leaves: where levels end and what is taken whole, see `partition`; "auto" cuts behind every layer for
            the ridge, at blocks for gradient fits. Networks of unequal depth are aligned: see `cut_into_levels`.
        logits: which output is the logits, of networks that return a dict, a tuple or an object; default: the entry of that
            name, or the only tensor.
        samples: so many of the fusion data at most, the first ones; a loader is read no further.
        seed: decides k-means starts, batches and perturbation; the same seed gives the same weights.
        runtime: device, memory, monitor, journal.
    Raises:
        ValueError: what is asked cannot be done; raised before any work.
        Cancelled: the monitor asked for it.
    """
    retrofit = Retrofit(
        grouping=made(GROUPINGS, grouping, "grouping"),
        fit=made(FITS, fit, "fit"),
        head=head,
        scored=scored,
        boundaries=boundaries,
        leaves=tuple(leaves),
    )
    task = Task.of(
        models,
        data,
        samples,
        logits=logits,
        target=target,
        importance=as_importance(importance),
        class_shares=class_shares,
        seed=seed,
        runtime=runtime,
    )
    return carry_out(retrofit, task)


@dataclass(frozen=True, eq=False)
class FusionPlan:
    """Everything a fusion works on, checked."""

    task: Task
    levels: Levels

    def cost(self) -> Cost:
        """Passes and scores, level by level; grouping and fit give their own costs."""
        widths = tuple(self.levels.widths(index) for index in range(len(self.levels.fused)))
        return Cost(passes=len(self.task.inputs), scored=True, groups=widths)


@dataclass(frozen=True)
class Retrofit(Algorithm):
    """Level by level: group the parents' neurons, take each group's mean, and fit the fused level to it."""

    takes: ClassVar[Takes] = Takes(
        target=True, importance=True, class_shares=True, memory=True, levels=True, other_depths=True
    )
    parts: ClassVar[Mapping[str, Mapping[str, type[Any]]]] = {"grouping": GROUPINGS, "fit": FITS}

    grouping: Grouper | Callable[..., Grouping] = field(default_factory=KMeans)
    fit: Fit = field(default_factory=Ridge)
    head: Literal["scores", "mean", "shares"] = setting(
        "scores",
        "targets of the class head: scores (weighted by importance, Algorithm 1), mean, or shares (of the training samples)",
    )
    scored: Literal["all", "head"] = setting(
        "all", "levels whose neurons are weighed by their importance: all, or the class head alone"
    )
    boundaries: str | int | Sequence[str] = field(default="auto")
    leaves: tuple[str, ...] = setting((), "submodules to take whole, for parts that torch.fx cannot trace")

    @property
    def needs_shares(self) -> bool:
        """Whether it needs each parent's share of each class."""
        return self.head == "shares"

    def plan(self, task: Task) -> FusionPlan:
        """Cut parents and fused network into levels and refuse what cannot be fused; see `Algorithm`."""
        check_inputs(
            task.parents,
            task.inputs,
            target=task.target,
            least=self.fit.least_samples,
            method=f"fit={name_of(FITS, self.fit)!r}",
        )
        automatic = isinstance(self.boundaries, str) and self.boundaries == "auto"
        levels = cut_into_levels(
            task.parents,
            task.inputs,
            target=task.target,
            device=task.device,
            boundaries=self.fit.levels if automatic else self.boundaries,
            leaves=self.leaves,
        )
        check_groupings(levels, self.grouping)
        self.fit.check(levels.fused, levels.parents, task.inputs[:2].to(task.device, task.dtype))
        for parent in levels.parents:
            check_covered(task.importance, parent)
        self._check_shares(task, levels)
        check_parents_data(task.importance, task.parents_data(), output_shape(task.parents[0], task.inputs, "parent 0"))
        if task.runtime.contributors is not None and not self.fit.needs_inputs:
            raise ValueError(
                f"fit={name_of(FITS, self.fit)!r} works on this process's samples alone, and others contribute theirs. Use "
                "fit='ridge'."
            )
        _check_contributors(task, levels)
        check_memory(levels.networks, len(task.inputs), task.runtime.memory, name_of(FITS, self.fit))
        return FusionPlan(task, levels)

    def _check_shares(self, task: Task, levels: Levels) -> None:
        expected = (len(levels.parents), levels.fused[-1].width)
        if self.head != "shares" and task.class_shares is not None:
            raise ValueError(f"class_shares do nothing with head={self.head!r}. Use head='shares', or leave them out.")
        if self.head == "shares" and (task.class_shares is None or tuple(task.class_shares.shape) != expected):
            raise ValueError(
                f"head='shares' needs class_shares of shape {expected}: each parent's share of each class."
            )

    @torch.no_grad()
    def run(self, plan: FusionPlan) -> FusionResult:
        """Algorithm 1."""
        start = time.perf_counter()
        task, levels, runtime = plan.task, plan.levels, plan.task.runtime
        monitor, journal, device = runtime.monitor, runtime.journal, task.device
        inputs = task.inputs.to(task.dtype)
        others = runtime.contributors
        add_up = others.add_up if others is not None and others.adds_up else None
        scored = parents_scores(levels.parents, task.importance, task.parents_data(), device, monitor, add_up=add_up)
        scores = levels.joined([parent.values for parent in scored])
        products = self.fit.products(inputs.dtype, device)
        clock = devices.Stopwatch(device)
        walk = Walk(
            levels.parents,
            levels.fused,
            inputs,
            device=device,
            memory=runtime.memory,
            stopwatch=clock,
            monitor=monitor,
            contributors=runtime.contributors,
        )
        finished = list(journal.finished) if journal else []
        reports: list[LevelReport] = []
        heads: dict[int, Grouping] = {}  # of the levels that make queries, keys or values
        for step in monitor.each("level", walk):  # Algorithm 1, line 1: bottom-up; the fitted level feeds the next one
            if step.index < len(finished):
                reports.append(_take_over(step.level, *finished[step.index]))
                continue
            _carry(step, reports)
            fitting = self.fitting(plan, step, reports, clock)
            parts = fitting.parts if step.level.partwise else None
            # line 2: z of the parents, x of the fused network
            sums = step.moments(inputs=self.fit.needs_inputs, dtype=products, parts=parts)
            s = self.weights_of(step.parents, [parent[step.index] for parent in scores], task)  # line 3
            zz = sums.zz[: len(s), : len(s)]  # a stream that the level adds to stands behind the parents' neurons
            monitor.emit("phase", name="grouping", level=step.name)
            prepared = self.fit.prepare(fitting, sums)
            if step.level.heads is not None and step.index not in heads:
                heads |= self._heads(plan, step, reports, scores)
            with clock.phase("group"):
                # line 4: R_1 ... R_d
                groups = heads.get(step.index) or self._group(plan, fitting, prepared.gram, zz, s, scores)
                if groups.weights is not None:
                    groups = replace(groups, reading=read_back(groups.weights, zz))
                targets = groups.targets(s)  # lines 5-7: T = z A
            monitor.emit("phase", name="fit", level=step.name)
            fitted = prepared.fit(groups, targets, s)  # lines 8-9: the weights of the level
            facts = {"grouping": groups.report, "seconds": dict(clock.seconds), **fitted}
            facts["reading"] = groups.reading
            facts["weights"] = groups.weights.cpu() if groups.weights is not None else None
            facts["stream"] = levels.fused[step.level.stream].name if step.level.stream is not None else ""
            reports.append(level_report(step.level, step.widths, sums.rows, zz, s, groups.labels, targets, **facts))
            clock.seconds.clear()
            if journal is not None:
                weights = {name: tensor.detach() for name, tensor in step.level.module.state_dict().items()}
                journal.add(step.index, reports[-1], weights)
        for level in levels.fused:
            level.put_back()
        reset_statistics(levels.model, inputs, keep_function=True, batch=walk.batch, add_up=walk.pooled)
        seconds = time.perf_counter() - start
        return FusionResult(levels.model, reports, self.config(task), seconds, [parent.report for parent in scored])

    def fitting(
        self, plan: FusionPlan, step: Step, reports: Sequence[LevelReport], clock: devices.Stopwatch
    ) -> Fitting:
        """The input of a fit at one level, once the levels before it are fitted.

        Args:
            reports: of the levels before.
        """

        def groups(tensor: Alive) -> Groups | None:
            if tensor.maker < 0:
                return None
            made, stream = reports[tensor.maker], plan.levels.stream(tensor.maker)[0]
            return Groups(made.labels.to(step.device), made.widths, made.width, tensor.axis, stream)

        known = plan.levels.known_labels(step.index, lambda index: reports[index].labels)
        parts = plan.levels.known_parts(step.index, lambda index: reports[index].labels)
        return Fitting(
            step=step,
            before=tuple(map(groups, step.before.alive)) if step.before is not None else None,
            known=None if known is None else known.to(step.device),
            parts=None if parts is None else parts.to(step.device),
            branched=plan.levels.branched,
            attends=any(level.heads is not None for level in plan.levels.fused),
            first_parent_state={name: t for level in plan.levels.parents[0] for name, t in level.state().items()},
            generator=level_generator(plan.task.seed, step.index),
            monitor=plan.task.runtime.monitor,
            clock=clock,
        )

    def config(self, task: Task) -> dict[str, Any]:
        """Everything that decided the fused network, beside parents and data; as flat as the settings of a method."""
        parts: dict[str, Any] = {"grouping": self.grouping, "fit": self.fit, "importance": task.importance}
        names = {
            "grouping": name_of(GROUPINGS, self.grouping),
            "fit": name_of(FITS, self.fit),
            "importance": importance_name(task.importance),
        }
        settings = [part.to_json() for part in parts.values() if isinstance(part, Value)]
        return {
            **names,
            **self.to_json(),
            **{name: value for part in settings for name, value in part.items()},
            "boundaries": self.boundaries,
            "target": _spec(task.target),
            "class_shares": task.class_shares.tolist() if task.class_shares is not None else None,
            "seed": task.seed,
            "samples": len(task.inputs),
            "device": str(task.device),
            "memory": task.runtime.memory,
        }

    def weights_of(self, levels: Sequence[Level], parents: Sequence[Tensor], task: Task) -> Tensor:
        """(m,) the weights of a level's neurons, from each parent's level and scores there; of classes those of the head."""
        weights = [s.mean().expand_as(s).clone() if self.scored == "head" else s.clone() for s in parents]
        mean = torch.cat(list(parents)).mean().item()
        for k, (own, s, level) in enumerate(zip(weights, parents, levels, strict=True)):
            for places in (classes.to(s.device) for classes in level.classes):
                if self.head == "scores":
                    own[places] = s[places]
                elif task.class_shares is not None and len(places) == task.class_shares.shape[1]:
                    own[places] = task.class_shares[k].to(s)[:, None].expand(places.shape)
                else:
                    own[places] = mean
        return torch.cat(weights)

    def _group(
        self,
        plan: FusionPlan,
        fitting: Fitting,
        gram: Tensor,
        zz: Tensor,
        s: Tensor,
        scores: Sequence[Sequence[Tensor]],
    ) -> Grouping:
        step, level, widths = fitting.step, fitting.step.level, fitting.step.widths
        if level.fixed:  # class k stays class k
            return SameIndex()(gram, s, widths, level.width)
        if fitting.stream is not None:  # grouped where the stream begins
            labels = fitting.stream
            return Grouping(labels, level.width, grouped_cost(zz, s, labels, level.width), {"algorithm": "stream"})
        if not level.plain:
            return self._kinds(plan, fitting, gram, zz, s)
        stream, in_parts = plan.levels.stream(step.index), plan.levels.with_parts(step.index)
        begun = level.parts is not None and level.parts.first == step.index
        grams = {step.index: zz, **step.grams(sorted({*stream, *(in_parts if begun else ())} - {step.index}))}
        if level.stream is not None:
            gram = zz = alike(grams[index] for index in stream)
        if level.parts is not None:
            assigned = self._parts(plan, fitting, {k: grams[k] for k in in_parts}, scores) if begun else fitting.parts
            assert assigned is not None
            return grouped_within(self.grouping, gram, s, assigned, widths, level.parts.places, fitting.generator)
        # Gradient fits start at parent 0's weights, so its order must hold; for the others any order is as good.
        return grouped(self.grouping, gram, s, widths, level.width, fitting.generator, nearness=zz)

    def _kinds(self, plan: FusionPlan, fitting: Fitting, gram: Tensor, zz: Tensor, s: Tensor) -> Grouping:
        """The groups of a level whose neurons are of several kinds: each that begins here is grouped by itself."""
        levels, index, level = plan.levels, fitting.step.index, fitting.step.level
        labels = torch.full_like(s, -1, dtype=torch.int64) if fitting.known is None else fitting.known.clone()
        begin = [kind for which, kind in enumerate(level.kinds) if kind.first == (index, which)]
        later = {k for kind in begin for k in levels.makers(kind.first)} - {index}
        grams, cost, report = {index: zz, **fitting.step.grams(sorted(later))}, 0.0, dict[str, Any]()
        for kind in begin:
            places = levels.places(index, kind.first).to(s.device)
            raw = {k: among(grams[k], levels.places(k, kind.first)) for k in levels.makers(kind.first)}
            own = alike(raw.values()) if len(raw) > 1 else among(gram, places)
            widths = tuple(len(parent[index].kinds[kind.first[1]].places) for parent in levels.parents)
            scores = s[places[:, 0]]
            width = len(kind.places)
            groups = (
                SameIndex()(own, scores, widths, width)
                if kind.fixed
                else grouped(self.grouping, own, scores, widths, width, fitting.generator, nearness=raw[index])
            )
            labels[places] = kind.places.to(s.device)[groups.labels]
            cost, report = cost + groups.cost, groups.report
        return Grouping(labels, level.width, cost, {"algorithm": report.get("algorithm"), "kinds": len(level.kinds)})

    def _parts(
        self, plan: FusionPlan, fitting: Fitting, grams: Mapping[int, Tensor], scores: Sequence[Sequence[Tensor]]
    ) -> Tensor:
        """(m,) the fused network's part to which each neuron's part of a grouped convolution is assigned.

        Args:
            grams: inner products at all levels whose neurons lie in these parts.
        """
        levels, index, device = plan.levels, fitting.step.index, fitting.step.device
        of_neurons = {k: levels.parts_of(k).to(device) for k in grams}
        if self.scored == "head":
            scores = [[s.mean().expand_as(s) for s in parent] for parent in scores]
        sums = [
            torch.zeros(int(parts.max()) + 1, dtype=torch.float64, device=device).index_add_(
                0, parts, torch.cat([parent[k] for parent in scores]).to(device).double()
            )
            for k, parts in of_neurons.items()
        ]
        counts = [len(parts.places) for own in levels.networks if (parts := own[index].parts) is not None]
        groups = grouped(
            self.grouping,
            alike(part_gram(gram, of_neurons[k]) for k, gram in grams.items()),
            torch.stack(sums).mean(0),
            tuple(counts[:-1]),
            counts[-1],
            fitting.generator,
        )
        return groups.labels[of_neurons[index]]

    def _heads(
        self, plan: FusionPlan, step: Step, reports: Sequence[LevelReport], scores: Sequence[Sequence[Tensor]]
    ) -> dict[int, Grouping]:
        """Level -> groups, for the levels of the attention to which this one belongs."""
        assert step.level.heads is not None
        first = plan.levels.stream(step.level.heads.reader)[0]
        stream = _target_weights(reports[first]) if first < step.index else None
        generator = level_generator(plan.task.seed, min(step.level.heads.levels))
        if self.scored == "head":
            scores = [[s.mean().expand_as(s) for s in parent] for parent in scores]
        return head_groupings(step.walk, step.index, scores, stream, self.grouping, generator)


@torch.no_grad()
def _carry(step: Step, reports: Sequence[LevelReport]) -> None:
    """Give the parameters and buffers before a level's layers that hold numbers for each neuron (scale and shift of a LayerNorm,
    class token, positions, masks) the means of the parents', weighted as the targets of these neurons."""
    networks = [
        (level, {**dict(level.module.named_parameters()), **dict(level.module.named_buffers())})
        for level in (step.level, *step.parents)
    ]
    for number, fused in enumerate(step.level.carried):
        tensor, *others = (held[level.carried[number].name].movedim(fused.axis, -1) for level, held in networks)
        if all(other.shape == tensor.shape for other in others):  # entries of no neurons
            tensor.copy_(torch.stack([other.double() for other in others]).mean(0))
        for which, (maker, neurons, index) in enumerate(fused.makers):
            report = reports[maker]
            starts = [sum(report.widths[:k]) for k in range(len(others))]
            theirs = [parent.carried[number].makers[which] for parent in step.parents]
            members = torch.cat([start + positions for start, (_, positions, _) in zip(starts, theirs, strict=True)])
            for copy, places in enumerate(index.T):
                values = [other[..., at[:, copy]].double() for other, (*_, at) in zip(others, theirs, strict=True)]
                side_by_side = torch.cat(values, -1)
                weights = _target_weights(report).to(side_by_side)[members][:, neurons]
                tensor[..., places] = (side_by_side @ weights).to(tensor)


def _target_weights(report: LevelReport) -> Tensor:
    """(m, d) the weight of each parent neuron in the targets of a finished level."""
    if report.weights is not None:
        return report.weights
    return weighted_means(report.labels, report.scores, report.width).A


def level_generator(seed: int, index: int) -> torch.Generator:
    """The source of randomness of one level: a resumed run draws the same numbers there."""
    return torch.Generator().manual_seed((seed * 1_000_003 + index) % 2**63)


def _take_over(level: Level, report: LevelReport, weights: dict[str, Tensor]) -> LevelReport:
    level.module.load_state_dict({name: value.to(devices.of(level.module)) for name, value in weights.items()})
    return report


def _check_contributors(task: Task, levels: Levels) -> None:
    """Refuse levels that need other sums of the contributors than their moments, where they give no others."""
    contributors = task.runtime.contributors
    if contributors is None or contributors.adds_up:
        return
    for level in levels.fused:
        if level.residual or level.adds or level.function is not None or level.heads is not None:
            raise ValueError(
                f"level {level.name!r} belongs to a residual block or an attention, which need other sums than moments, "
                f"and {type(contributors).__name__} gives no others. Cut the networks so that blocks are not levels "
                "(boundaries=[module names]), or bring the data together."
            )


def _spec(target: nn.Module | None) -> Any:
    """The architecture of a target: its spec if it is one of ours, else the name of its class."""
    return None if target is None else getattr(target, "spec", type(target).__name__)
