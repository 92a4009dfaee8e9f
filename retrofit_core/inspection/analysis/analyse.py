"""analyse(): run once after a fusion, on the same data, level by level from moments like the fusion itself."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ...baselines.auto import Auto
from ...data import Images
from ...data.sampling import balanced
from ...fusion.algorithm import FusionPlan, Retrofit
from ...fusion.centring import recentred
from ...fusion.eligibility import output_shape
from ...fusion.fit import missing_targets
from ...fusion.grouping import Grouper, Grouping, SameIndex
from ...fusion.importance import IMPORTANCE, Uniform, as_importance
from ...fusion.importance.scoring import check_parents_data, parents_scores
from ...fusion.joint_spaces import Levels
from ...fusion.mapping import parents_weights, read_by
from ...fusion.results import FusionResult, LevelReport
from ...fusion.search import alike
from ...fusion.targets import Targets, weighted_means
from ...fusion.task import Task
from ...fusion.walk import Step, Walk
from ...networks.levels import Activated, Heads
from ...networks.outputs import check_class_scores
from ...networks.wrappers import unwrapped
from ...system import device as devices
from ...system.monitor import Monitor
from ...system.registry import find, made
from ...system.runtime import Runtime
from ...system.settings import settings_of
from .accuracy import accuracy_by_level
from .groups import agreement, regrouped
from .plane import loss_plane, parent_weights
from .record import Analysis, LevelAnalysis

#: Seeds per score: ten pairs of seeds for the noise floor.
SEEDS = 5
#: Most test images: half a percentage point is five of them.
TEST_IMAGES = 1000
#: Rows of targets and outputs to keep.
ROWS = 128
#: Variance below this share of the mean square is rounding: the neuron is constant.
CONSTANT = 1e-12


@devices.exact()
@torch.no_grad()
def analyse(
    models: Sequence[nn.Module],
    result: FusionResult,
    data: object,
    *,
    importance_data: object = "fusion",
    test: Images | None = None,
    runtime: Runtime | None = None,
) -> Analysis:
    """Analyse a finished fusion (docs/method.md), without changing it; the same run gives the same analysis.

    Args:
        models, data, importance_data: as in the fusion; importance data are needed for other scores even if the fusion
            used uniform importance.
        result: the fusion's result; its config says how the levels were made.
        test: images for the accuracy by level, which is omitted without them.
        runtime: device and memory; its monitor gets events named "analysis: ..." and may cancel between steps.
    Raises:
        ValueError: a run with a custom grouping function or without levels, or data or boundaries of another run.
    """
    start = time.perf_counter()
    runtime, models = runtime or Runtime(), [unwrapped(model) for model in models]
    monitor, config, reports = runtime.monitor, result.config, result.levels
    if chosen := config.get("chosen"):  # Auto's fusion, fitted to the samples that were not held out
        asked = Task.of(models, data, importance=Uniform(data=importance_data), seed=config["seed"])
        (data, _), config = Auto(held_out=config["held_out"]).split(asked), chosen
    if "fit" not in config:
        raise ValueError("an analysis needs the levels of an HF or KF method; this result has none.")
    retrofit = retrofit_of(config)
    plain = Runtime(device=runtime.device, memory=runtime.memory)
    logits = config.get("logits")
    task = Task.of(models, data, logits=logits, target=result.model, class_shares=_shares(config), runtime=plain)
    if retrofit.centre:  # as in the fusion
        retrofit, task = replace(retrofit, centre=False), recentred(task, config["mean_logits"])
    plan = retrofit.plan(task)
    task, device = plan.task, plan.task.device
    why_no_accuracy = _why_no_accuracy(task, test)
    _check_levels(plan.levels, reports, len(task.inputs))
    scores, missing = _all_scores(retrofit, plan, reports, config, importance_data, monitor)
    inner = _named(monitor, "analysis: levels")
    walk = Walk(
        plan.levels, task.inputs, replace(plain, monitor=inner), seed=task.seed, reports=reports, tokens=task.tokens
    )
    levels = []
    for step in walk:
        index = step.index
        monitor.emit("phase", name="analysis: levels", level=step.level.name, index=index, total=len(reports))
        level_scores = {name: values[index].to(device) for name, values in scores.items()}
        begun = plan.levels.stream(index)[0]
        grouped = levels[begun] if begun < index else None
        others = plan.levels.stream(index)[1:] if grouped is None else []
        levels.append(_level(retrofit, step, reports[index], level_scores, config, grouped, others))
    measured, samples = [], 0
    if why_no_accuracy is not None:
        missing["accuracy"] = why_no_accuracy
    else:
        assert test is not None and task.target is not None
        monitor.emit("phase", name="analysis: accuracy by level")
        rows = torch.arange(len(test))
        if len(test) > TEST_IMAGES:
            rows = balanced(test.labels, TEST_IMAGES, generator=torch.Generator().manual_seed(config["seed"]))
        inner = _named(monitor, "analysis: accuracy by level")
        measured = accuracy_by_level(task.parents, task.target, plan.levels, reports, test, rows, inner)
        samples = len(rows)
    accuracy, knows = ([each[name] for each in measured] for name in ("accuracy", "knows"))
    return Analysis(levels, accuracy, samples, missing, time.perf_counter() - start, knows)


def _named(monitor: Monitor, name: str) -> Monitor:
    """A monitor that passes on steps under this name, to tell them from steps of the fusion."""
    return monitor.changed(lambda event: {**event, "name": name} if event["kind"] == "step" else None)


def _why_no_accuracy(task: Task, test: Images | None) -> str | None:
    if test is None:
        return "there are no test images."
    try:
        check_class_scores(output_shape(task.parents[0], task.inputs, "parent 0"), "an accuracy", "Leave test out.")
    except ValueError as error:
        return str(error)
    return None


def _check_levels(plan: Levels, reports: Sequence[LevelReport], samples: int) -> None:
    levels_now = [
        (
            level.name,
            level.kind,
            tuple(levels[index].width for levels in plan.parents),
            level.width,
            samples * level.positions,
        )
        for index, level in enumerate(plan.fused)
    ]
    if levels_now != [(report.name, report.kind, report.widths, report.width, report.rows) for report in reports]:
        raise ValueError(
            f"the run has levels {[report.name for report in reports]} that differ in layers, widths or rows from "
            f"the {len(plan.fused)} found now. Pass the parents, data and boundaries that were fused."
        )


def retrofit_of(config: dict[str, Any]) -> Retrofit:
    """The value that a result's config describes.

    Raises:
        ValueError: a custom grouping function, which a config cannot store.
    """
    settings = {name: config[name] for name in settings_of(Retrofit) if name in config}
    parts = {}
    for part, table in Retrofit.parts.items():
        fields = settings_of(find(table, config[part], part))
        parts[part] = made(table, config[part], part, **{name: config[name] for name in fields if name in config})
    return Retrofit(**settings, **parts)


def _shares(config: dict[str, Any]) -> Tensor | None:
    return torch.tensor(config["class_shares"]) if config.get("class_shares") is not None else None


def _all_scores(
    retrofit: Retrofit,
    plan: FusionPlan,
    reports: Sequence[LevelReport],
    config: dict[str, Any],
    data: object,
    monitor: Monitor,
) -> tuple[dict[str, list[Tensor]], dict[str, str]]:
    """Importance -> (m,) scores per level (for the run's importance, those it used); and why others are missing."""
    used, levels = config["importance"], plan.levels
    scores: dict[str, list[Tensor]] = {}
    missing = {}
    for name in dict.fromkeys([*IMPORTANCE, used]):
        if name == used:
            scores[name] = [report.scores for report in reports]
            continue
        monitor.emit("phase", name=f"analysis: {name}")
        score = as_importance(name, data=data, normalise_scores=config["normalise_scores"])
        task = replace(plan.task, importance=score)
        inner = _named(monitor, f"analysis: {name}")
        try:
            check_parents_data(task)
            scored = parents_scores(levels.parents, score, task.parents_data(), task.device, inner)
            parents = levels.joined([parent.values for parent in scored])
        except ValueError as error:
            missing[name] = str(error)
            continue
        each = zip(zip(*levels.parents, strict=True), zip(*parents, strict=True), strict=True)
        scores[name] = [retrofit.weights_of(of_parents, s, plan.task) for of_parents, s in each]
        if config["head"] not in ("scores", "ensemble"):  # its targets do not depend on importance
            for index, level in enumerate(levels.fused):
                scores[name][index] = reports[index].scores if level.fixed else scores[name][index]
    return scores, missing


def _level(
    retrofit: Retrofit,
    step: Step,
    report: LevelReport,
    scores: dict[str, Tensor],
    config: dict[str, Any],
    grouped: LevelAnalysis | None,
    later: Sequence[int],
) -> LevelAnalysis:
    """Analyse one level.

    Args:
        grouped: the earlier level where the residual stream was grouped, if any.
        later: the other levels of a stream that is grouped here.
    """
    level = step.level
    used, labels = scores[config["importance"]], report.labels.to(step.device)
    step = retrofit.voted(step, used)
    A = weighted_means(labels, used, level.width).A if report.weights is None else report.weights.to(step.device)
    W0, why = _mapped(step)
    fit = retrofit.fit
    sums = step.moments(inputs=fit.needs_inputs, dtype=fit.products(step.walk.dtype, step.device))
    m = len(labels)
    gram = alike([sums.zz[:m, :m], *step.grams(later).values()]) if later else fit.solve(step, sums).gram
    if W0 is not None and not fit.needs_inputs:
        sums = step.moments(inputs=True)  # full precision: no ridge here
    if grouped is not None:
        groups, agreements = grouped.labels, grouped.agreement
    elif level.blocks is not None or not level.plain or not (step.known < 0).any():
        # grouped by head, by part, by space, or by earlier levels
        groups = dict.fromkeys(scores, report.labels[None])
        agreements = agreement(groups)
    else:
        groups = _groups(retrofit.grouping, step.index, level.fixed, report, gram, scores, config)
        agreements = agreement(groups)
    plane = {"why": why}
    if W0 is not None:
        parents = parent_weights(W0, used, labels, report.widths, level.width)
        totals = used.new_zeros(level.width).index_add_(0, labels, used)
        energy = (used @ sums.zz.diagonal()[: len(used)]).item() or 1.0
        missing = missing_targets(level, Targets(A, totals))
        plane = loss_plane(sums, missing, energy, level.weights(), parents)
    kept, targets, outputs = _compare(step, labels, A, config["seed"])
    return LevelAnalysis(
        level.name, {name: s.cpu() for name, s in scores.items()}, groups, agreements, kept, targets, outputs, plane
    )


def _mapped(step: Step) -> tuple[Tensor | None, str]:
    """(p, m) parents' weights on the fused inputs, or why there are none."""
    level = step.level
    if level.affine is None:
        return None, f"the level is not affine in its weights: {level.why_not_affine}. Its loss is not quadratic."
    if isinstance(level.blocks, Heads):
        return (
            None,
            "what it is fitted to are directions within heads, in which parents' neurons have no weights of their own.",
        )
    if isinstance(level.form, Activated):
        return None, "an activation function comes before the sum of the level's outputs, so its loss is not quadratic."
    reasons = [parent.why_not_affine for parent in step.parents if parent.affine is None]
    if reasons:
        return None, f"a parent's level is not affine in its weights: {reasons[0]}."
    if read_by(step) is None:
        return None, "the level does not read its inputs neuron by neuron, so parents' weights cannot be put on them."
    try:
        return parents_weights(step), ""
    except ValueError:
        return None, "a parent has another number of inputs per neuron, so its weights cannot be put on the fused ones."


def _groups(
    grouping: Grouper | Callable[..., Grouping],
    index: int,
    fixed: bool,
    report: LevelReport,
    gram: Tensor,
    scores: dict[str, Tensor],
    config: dict[str, Any],
) -> dict[str, Tensor]:
    """Importance -> (seeds, m); the first row of the run's importance is the run's own grouping."""
    grouping = SameIndex() if fixed else grouping
    seeds = [config["seed"] + k for k in range(SEEDS if getattr(grouping, "is_random", False) else 1)]
    groups = {}
    for name, s in scores.items():
        made_by_run = [report.labels[None]] if name == config["importance"] else []
        rows = regrouped(grouping, gram, s, report.widths, index, seeds[len(made_by_run) :], report.labels)
        groups[name] = torch.cat([*made_by_run, rows])
    return groups


def _compare(step: Step, labels: Tensor, A: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """(m,) squared correlation of each neuron with its fused neuron over all rows; and targets and outputs of some rows."""
    total = step.count
    chosen = torch.randperm(total, generator=torch.Generator().manual_seed(seed))[:ROWS].sort().values
    m = len(labels)
    # Sums of z, z^2, f, f^2, f z, where f is the fused neuron of z.
    sums = torch.zeros(5, m, dtype=torch.float64, device=step.device)
    targets, outputs, start = [], [], 0
    for f, z in step.fitted():
        for part_f, part_z in zip(*(rows.split(devices.rows_per_batch(32 * m)) for rows in (f, z)), strict=True):
            a, b = part_z.double(), part_f.double()[:, labels]
            for line, product in zip(sums, (a, a * a, b, b * b, a * b), strict=True):
                line += product.sum(0)
        in_batch = chosen[(chosen >= start) & (chosen < start + len(z))].to(step.device) - start
        targets.append((z[in_batch].double() @ A).float().cpu())
        outputs.append(f[in_batch].float().cpu())
        start += len(z)
    return squared_correlation(sums, total).cpu(), torch.cat(targets), torch.cat(outputs)


def squared_correlation(sums: Tensor, count: int) -> Tensor:
    """(m,) squared correlations from sums of z, z^2, f, f^2 and f z; 0 where either is constant."""
    z, zz, f, ff, fz = sums
    var_z, var_f, both = zz - z * z / count, ff - f * f / count, fz - f * z / count
    varies = (var_z > CONSTANT * zz) & (var_f > CONSTANT * ff)
    return torch.where(varies, both.square() / (var_z * var_f).where(varies, 1.0), 0.0).clamp(0, 1)
