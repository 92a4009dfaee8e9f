"""Try several fusions and return the best of them and of the parents on held-out samples; ours, not the paper's."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

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
from ..networks.inputs import Inputs, contents, count_of, moved, rows_of
from ..networks.outputs import SEVERAL, answers, check_class_scores
from ..networks.statedicts import tensors_in
from ..system.duplicates import duplicate
from ..system.labels import check_classes, class_labels, why_no_labels
from ..system.monitor import Cancelled, Event
from ..system.refusals import Refusal
from ..system.registry import first_line
from ..system.settings import Range, setting
from .averaging import Averaging
from .distillation import logits_of
from .regmean import RegMean

ACTIVE = Ridge(active=True, repair=True)
Trial = tuple[Algorithm, type[Importance]]
#: Title -> fusion and score. The first ones that accept the parents are tried. Chosen by measurement, see
#: docs/findings_beyond.md.
CANDIDATES: dict[str, Trial] = {
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
#: Tried beside these, where the parents have one shape: with a common ancestor they are ahead.
MEANS: dict[str, Trial] = {
    "Average": (Averaging(reset_norms=True), Uniform),
    "RegMean": (RegMean(reset_norms=True), Uniform),
}
#: Used if no closed form accepts the parents.
OTHERWISE: dict[str, Trial] = {"KF-Gradient, uniform": (Retrofit(fit=Gradient()), Uniform)}
#: Fewer held-out samples decide nothing: the first of `UNSEEN` that accepts the parents is taken.
DECIDING = 30
UNSEEN: dict[str, Trial] = {
    "KF-Linear, conductance": (Retrofit(), Conductance),
    "KF-Linear, uniform": (Retrofit(), Uniform),
}


def _trial(trial: Trial, task: Task, fitted: Any) -> tuple[Algorithm, Plan]:
    """A candidate and its plan.

    Args:
        fitted: the parents' own data without the held-out samples, or None.
    Raises:
        ValueError: it does not accept the parents, or weights neurons and there are no data for that.
    """
    method, score = trial
    if score.needs_data and task.importance.data is None:
        raise ValueError("conductance needs labelled data of each parent. Pass importance_data.")
    own = fitted if method.takes.parents_data else task.importance.data if score.needs_data else None
    importance = score(data=own)
    return method, planned(method, replace(task, importance=importance))


#: Different samples that it needs.
FEWEST = 4


@dataclass(frozen=True, eq=False, repr=False)
class AutoPlan(Plan):
    """The split of the samples, and the candidates that accept the parents."""

    deciding: tuple[Inputs, Tensor | None] = field(kw_only=True)
    """Held-out samples: inputs, and labels (V,) if all samples have them"""
    trials: Mapping[str, tuple[Algorithm, Plan]] = field(kw_only=True)
    """Candidates that accept the parents, in the order of trying them"""
    left_out: Mapping[str, str] = field(kw_only=True)
    """Candidates that do not accept the parents, and why"""

    def lines(self) -> list[str]:
        """The task, what is tried, and what is left out."""
        tried = [f"tries {title}" for title in self.trials]
        left_out = [f"leaves out {title}: {why}" for title, why in self.left_out.items()]
        return [self.task.headline, *tried, f"decides on {count_of(self.deciding[0])} samples", *left_out]


@dataclass(frozen=True)
class Auto(Algorithm):
    """Tries a few fusions, and returns the best of them and the parents.

    All samples at hand count as fusion samples, those of the parents' own data, too. It chooses on held-out ones, to which no
    fusion is fitted; where these would be fewer than 30, it holds out none and takes KF-Linear. Accuracy decides if all samples
    have labels, and otherwise agreement with the ensemble, where all classes count equally; `worth` estimates those without
    samples. Of equals, a parent wins over a fusion, and then the first one tried. Levels and their errors are
    those of the chosen fusion; a parent has none.
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
    tries: int = setting(
        3, "maximum number of fusions to try, beside Average and RegMean", Range(1, 4), title="Maximum fusions"
    )

    def plan(self, task: Task) -> AutoPlan:
        """Split the samples and plan every candidate; see `Algorithm`."""
        check_inputs(task.parents, task.inputs, target=task.target, least=2, method=self.title, written=())
        _check_classes(task)
        if (different := count_of(task.samples()[0])) < FEWEST:
            raise Refusal(
                f"Auto judges fusions by samples that none of them saw, and only {different} of the "
                f"{count_of(task.inputs)} samples can be told from the others. Pass more different ones, or use KF-Linear.",
                ("method", "KF-Linear"),
            )
        kept, decide = self.split(task)
        own = _without(task, decide[0])
        monitor = task.runtime.monitor.changed(_as_step)
        rest = replace(task, inputs=kept[0], labels=kept[1], runtime=replace(task.runtime, monitor=monitor))
        trials, left_out = dict[str, tuple[Algorithm, Plan]](), dict[str, str]()

        def accept(candidates: Mapping[str, Trial], most: int) -> None:
            for title, trial in candidates.items():
                if len(trials) < most:
                    with _noting(left_out, title):
                        trials[title] = _trial(trial, rest, own)

        if count_of(decide[0]):
            accept(CANDIDATES, self.tries)
        else:
            accept(UNSEEN, 1)
        accept(OTHERWISE, 1)
        if not trials:
            raise Refusal(
                f"no fusion accepts these networks. KF-Gradient: {left_out['KF-Gradient, uniform'].rstrip('.')}. KD "
                "and Ensemble only run the parents: use one of these.",
                ("method", "KD"),
                ("method", "Ensemble"),
            )
        if count_of(decide[0]) and task.target is None:
            accept(MEANS, len(trials) + len(MEANS))
        return AutoPlan(task, deciding=decide, trials=trials, left_out=left_out)

    def split(self, task: Task) -> Sequence[tuple[Inputs, Tensor | None]]:
        """The samples to which fusions are fitted, and those held out, balanced over classes if known, none if they would be too
        few: inputs, and labels if all have them."""
        inputs, labels = task.samples()
        count = count_of(inputs)
        number = min(round(self.held_out * count), count - 1)
        classes = torch.zeros(count) if labels is None or why_no_labels(labels) else labels
        held = torch.zeros(count, dtype=torch.bool)
        if number >= DECIDING:
            held[balanced(classes, number, generator=torch.Generator().manual_seed(task.seed))] = True
        return [(rows_of(inputs, rows), None if labels is None else labels[rows]) for rows in (~held, held)]

    @torch.no_grad()
    def run(self, plan: AutoPlan) -> FusionResult:
        """Measure the parents, fuse and measure each candidate, and return the best of all; or fuse by the only candidate."""
        task = plan.task
        monitor, device = task.runtime.monitor, task.device
        inputs, labels = plan.deciding
        inputs = moved(inputs, device, task.dtype)
        results, left_out = dict[str, FusionResult](), dict(plan.left_out)
        scores: Sequence[Scores] | None = None
        for title, (method, fusion) in plan.trials.items():
            monitor.emit("phase", name=title)
            with _noting(left_out, title):
                if isinstance(fusion, FusionPlan) and fusion.task.importance.needs_data:
                    scores = scores or fusion.scores()  # conductance does not depend on centring
                    fusion.fusion.scored = scores
                results[title] = method.run(fusion)
        if not any(result.levels for result in results.values()) and OTHERWISE.keys().isdisjoint(plan.trials):
            (title, trial), *_ = OTHERWISE.items()
            with _noting(left_out, title):
                method, fusion = _trial(trial, next(iter(plan.trials.values()))[1].task, None)
                results[title] = method.run(fusion)
        found = self._measured(task, results, inputs, labels) if count_of(inputs) else dict.fromkeys(results, 0.0)
        if not found:
            raise ValueError(f"no fusion of these networks was possible. {_reasons(left_out)} Use KD or Ensemble.")
        chosen = max(found, key=lambda name: found[name])  # the first of equals
        facts = {
            "choice": self._sentence(chosen, found, count_of(inputs), labels is not None, left_out),
            "chosen": results[chosen].config if chosen in results else {},
            "candidates": {name: 100 * score for name, score in found.items()},
            "left_out": left_out,
            "seed": task.seed,
            "samples": count_of(task.inputs),
        }
        if chosen in results:
            best_of_all = results[chosen]
            result = self.result(best_of_all.model, task, **facts)
            return replace(result, levels=best_of_all.levels, importance=best_of_all.importance)
        parent = duplicate(task.parents[int(chosen.removeprefix("parent "))])
        return self.result(parent.to(device).eval(), task, **facts)

    def _measured(
        self, task: Task, results: Mapping[str, FusionResult], inputs: Inputs, targets: Tensor | None
    ) -> dict[str, float]:
        """The score of each parent that may be returned, and of each fusion, on the held-out samples."""
        monitor, device = task.runtime.monitor, task.device
        parents = logits_of(task.parents, inputs, device, monitor).cpu()  # (n, V, ...)
        fused = [logits_of([result.model], inputs, device, monitor)[0].cpu() for result in results.values()]
        truth = parents.softmax(2).mean(0).argmax(1) if targets is None else targets
        alone = worth(torch.stack([by_class(logits, truth) for logits in parents]), len(truth)).tolist()
        returnable = {f"parent {k}": score for k, score in enumerate(alone) if _is_like_target(task, k)}
        accuracies = [by_class(logits, truth).nanmean().item() for logits in fused]
        return returnable | dict(zip(results, accuracies, strict=True))

    def _sentence(
        self, chosen: str, scores: Mapping[str, float], samples: int, labelled: bool, left_out: Mapping[str, str]
    ) -> str:
        """What was chosen and why, and what was left out."""
        if not samples:
            return (
                f"Auto took {chosen} without a choice: fewer than {DECIDING} samples would decide ({self.held_out:.0%} of all), "
                "too few to tell fusions apart."
            )
        ranked = sorted(scores, key=lambda name: -scores[name])
        in_words = {name: f"{100 * score:.1f}" for name, score in scores.items()}
        others = "; ".join(f"{name} {in_words[name]}" for name in ranked if name != chosen)
        told = "right" if labelled else "as the ensemble says, whose largest output counts"
        share = f"class by class {in_words[chosen]} % of {samples} samples that no fusion saw are {told}"
        sentence = f"Auto chose {chosen}: {share}{f' ({others})' if others else ''}."
        return f"{sentence} {_reasons(left_out)}" if left_out else sentence


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


def _without(task: Task, held: Inputs) -> list[tuple[Inputs, Tensor | None]] | None:
    """The parents' own data without the held-out samples; None if there are none of their own."""
    if task.importance.data is None or isinstance(task.importance.data, str):
        return None
    known, kept = set(contents(held)), []
    for x, y in task.parents_data():
        rows = torch.tensor([sample not in known for sample in contents(moved(x, "cpu", task.dtype))])
        kept.append((rows_of(x, rows), None if y is None else y[rows]))
    return kept


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


def _check_classes(task: Task) -> None:
    """Refuse outputs that are no class scores, and targets that are no classes: dense ones, several labels for a sample.

    Raises:
        ValueError: says what to use.
    """
    cure = ("method", "KF-Linear")
    classes = check_class_scores(check_outputs(task.parents, task.inputs), "Auto", "Use KF-Linear.", cure)
    targets = [labels for inputs, labels in [(task.inputs, task.labels), *task.parents_data()] if count_of(inputs)]
    for labels in targets:
        if labels is not None:
            check_classes(class_labels(labels, "Auto decides by accuracy"), classes, "Auto", instead=", or none")
    outputs = (
        answers(task.parents[0], rows_of(task.inputs, slice(SEVERAL)))
        if any(labels is None for labels in targets)
        else None
    )
    if (
        outputs is not None and ((outputs >= 0) & (outputs <= 1)).all()
    ):  # without a sum of 1, which would have become logits
        raise Refusal(
            "Auto without labels takes the largest output for the class, and these outputs are from 0 to 1 without a sum of 1, "
            "as where a sample may have several labels. Use KF-Linear.",
            cure,
        )


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


def _reasons(left_out: Mapping[str, str]) -> str:
    """The candidates that were left out, and the first sentences of the reasons."""
    reasons: dict[str, list[str]] = {}
    for title, why in left_out.items():
        reasons.setdefault(why.split(". ")[0].removesuffix("."), []).append(title)
    return "Left out: " + "; ".join(f"{' and '.join(titles)} ({why})" for why, titles in reasons.items()) + "."
