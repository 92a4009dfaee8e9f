"""fuse(): Algorithm 1 of the paper, level by level, from moments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from torch import nn

from ..graph.fuse import Fusion
from ..networks.inputs import count_of
from ..networks.outputs import Which
from ..system.registry import as_value, name_of
from ..system.runtime import Runtime
from ..system.settings import Value, setting
from .correspondence import groups_in_words
from .eligibility import check_inputs, check_outputs
from .fit import FITS, Fit, Ridge
from .grouping import GROUPINGS, Grouper, Grouping, KMeans
from .importance import Importance, Scores, as_importance, importance_name
from .results import FusionResult
from .task import Algorithm, Plan, Takes, Task, carry_out

Head = Literal["scores", "mean", "ensemble"]


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
    logits: Which | None = None,
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
        logits: the output that holds the logits, if networks return a dict, a tuple or an object, or a list of several, each of
            which is fitted as the last layer (by the closed form); default: the entry of that name, or the only tensor.
        samples: maximum number of fusion samples, taken from the start; a loader is read no further.
        seed: seed of k-means starts, batches and perturbation; the same seed gives the same weights.
        runtime: device, memory, monitor.
    Raises:
        ValueError: the fusion is impossible; raised before any work.
        Cancelled: the monitor requested it.
    """
    retrofit = Retrofit(
        grouping=as_value(GROUPINGS, grouping, "grouping"),
        fit=as_value(FITS, fit, "fit"),
        head=head,
        scored=scored,
        centre=centre,
    )
    task = Task.of(
        models,
        data,
        samples,
        logits=logits,
        target=target,
        importance=as_importance(importance),
        seed=seed,
        runtime=runtime,
    )
    return carry_out(retrofit, task)


@dataclass(frozen=True, eq=False, repr=False)
class FusionPlan(Plan):
    """Checked inputs of a fusion layer by layer. It is carried out once."""

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

    takes: ClassVar[Takes] = Takes(target=True, importance=True, memory=True, levels=True, other_depths=True)
    parts: ClassVar[Mapping[str, Mapping[str, type[Any]]]] = {"grouping": GROUPINGS, "fit": FITS}

    grouping: Grouper | Callable[..., Grouping] = field(default_factory=KMeans)
    fit: Fit = field(default_factory=Ridge)
    head: Head = setting(
        "scores",
        "what the fused network should say: the mean of the parents' class scores by importance (scores, as in Algorithm "
        "1), or equally (mean); or what their ensemble says, by importance (ensemble)",
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

    def plan(self, task: Task) -> FusionPlan:
        """Trace parents and fused network and check that they can be fused; see `Algorithm`."""
        check_inputs(
            task.parents,
            task.inputs,
            target=task.target,
            least=self.fit.least_samples,
            method=f"fit={name_of(FITS, self.fit)!r}",
        )
        if not (isinstance(self.fit, Ridge) and task.has_several_outputs):
            check_outputs([*task.parents, *([task.target] if task.target is not None else [])], task.inputs)
        return FusionPlan(task, fusion=Fusion(self, task))

    def run(self, plan: FusionPlan) -> FusionResult:
        """Algorithm 1."""
        result = plan.fusion.run()
        return replace(result, config=self.config(plan.task) | result.config)

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
            "seed": task.seed,
            "samples": count_of(task.inputs),
            "device": str(task.device),
            "memory": task.runtime.memory,
        }
