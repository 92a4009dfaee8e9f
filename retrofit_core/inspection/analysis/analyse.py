"""analyse(): run once after a fusion, on the same data, level by level from moments like the fusion itself."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ...baselines.auto import Auto
from ...data import Images
from ...data.sampling import balanced
from ...fusion.algorithm import Retrofit
from ...fusion.fit import Ridge
from ...fusion.grouping import level_generator
from ...fusion.importance import IMPORTANCE, Uniform, as_importance
from ...fusion.importance.scoring import check_scores, parents_scores
from ...fusion.results import FusionResult, LevelReport
from ...fusion.samples import as_inputs, parents_data
from ...fusion.task import Task
from ...graph.blocks import Block
from ...graph.centring import bias_of_logits
from ...graph.fit import ClosedForm
from ...graph.fuse import tokens_of
from ...graph.groups import Groups, alike
from ...graph.walk import Step, Walk, side_by_side
from ...networks.copies import copies
from ...networks.inputs import count_of, leaves_of, moved
from ...networks.outputs import as_classifier, check_class_scores
from ...networks.wrappers import unwrapped
from ...system import device as devices
from ...system.monitor import Monitor
from ...system.registry import as_value, find
from ...system.runtime import Runtime
from ...system.settings import settings_of
from .accuracy import accuracy_by_level
from .groups import regrouped
from .networks import fused_networks
from .record import Analysis, LevelAnalysis

#: Most test images: half a percentage point is five of them.
TEST_IMAGES = 1000
#: Rows of targets and outputs to keep.
ROWS = 128


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
        ValueError: a run with a custom grouping function or without levels, or data of another run.
    """
    start = time.perf_counter()
    runtime, models = runtime or Runtime(), [unwrapped(model) for model in models]
    monitor, config, reports = runtime.monitor, result.config, result.levels
    if chosen := config.get("chosen"):  # Auto's fusion, fitted to the samples that were not held out
        asked = Task.of(models, data, importance=Uniform(data=importance_data), seed=config["seed"])
        (data, _), config = Auto(held_out=config["held_out"]).split(asked), chosen
    if "fit" not in config:
        raise ValueError("an analysis needs the levels of an HF or KF method; this result has none.")
    retrofit, device = retrofit_of(config), devices.pick(runtime.device)
    inputs, labels = as_inputs(data)
    own = copies({f"parent {k}": model for k, model in enumerate(models)} | {"the fused network": result.model})
    of_device = [as_classifier(model, inputs, config.get("logits"), name).to(device) for name, model in own.items()]
    ready = moved(inputs, device, next(result.model.parameters()).dtype)
    groups = fused_networks(of_device, reports, ready)
    nets, fused = groups.nets, groups.fused
    if (count := count_of(inputs)) != config["samples"]:
        raise ValueError(
            f"the run fused {config['samples']} samples, and these are {count}. Pass the data that were fused."
        )
    if retrofit.centre:  # as in the fusion
        sample = [leaf[:2] for leaf in leaves_of(ready)]
        for k, (net, mean) in enumerate(zip(nets, config["mean_logits"], strict=False)):
            name = bias_of_logits(net.graph, net.weights, sample, f"parent {k}")
            net.weights[name] = net.weights[name] - torch.tensor(mean).to(net.weights[name])
    why_no_accuracy = _why_no_accuracy(groups, test)
    scores, missing = _all_scores(groups, retrofit, reports, config, importance_data, (inputs, labels), monitor)
    size, counted = min(net.batch() for net in nets), tokens_of(inputs)
    batches = [list(batch) for batch in zip(*(leaf.split(size) for leaf in leaves_of(inputs)), strict=True)]
    tokens = [None] * len(batches) if counted is None else list(counted.split(size))
    walks = [Walk(net.graph, batches, device, runtime.memory) for net in nets]
    attentions = any(report.weights is not None for report in reports)
    form = ClosedForm(retrofit.fit, groups, attentions) if isinstance(retrofit.fit, Ridge) else None
    levels = list[LevelAnalysis]()
    for number, report in enumerate(_under_name(monitor, "analysis: levels").each("step", reports)):
        monitor.emit("phase", name="analysis: levels", level=report.name, index=number, total=len(reports))
        used = scores[config["importance"]][number].to(device)
        votes = used if retrofit.head == "ensemble" and number in fused.last else None
        generator = level_generator(config["seed"], number)
        step = Step(nets, walks, number, devices.Stopwatch(device), tokens, batches, generator, votes)
        step.go(step.layer.reads, runtime.memory)
        of_level = {name: values[number].to(device) for name, values in scores.items()}
        levels.append(_level(retrofit, form, groups, step, reports, of_level, config, levels))
    measured, samples = [], 0
    if why_no_accuracy is not None:
        missing["accuracy"] = why_no_accuracy
    else:
        assert test is not None
        monitor.emit("phase", name="analysis: accuracy by level")
        rows = torch.arange(len(test))
        if len(test) > TEST_IMAGES:
            rows = balanced(test.labels, TEST_IMAGES, generator=torch.Generator().manual_seed(config["seed"]))
        try:
            measured = accuracy_by_level(
                groups, reports, test, rows, _under_name(monitor, "analysis: accuracy by level")
            )
            samples = len(rows)
        except ValueError as error:
            missing["accuracy"] = str(error)
    accuracy, knows = ([each[name] for each in measured] for name in ("accuracy", "knows"))
    return Analysis(levels, accuracy, samples, missing, time.perf_counter() - start, knows)


def _under_name(monitor: Monitor, name: str) -> Monitor:
    """A monitor that passes on steps under this name, to tell them from steps of the fusion."""
    return monitor.changed(lambda event: {**event, "name": name} if event["kind"] == "step" else None)


def _why_no_accuracy(groups: Groups, test: Images | None) -> str | None:
    if test is None:
        return "there are no test images."
    try:
        outputs = groups.fused.spaces.neurons.shape(groups.fused.graph.output)[1:]
        check_class_scores(outputs, "an accuracy", "Leave test out.")
    except ValueError as error:
        return str(error)
    return None


def retrofit_of(config: dict[str, Any]) -> Retrofit:
    """The value that a result's config describes.

    Raises:
        ValueError: a custom grouping function, which a config cannot store.
    """
    settings = {name: config[name] for name in settings_of(Retrofit) if name in config}
    parts = {}
    for part, table in Retrofit.parts.items():
        fields = settings_of(find(table, config[part], part))
        parts[part] = as_value(table, config[part], part, **{name: config[name] for name in fields if name in config})
    return Retrofit(**settings, **parts)


def _all_scores(
    groups: Groups,
    retrofit: Retrofit,
    reports: Sequence[LevelReport],
    config: dict[str, Any],
    data: object,
    samples: tuple[Any, Tensor | None],
    monitor: Monitor,
) -> tuple[dict[str, list[Tensor]], dict[str, str]]:
    """Importance -> (m,) scores per level (for the run's importance, those it used); and why others are missing."""
    parents, used = groups.nets[:-1], config["importance"]
    scores, missing = {used: [report.scores for report in reports]}, dict[str, str]()
    for name in dict.fromkeys([*IMPORTANCE, used]):
        if name == used:
            scores[name] = scores.pop(name)  # in this order
            continue
        monitor.emit("phase", name=f"analysis: {name}")
        score = as_importance(name, data=data, normalise_scores=config["normalise_scores"])
        try:
            own = parents_data(score.data, samples, len(parents))
            check_scores(parents, score, own)
            raw = [
                scored.values
                for scored in parents_scores(parents, score, own, _under_name(monitor, f"analysis: {name}"))
            ]
        except ValueError as error:
            missing[name] = str(error)
            continue
        of_neurons = [[s.mean().expand_as(s) if retrofit.scored == "head" else s for s in of_net] for of_net in raw]
        weighing = replace(groups, scores=of_neurons)
        scores[name] = [
            report.scores  # the targets of such a head do not depend on importance
            if retrofit.head == "mean" and number in groups.fused.last
            else weighing.weights(number, [of_net[number] for of_net in raw], retrofit.head)
            for number, report in enumerate(reports)
        ]
    return scores, missing


def _level(
    retrofit: Retrofit,
    form: ClosedForm | None,
    groups: Groups,
    step: Step,
    reports: Sequence[LevelReport],
    scores: dict[str, Tensor],
    config: dict[str, Any],
    before: Sequence[LevelAnalysis],
) -> LevelAnalysis:
    """Analyse one level.

    Args:
        before: the earlier levels.
    """
    layer, number, report, device = step.layer, step.number, reports[step.number], step.device
    m = len(report.labels)
    A = report.target_weights.to(device)
    parts = None
    if layer.table or layer.mixes or isinstance(layer, Block):
        sums = step.of_neurons()
    else:
        dtype = next(iter(step.nets[-1].weights.values())).dtype
        dtype = devices.sum_dtype(device) if form is None else form.fit.products(dtype, device)
        parts = groups.parts_of_columns(number)
        parts = None if parts is None else parts.to(device)
        sums = step.moments(dtype, parts, step.walks[-1].memory)
    labelled = dict.fromkeys(scores, report.labels)
    space = int(groups.fused.columns[number][0, 0])
    if groups.plain(number) and report.weights is None and groups.fused.spaces[space].family is None:
        zz, first = sums.zz[:m, :m], next((level for level in before if level.name == report.stream), None)
        if first is not None:
            labelled = first.labels
        else:
            others = step.grams({*groups.compared(space)} - {number} if report.stream else ())
            fit = None if layer.table else form
            gram = alike([zz, *others.values()]) if others else fit.solve(step, sums, parts).gram if fit else zz
            labelled = regrouped(retrofit.grouping, gram, scores, report, number, config["importance"], config["seed"])
    targets, outputs = _examples(step, groups, report, A, config["seed"])
    of_scores = {name: s.cpu() for name, s in scores.items()}
    return LevelAnalysis(report.name, of_scores, labelled, targets, outputs)


def _examples(step: Step, groups: Groups, report: LevelReport, A: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Targets and outputs of some rows."""
    layer, net, walk = step.layer, step.nets[-1], step.walks[-1]
    chosen = torch.randperm(report.rows, generator=torch.Generator().manual_seed(seed))[:ROWS].sort().values
    means = [A.to(step.device) for A in groups.of_positions(step.number)] if layer.mixes else []
    axis = layer.operations[0].axis if layer.mixes else net.axes[step.number]
    targets, outputs, start = [], [], 0
    for number, (ends, given, counted) in enumerate(step.batches()):
        views = step.outputs(ends, given, means)[: len(step.nets) - 1] if layer.mixes else step.neurons(ends)
        z = step.voted(side_by_side(views, views[0].dtype, counted))
        value = walk.ahead(number, net.weights, [layer.place])[layer.place]
        f = side_by_side([value.movedim(axis, -1)], value.dtype, counted)
        in_batch = chosen[(chosen >= start) & (chosen < start + len(z))].to(step.device) - start
        targets.append((z[in_batch].double() @ A).float().cpu())
        outputs.append(f[in_batch].float().cpu())
        start += len(z)
    return torch.cat(targets), torch.cat(outputs)
