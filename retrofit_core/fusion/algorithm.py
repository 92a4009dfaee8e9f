"""fuse(): Algorithm 1 of the paper, level by level, from moments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ..graph.fuse import Fusion
from ..networks.levels import BOUNDARIES, Level, read_boundaries
from ..networks.norm_statistics import reset_statistics
from ..networks.outputs import check_class_scores
from ..networks.packing import TakingPacked, taking
from ..networks.wrappers import wrapper_of
from ..system.refusals import Refusal
from ..system.registry import made, name_of
from ..system.runtime import Runtime
from ..system.settings import Value, setting
from .centring import parents_means, recentred
from .correspondence import groups_in_words
from .eligibility import check_inputs, check_outputs, output_shape
from .fit import FITS, Fit, Ridge
from .grouping import GROUPINGS, Grouper, Grouping, KMeans
from .importance import Importance, Neurons, Scores, as_importance, importance_name
from .importance.scoring import check_parents_data, parents_scores
from .joint_spaces import Levels
from .network_levels import check_groupings, cut_into_levels
from .results import FusionResult, LevelReport, level_report
from .search import Search
from .task import Algorithm, Plan, Takes, Task, carry_out
from .walk import Step, Walk

Head = Literal["scores", "mean", "shares", "ensemble"]


def fuse(
    models: Sequence[nn.Module],
    data: object,
    *,
    grouping: str | Grouper | Callable[..., Grouping] = "kmeans",
    fit: str | Fit = "ridge",
    importance: str | Importance | Callable[..., Any] = "uniform",
    target: nn.Module | None = None,
    head: Head = "scores",
    scored: Literal["all", "head"] = "all",
    centre: bool = False,
    class_shares: Tensor | None = None,
    boundaries: str | int | Sequence[str] = "auto",
    leaves: Sequence[str] = (),
    logits: str | int | None = None,
    samples: int | None = None,
    seed: int = 0,
    runtime: Runtime | None = None,
) -> FusionResult:
    """Fuse trained networks into one by retrofitting (Luenam et al., Algorithm 1), without changing the parents.

    Args:
        models: the parents; parent 0 determines the architecture unless there is a target.
        data: fusion data: a tensor (B, ...), (inputs, labels), a DataLoader or a Dataset, normalised as in training.
        grouping: a value such as KMeans(restarts=10), a name in GROUPINGS, or a function of your own.
        fit: Ridge(...), Gradient(...), or a name in FITS.
        importance: a value such as Conductance(data, steps=50), a name in IMPORTANCE, or a function of your own.
        target: network of the fused architecture (widths); the closed form ignores its weights.
        head, scored, centre: see `Retrofit`.
        class_shares: (n, classes) each parent's share of each class, for a head by shares.
        boundaries, leaves: where levels end and which submodules are not cut, see `partition`; "auto" cuts after every
            layer for the ridge, at blocks for gradient fits. `cut_into_levels` aligns networks of unequal depth.
        logits: the output that holds the logits, if networks return a dict, a tuple or an object; default: the entry of
            that name, or the only tensor.
        samples: maximum number of fusion samples, taken from the start; a loader is read no further.
        seed: seed of k-means starts, batches and perturbation; the same seed gives the same weights.
        runtime: device, memory, monitor.
    Raises:
        ValueError: the fusion is impossible; raised before any work.
        Cancelled: the monitor requested it.
    """
    retrofit = Retrofit(
        grouping=made(GROUPINGS, grouping, "grouping"),
        fit=made(FITS, fit, "fit"),
        head=head,
        scored=scored,
        centre=centre,
        boundaries=boundaries if isinstance(boundaries, (str, int)) else tuple(boundaries),
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


@dataclass(frozen=True, eq=False, repr=False)
class FusionPlan(Plan):
    """Checked inputs of a fusion by levels."""

    levels: Levels = field(kw_only=True)
    scored: Sequence[Scores] | None = field(default=None, kw_only=True)
    """The parents' scores, if already known"""

    def scores(self) -> Sequence[Scores]:
        """Importance of the parents' neurons."""
        task = self.task
        return self.scored or parents_scores(
            self.levels.parents, task.importance, task.parents_data(), task.device, task.runtime.monitor
        )

    def lines(self) -> list[str]:
        """The task, and for each space its first level, its neurons and how it is grouped."""
        spaces = [
            f"{self.levels.fused[space.first].name}: {' + '.join(map(str, space.widths))} -> {space.width}, {space.way}"
            for space in self.levels.spaces
        ]
        return [self.task.headline, *spaces]


@dataclass(frozen=True, eq=False, repr=False)
class GraphPlan(Plan):
    """Checked inputs of a fusion by closed form, whose networks are graphs. It is carried out once."""

    fusion: Fusion = field(kw_only=True)

    def scores(self) -> Sequence[Scores]:
        """Importance of the parents' neurons."""
        return self.fusion.scores()

    def lines(self) -> list[str]:
        """The task, and for each space its first layer, its neurons and how it is grouped."""
        return [self.task.headline, *groups_in_words(self.fusion.groups)]


@dataclass(frozen=True)
class Retrofit(Algorithm):
    """For each level, group the parents' neurons, average each group, and fit the fused level to these means."""

    takes: ClassVar[Takes] = Takes(
        target=True, importance=True, class_shares=True, memory=True, levels=True, other_depths=True
    )
    parts: ClassVar[Mapping[str, Mapping[str, type[Any]]]] = {"grouping": GROUPINGS, "fit": FITS}

    grouping: Grouper | Callable[..., Grouping] = field(default_factory=KMeans)
    fit: Fit = field(default_factory=Ridge)
    head: Head = setting(
        "scores",
        "what the fused network should say: the mean of the parents' class scores by importance (scores, as in Algorithm "
        "1), equally (mean), or by each parent's share of the class's training samples (shares); or what their ensemble "
        "says, by importance (ensemble)",
        title="Targets of the classes",
    )
    scored: Literal["all", "head"] = setting(
        "all",
        "where importance weights the neurons: at all levels, or only at the class head",
        title="Weight by importance",
    )
    centre: bool = setting(
        False,
        "subtract from each parent's logits their means over the fusion samples and the importance data, so that a parent "
        "that knows few classes does not overrule the others",
        title="Centre the parents' logits",
    )
    boundaries: str | int | tuple[str, ...] = setting(
        "auto",
        "auto (after every layer, or after blocks for Gradient methods), "
        f"{', '.join(BOUNDARIES)}, a number of levels, or names of modules",
        read=read_boundaries,
        title="Where levels end",
    )
    leaves: tuple[str, ...] = setting(
        (),
        "names of submodules to fuse as a whole, for code that torch.fx cannot trace",
        title="Modules fused as a whole",
    )

    @property
    def needs_shares(self) -> bool:
        """Whether it needs each parent's share of each class."""
        return self.head == "shares"

    def plan(self, task: Task) -> FusionPlan | GraphPlan:
        """Cut parents and fused network into levels and check that they can be fused; see `Algorithm`."""
        check_inputs(
            task.parents,
            task.inputs,
            target=task.target,
            least=self.fit.least_samples,
            method=f"fit={name_of(FITS, self.fit)!r}",
        )
        if isinstance(self.fit, Ridge):
            check_outputs([*task.parents, *([task.target] if task.target is not None else [])], task.inputs)
            for name, usual in {"boundaries": ("auto", "layers"), "leaves": ((),)}.items():
                if (value := getattr(self, name)) not in usual:
                    raise Refusal(
                        f"{name}={value!r} say what the levels of a gradient fit are; the closed form fits every layer. Leave "
                        "them out, or use fit='gradient' (HF-Gradient, KF-Gradient).",
                        ("method", "KF-Gradient"),
                    )
            return GraphPlan(task, fusion=Fusion(self, task))
        levels = cut_into_levels(
            task.parents,
            task.inputs,
            target=task.target,
            device=task.device,
            boundaries=self.fit.levels if self.boundaries == "auto" else self.boundaries,
            leaves=self.leaves,
        )
        check_groupings(levels, self.grouping)
        self.fit.check(levels, task.inputs[:2].to(task.device, task.dtype))
        for parent in levels.parents:
            task.importance.check(Neurons.of(parent))
        self.check_shares(task, levels.fused[-1].width)
        votes = self.head == "ensemble"
        shape = output_shape(task.parents[0], task.inputs, "parent 0") if self.centre or votes else ()
        if self.centre:
            classes = check_class_scores(shape, "centring", "Leave centre out.")
            recentred(task, [[0.0] * classes] * len(task.parents))
        if votes:
            check_class_scores(shape, "head='ensemble'", "Use head='scores'.", ("head", "scores"))
        check_parents_data(task)
        levels.check_memory(len(task.inputs), task.runtime.memory, name_of(FITS, self.fit))
        return FusionPlan(task, levels=levels)

    def check_shares(self, task: Task, classes: int) -> None:
        """Check that class shares are given where the head needs them, and nowhere else.

        Raises:
            ValueError: they are missing, of another shape, or without effect.
        """
        expected = (len(task.parents), classes)
        if not self.needs_shares and task.class_shares is not None:
            raise ValueError(
                f"class_shares have no effect with head={self.head!r}. Use head='shares', or leave them out."
            )
        if self.needs_shares and (task.class_shares is None or tuple(task.class_shares.shape) != expected):
            raise ValueError(
                f"head={self.head!r} needs class_shares of shape {expected}: each parent's share of each class."
            )

    @torch.no_grad()
    def run(self, plan: FusionPlan | GraphPlan) -> FusionResult:
        """Algorithm 1."""
        if isinstance(plan, GraphPlan):
            result = plan.fusion.run()
            model, packed = result.model, wrapper_of(plan.task.parents[0], TakingPacked)
            if packed is not None and plan.task.packing is None:  # the caller packed
                model = taking(model, packed.packing)
            return replace(result, model=model, config=self.config(plan.task) | result.config)
        means = parents_means(plan.task) if self.centre else None
        if means is not None:
            centred = replace(self, centre=False).plan(recentred(plan.task, means))
            assert isinstance(centred, FusionPlan)
            plan = replace(centred, scored=plan.scored)
        task, levels, runtime = plan.task, plan.levels, plan.task.runtime
        walk = Walk(levels, task.inputs, runtime, seed=task.seed, tokens=task.tokens)
        scored = plan.scores()
        scores = levels.joined([parent.values for parent in scored])
        search = Search(levels, self.grouping, [[self._weighing(s) for s in parent] for parent in scores])
        for step in runtime.monitor.each("level", walk):  # line 1: bottom-up; the fitted level feeds the next one
            step.carry()
            s = self.weights_of(step.parents, [parent[step.index] for parent in scores], task)  # line 3
            step.finish(self._level(self.voted(step, s), search, s))
        for level in levels.fused:
            level.put_back()
        reset_statistics(levels.model, walk.inputs, batch=walk.batch)
        importance = [parent.report for parent in scored]
        config = self.config(task) | ({"mean_logits": means} if self.centre else {})
        return FusionResult(levels.model, walk.reports, config, importance=importance)

    def _level(self, step: Step, search: Search, s: Tensor) -> LevelReport:
        """Fuse one level."""
        # line 2: z of the parents, x of the fused network
        sums = step.moments(inputs=self.fit.needs_inputs, dtype=self.fit.products(step.walk.dtype, step.device))
        step.emit("grouping")
        solution = self.fit.solve(step, sums)
        with step.walk.stopwatch.phase("group"):
            groups = search.groups(step, solution.gram, sums, s)  # line 4: R_1 ... R_d, space by space
        step.emit("fit")
        fitted = self.fit.fit(step, sums, solution, groups, s)  # lines 5-9: targets T = z A, weights of the level
        return level_report(step.level, step.widths, sums, s, groups, fitted)

    def voted(self, step: Step, s: Tensor) -> Step:
        """The step, whose targets are the ensemble's answers if that is asked for and the level is the last one."""
        return replace(step, votes=s) if self.head == "ensemble" and step.level.head else step

    def _weighing(self, s: Tensor) -> Tensor:
        """(width,) a parent's scores at a level as weights of its neurons."""
        return s.mean().expand_as(s).clone() if self.scored == "head" else s.clone()

    def config(self, task: Task) -> dict[str, Any]:
        """Everything that determines the fused network besides parents and data, as flat as a method's settings."""
        settings: dict[str, Any] = {}
        for part in (self.grouping, self.fit, task.importance):
            settings |= part.to_json() if isinstance(part, Value) else {}
        return {
            "grouping": name_of(GROUPINGS, self.grouping),
            "fit": name_of(FITS, self.fit),
            "importance": importance_name(task.importance),
            **self.to_json(),
            **settings,
            "target": task.target_spec,
            "class_shares": task.class_shares.tolist() if task.class_shares is not None else None,
            "seed": task.seed,
            "samples": len(task.inputs),
            "device": str(task.device),
            "memory": task.runtime.memory,
        }

    def weights_of(self, levels: Sequence[Level], parents: Sequence[Tensor], task: Task) -> Tensor:
        """(m,) weights of a level's neurons, from each parent's level and scores; classes get those of the head."""
        weights = [self._weighing(s) for s in parents]
        mean = torch.cat(list(parents)).mean()
        for k, (weight, s, level) in enumerate(zip(weights, parents, levels, strict=True)):
            for places in (classes.to(s.device) for classes in level.classes):
                if self.head in ("scores", "ensemble"):
                    weight[places] = s[places]
                elif task.class_shares is not None and len(places) == task.class_shares.shape[1]:
                    weight[places] = task.class_shares[k].to(s)[:, None].expand(places.shape)
                else:
                    weight[places] = mean
        return torch.cat(weights)
