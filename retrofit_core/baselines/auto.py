"""Try several fusions and return the best of them and of the parents on held-out samples; ours, not the paper's."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from ..data.sampling import balanced
from ..fusion.algorithm import FusionPlan, Retrofit
from ..fusion.eligibility import check_inputs, check_outputs
from ..fusion.fit import Gradient, Ridge
from ..fusion.grouping import Hungarian
from ..fusion.importance import Conductance, Importance, Scores, Uniform
from ..fusion.results import FusionResult
from ..fusion.task import Algorithm, Plan, Takes, Task, planned
from ..networks.outputs import check_class_scores
from ..networks.statedicts import tensors_in
from ..system.duplicates import duplicate
from ..system.labels import check_classes, class_labels
from ..system.monitor import Cancelled, Event
from ..system.refusals import Refusal
from ..system.registry import first_line
from ..system.settings import Range, setting
from .distillation import Distilled, logits_of

ACTIVE = Ridge(active=True, repair=True)
#: Title -> fusion and score. The first ones that accept the parents are tried. Chosen by measurement, see
#: docs/findings_beyond.md.
CANDIDATES: dict[str, tuple[Retrofit, type[Importance]]] = {
    "KF-Linear, conductance, active, repair": (Retrofit(fit=ACTIVE), Conductance),
    "KF-Linear, uniform, active, repair, ensemble": (Retrofit(fit=ACTIVE, head="ensemble"), Uniform),
    "KF-Linear, conductance, active, repair, centre": (Retrofit(fit=ACTIVE, centre=True), Conductance),
    "KF-Linear, uniform, active, repair, centre, ensemble": (
        Retrofit(fit=ACTIVE, centre=True, head="ensemble"),
        Uniform,
    ),
    "KF-Linear, conductance": (Retrofit(), Conductance),
    "KF-Linear, conductance, centre": (Retrofit(centre=True), Conductance),
    "HF-Linear, uniform, ensemble": (Retrofit(grouping=Hungarian(), head="ensemble"), Uniform),
    "KF-Linear, uniform, ensemble": (Retrofit(head="ensemble"), Uniform),
}
#: Used if no closed form accepts the parents.
OTHERWISE = "KF-Gradient, uniform"


def _trial(title: str, task: Task) -> tuple[Retrofit, FusionPlan]:
    """A candidate and its plan.

    Raises:
        ValueError: it does not accept the parents, or weights neurons and there are no data for that.
    """
    retrofit, score = CANDIDATES.get(title, (Retrofit(fit=Gradient()), Uniform))
    if score.needs_data and task.importance.data is None:
        raise ValueError("conductance needs labelled data of each parent. Pass importance_data.")
    importance = score(data=task.importance.data) if score.needs_data else score()
    return retrofit, planned(retrofit, replace(task, importance=importance))


#: Different samples that it needs.
FEWEST = 4


@dataclass(frozen=True, eq=False, repr=False)
class AutoPlan(Plan):
    """The split of the samples, and the candidates that accept the parents."""

    deciding: tuple[Tensor, Tensor | None] = field(kw_only=True)
    """Held-out samples: inputs (V, ...), and labels (V,) if all samples have them"""
    trials: Mapping[str, tuple[Retrofit, FusionPlan]] = field(kw_only=True)
    """Candidates that accept the parents, in the order of trying them"""
    left_out: Mapping[str, str] = field(kw_only=True)
    """Candidates that do not accept the parents, and why"""
    distilled: Distilled | None = field(kw_only=True)
    """Training of the best fusion, if any"""

    def lines(self) -> list[str]:
        """The task, what is tried, and what is left out."""
        tried = [f"tries {title}" for title in self.trials]
        trained = ["trains the best of them"] * (self.distilled is not None)
        left_out = [f"leaves out {title}: {why}" for title, why in self.left_out.items()]
        return [self.task.headline, *tried, *trained, f"decides on {len(self.deciding[0])} samples", *left_out]


@dataclass(frozen=True)
class Auto(Algorithm):
    """Tries a few fusions, trains the best one as KF-Linear-KD does, and returns the best of all these and the parents.

    All samples at hand count as fusion samples, those of the parents' own data, too. It chooses on held-out ones, to which no
    fusion is fitted. If all have labels, accuracy decides, and otherwise agreement with the ensemble. All classes count
    equally; `worth` estimates those without samples. Of equals, a parent wins over a fusion, and then the first one tried.
    Levels and their errors are those of the chosen fusion; a parent has none.
    """

    takes: ClassVar[Takes] = Takes(
        target=True, parents_data=True, other_depths=True, any_architecture=True, memory=True, tries=True
    )
    title: ClassVar[str] = "Auto"

    held_out: float = setting(
        0.25,
        "share of the samples held out from every fusion, to choose the best",
        Range(0, 1, without_low=True, without_high=True),
    )
    tries: int = setting(3, "maximum number of fusions to try", Range(1, 4), title="Maximum fusions")
    distil: bool = setting(
        True,
        "also train the best fusion as in KF-Linear-KD, if there are samples of all classes to judge whether that "
        "helps",
        title="Train the best fusion",
    )

    def plan(self, task: Task) -> AutoPlan:
        """Split the samples and plan every candidate; see `Algorithm`."""
        check_inputs(task.parents, task.inputs, target=task.target, least=2, method=self.title, written=())
        classes = check_class_scores(
            check_outputs(task.parents, task.inputs), "Auto", "Use KF-Linear.", ("method", "KF-Linear")
        )
        for inputs, labels in [(task.inputs, task.labels), *task.parents_data()]:
            if labels is not None and len(inputs):
                check_classes(class_labels(labels, "Auto"), classes, "Auto", instead=", or none")
        if (different := len(task.samples()[0])) < FEWEST:
            raise Refusal(
                f"Auto judges fusions by samples that none of them saw, and only {different} of the {len(task.inputs)} samples "
                "can be told from the others. Pass more different ones, or use KF-Linear.",
                ("method", "KF-Linear"),
            )
        kept, decide = self.split(task)
        monitor = task.runtime.monitor.changed(_as_step)
        rest = replace(task, inputs=kept[0], labels=kept[1], runtime=replace(task.runtime, monitor=monitor))
        trials, left_out = dict[str, tuple[Retrofit, FusionPlan]](), dict[str, str]()
        for title in (*CANDIDATES, OTHERWISE):
            if len(trials) < (1 if title == OTHERWISE else self.tries):
                with _noting(left_out, title):
                    trials[title] = _trial(title, rest)
        if not trials:
            raise Refusal(
                f"no fusion accepts these networks. KF-Gradient: {left_out[OTHERWISE].rstrip('.')}. KD "
                "and Ensemble only run the parents: use one of these.",
                ("method", "KD"),
                ("method", "Ensemble"),
            )
        distilled = Distilled() if self.distil and Distilled().samples(rest) > 1 else None
        return AutoPlan(task, deciding=decide, trials=trials, left_out=left_out, distilled=distilled)

    def split(self, task: Task) -> Sequence[tuple[Tensor, Tensor | None]]:
        """The samples to which fusions are fitted, and those held out, balanced over classes if known: inputs, and labels if all
        have them."""
        inputs, labels = task.samples()
        count = len(inputs)
        number = min(max(1, round(self.held_out * count)), count - 1)
        classes = torch.zeros(count) if labels is None else labels
        rows = balanced(classes, number, generator=torch.Generator().manual_seed(task.seed))
        held = torch.zeros(count, dtype=torch.bool).index_fill_(0, rows, True)
        return [(inputs[rows], None if labels is None else labels[rows]) for rows in (~held, held)]

    @torch.no_grad()
    def run(self, plan: AutoPlan) -> FusionResult:
        """Measure the parents, fuse and measure each candidate, train the best one, and return the best of all."""
        task = plan.task
        monitor, device = task.runtime.monitor, task.device
        inputs, labels = plan.deciding
        inputs = inputs.to(device, task.dtype)
        logits = logits_of(task.parents, inputs, device, monitor).cpu()  # (n, V, classes)
        truth = logits.softmax(2).mean(0).argmax(1) if labels is None else labels
        parents = torch.stack([by_class(answers, truth) for answers in logits])
        results, fused, left_out = dict[str, FusionResult](), dict[str, float](), dict(plan.left_out)

        def measured(title: str, result: FusionResult) -> None:
            right = by_class(logits_of([result.model], inputs, device, monitor)[0].cpu(), truth)
            results[title], fused[title] = result, right.nanmean().item()

        scores: Sequence[Scores] | None = None
        rest = next(iter(plan.trials.values()))[1].task

        def tried(title: str, retrofit: Retrofit, fusion: FusionPlan) -> None:
            nonlocal scores
            monitor.emit("phase", name=title)
            if fusion.task.importance.needs_data:
                scores = scores or fusion.scores()  # conductance does not depend on centring
                fusion = replace(fusion, scored=scores)
            measured(title, retrofit.run(fusion))

        for title, trial in plan.trials.items():
            with _noting(left_out, title):
                tried(title, *trial)
        if not results and OTHERWISE not in plan.trials:
            with _noting(left_out, OTHERWISE):
                tried(OTHERWISE, *_trial(OTHERWISE, rest))
        if results and plan.distilled is not None and not parents[0].isnan().any():
            best = max(fused, key=lambda title: fused[title])
            title = f"{best}, distilled"
            with _noting(left_out, title):
                student = replace(results[best], model=duplicate(results[best].model))
                measured(title, plan.distilled.trained(student, rest))
        alone = worth(parents, len(truth))
        found = {f"parent {k}": right for k, right in enumerate(alone.tolist()) if _is_like_target(task, k)} | fused
        if not found:
            raise ValueError(f"no fusion of these networks was possible. {_reasons(left_out)} Use KD or Ensemble.")
        chosen = max(found, key=lambda name: found[name])  # the first of equals
        facts = {
            "choice": _sentence(chosen, found, len(truth), labels is not None, left_out),
            "chosen": results[chosen].config if chosen in results else {},
            "candidates": {name: 100 * score for name, score in found.items()},
            "left_out": left_out,
            "seed": task.seed,
            "samples": len(task.inputs),
        }
        if chosen in results:
            best_of_all = results[chosen]
            result = self.result(best_of_all.model, task, **facts)
            return replace(result, levels=best_of_all.levels, importance=best_of_all.importance)
        parent = duplicate(task.parents[int(chosen.removeprefix("parent "))])
        return self.result(parent.to(device).eval(), task, **facts)


@contextmanager
def _noting(left_out: dict[str, str], title: str) -> Iterator[None]:
    """Note an exception as the reason to leave a candidate out, and go on: it must not cost the others."""
    try:
        yield
    except Cancelled:
        raise
    except Exception as error:
        failed = f"failed: {type(error).__name__}: {first_line(error)}"
        left_out[title] = str(error) if isinstance(error, ValueError) else failed


def by_class(logits: Tensor, truth: Tensor) -> Tensor:
    """(classes,) accuracy of logits (V, classes) on each class's samples; NaN if it has none."""
    classes = logits.shape[1]
    counts = torch.bincount(truth, minlength=classes)
    return torch.bincount(truth, (logits.argmax(1) == truth).double(), minlength=classes) / counts


def worth(parents: Tensor, samples: int) -> Tensor:
    """Estimate the parents' accuracies over all classes from those on classes with samples.

    If classes are missing, the samples may be of some parents' own classes, on which these look too good. The other parents'
    accuracy there is the best guess of a parent's accuracy on classes that are not its own, so their mean replaces the
    missing ones. Classes that a random draw of this size misses by chance do not count as missing.

    Args:
        parents: (n, classes) accuracies, NaN for a class without samples.
        samples: number of samples.
    Returns:
        (n,) from 0 to 1.
    """
    count, classes = parents.shape
    own, chance = parents.nanmean(1), (1 - 1 / classes) ** samples
    missing = ((parents[0].isnan().double().mean() - chance) / (1 - chance)).clamp_min(0)
    others = (own.sum() - own) / (count - 1) if count > 1 else own
    return own + missing * (others - own)


def _is_like_target(task: Task, parent: int) -> bool:
    """Whether a parent has the target's shapes, so that it may be returned itself."""
    if task.target is None:
        return True
    shapes = [
        {name: tensor.shape for name, tensor in tensors_in(network).items()}
        for network in (task.parents[parent], task.target)
    ]
    return shapes[0] == shapes[1]


def _as_step(event: Event) -> Event:
    """A candidate's levels as steps, because they are not those of the result."""
    return {**event, "kind": "step", "name": "levels"} if event["kind"] == "level" else event


def _sentence(
    chosen: str, scores: Mapping[str, float], samples: int, labelled: bool, left_out: Mapping[str, str]
) -> str:
    """What was chosen and why, and what was left out."""
    ranked = sorted(scores, key=lambda name: -scores[name])
    others = "; ".join(f"{name} {100 * scores[name]:.1f}" for name in ranked if name != chosen)
    told = "right" if labelled else "as the ensemble says"
    sentence = (
        f"Auto chose {chosen}: class by class {100 * scores[chosen]:.1f} % of {samples} samples that no fusion saw "
        f"are {told}{f' ({others})' if others else ''}."
    )
    return f"{sentence} {_reasons(left_out)}" if left_out else sentence


def _reasons(left_out: Mapping[str, str]) -> str:
    """The candidates that were left out, and the first sentences of the reasons."""
    reasons: dict[str, list[str]] = {}
    for title, why in left_out.items():
        reasons.setdefault(why.split(". ")[0].removesuffix("."), []).append(title)
    return "Left out: " + "; ".join(f"{' and '.join(titles)} ({why})" for why, titles in reasons.items()) + "."
