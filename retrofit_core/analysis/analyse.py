"""analyse(): once after a fusion, with the same data, level by level from moments as the fusion itself."""

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .. import device as devices
from ..data import Images
from ..data.sampling import balanced
from ..eligibility import Plan, check
from ..fit.mapping import is_channel_major
from ..fusion import parents_scores, parents_weights
from ..grouping import GROUPINGS, averaging_matrix, same_index
from ..importance import IMPORTANCE
from ..moments import Moments, Rows, product_dtype, solve
from ..monitor import Event, Monitor
from ..results import FusionResult, LevelReport
from ..samples import as_tensors
from ..training_flags import keeps_training_flags
from ..walk import Step, Walk
from .accuracy import accuracy_by_level
from .groups import agreement, regrouped
from .plane import loss_plane, parent_weights
from .record import Analysis, LevelAnalysis

#: Seeds per score: ten pairs of seeds for the noise floor.
SEEDS = 5
#: Test images at most: half a percentage point is five of them.
TEST_IMAGES = 1000
#: Rows of targets and outputs that are kept.
ROWS = 128
#: Variance below this share of the mean square is rounding: the neuron is constant.
CONSTANT = 1e-12


@keeps_training_flags
@torch.no_grad()
def analyse(
    models: Sequence[nn.Module],
    result: FusionResult,
    data: Any,
    *,
    importance_data: Any = "fusion",
    importance_options: dict[str, Any] | None = None,
    grouping_options: dict[str, Any] | None = None,
    test: Images | None = None,
    boundaries: str | int | Sequence[str] = "auto",
    leaves: Sequence[str] = (),
    device: str | torch.device | None = None,
    memory: int = devices.MEMORY,
    monitor: Monitor | None = None,
) -> Analysis:
    """What the pictures of a finished fusion need (docs/method.md). Nothing is changed, and the same run gives the same.

    Args:
        models, data, importance_data, importance_options, grouping_options, boundaries, leaves, device, memory: as the
            fusion had them; importance data are needed for a uniform one too, to compare it with the other scores.
        result: what the fusion returned.
        test: images for the accuracy by level; without them it is left out.
        monitor: gets events named "analysis: ..." and may cancel between steps.
    Raises:
        ValueError: a run with a grouping function of one's own, one that did not go level by level, or data or
            boundaries of another run.
    """
    start = time.perf_counter()
    monitor, config, reports = monitor or Monitor(), result.config, result.levels
    if "fit" not in config:
        raise ValueError("an analysis looks at the levels of HF and KF methods; this one did not go level by level.")
    inputs, labels = as_tensors(data)
    place = devices.pick(device)
    clock = devices.Stopwatch(place)
    plan = check(
        models,
        inputs,
        target=result.model,
        grouping=config["grouping"],
        fit=config["fit"],
        device=place,
        memory=memory,
        boundaries=boundaries,
        leaves=leaves,
    )
    _check_levels(plan, reports, len(inputs))
    inputs = inputs.to(next(plan.model.parameters()).dtype)
    with clock.phase("importance"):
        scores, missing = _all_scores(
            plan, reports, config, importance_data, (inputs, labels), importance_options or {}, place, monitor
        )
    inner = _named(monitor, "analysis: levels")
    walk = Walk(plan.parents, plan.fused, inputs, device=place, memory=memory, stopwatch=clock, monitor=inner)
    levels = []
    for step in walk:
        index = step.index
        monitor.emit("phase", name="analysis: levels", level=step.name, index=index, total=len(reports))
        here = {name: found[index].to(place) for name, found in scores.items()}
        levels.append(_level(plan, step, reports, here, config, grouping_options or {}, clock))
    accuracy, samples = [], 0
    if test is None:
        missing["accuracy"] = "there are no test images."
    else:
        monitor.emit("phase", name="analysis: accuracy by level")
        rows = _test_rows(test, config["seed"])
        with clock.phase("accuracy"):
            accuracy = accuracy_by_level(
                models, result.model, plan, reports, test, rows, _named(monitor, "analysis: accuracy by level")
            )
        samples = len(rows)
    return Analysis(levels, accuracy, samples, missing, time.perf_counter() - start, clock.seconds)


def _named(monitor: Monitor, name: str) -> Monitor:
    """Passes steps on under a name of the analysis, so that they are not taken for steps of the fusion."""

    def event(event: Event) -> None:
        if event["kind"] == "step":
            monitor.emit(**{**event, "name": name})

    def cancelled() -> bool:
        monitor.check()
        return False

    return Monitor(event, cancelled)


def _check_levels(plan: Plan, reports: Sequence[LevelReport], samples: int) -> None:
    found = [
        (
            level.name,
            level.kind,
            tuple(levels[index].width for levels in plan.parents),
            level.width,
            samples * level.positions,
        )
        for index, level in enumerate(plan.fused)
    ]
    if found != [(report.name, report.kind, report.widths, report.width, report.rows) for report in reports]:
        raise ValueError(
            f"the run has levels {[report.name for report in reports]} with other layers, widths or rows than the "
            f"{len(plan.fused)} found now. Pass the parents, data and boundaries that were fused."
        )


def _all_scores(
    plan: Plan,
    reports: Sequence[LevelReport],
    config: dict[str, Any],
    importance_data: Any,
    fusion_data: tuple[Tensor, Tensor | None],
    options: dict[str, Any],
    device: torch.device,
    monitor: Monitor,
) -> tuple[dict[str, list[Tensor]], dict[str, str]]:
    """Importance -> (m,) per level, the run's own as it was used; and why others are missing."""
    own = config["importance"]
    found: dict[str, list[Tensor]] = {}
    missing = {}
    for name in dict.fromkeys([*IMPORTANCE, own]):
        if name == own:
            found[name] = [report.scores for report in reports]
            continue
        monitor.emit("phase", name=f"analysis: {name}")
        try:
            parents, _ = parents_scores(
                plan,
                name,
                importance_data,
                fusion_data,
                config["normalise_scores"],
                options,
                device,
                _named(monitor, f"analysis: {name}"),
            )
        except ValueError as error:
            missing[name] = str(error)
            continue
        found[name] = [torch.cat(level) for level in zip(*parents, strict=True)]
        if config["head"] != "scores":  # its targets do not go by importance
            found[name][-1] = reports[-1].scores
    return found, missing


def _level(
    plan: Plan,
    step: Step,
    reports: list[LevelReport],
    scores: dict[str, Tensor],
    config: dict[str, Any],
    options: dict[str, Any],
    clock: devices.Stopwatch,
) -> LevelAnalysis:
    level, report = step.level, reports[step.index]
    own, labels = scores[config["importance"]], report.labels.to(step.device)
    A = averaging_matrix(labels, own, level.width)
    with clock.phase("forward"):
        W0, why = _mapped(plan, step, reports)
    gram, sums = _moments(plan, step, config, W0, clock)
    with clock.phase("groups"):
        groups = _groups(plan, step.index, report, gram, scores, config, options)
        agreements = agreement(groups)
    with clock.phase("plane"):
        plane = {"why": why}
        if W0 is not None and sums is not None:
            parents = parent_weights(W0, own, labels, report.widths, level.width)
            plane = loss_plane(sums, own, labels, _weights(level), parents)
    with clock.phase("rows"):
        kept, targets, outputs = _compare(step, labels, A, config["seed"])
    return LevelAnalysis(
        level.name, {name: s.cpu() for name, s in scores.items()}, groups, agreements, kept, targets, outputs, plane
    )


def _mapped(plan: Plan, step: Step, reports: list[LevelReport]) -> tuple[Tensor | None, str]:
    """(p, m) the parents' weights on the fused inputs, or why there are none."""
    level = step.level
    if level.affine is None:
        return None, f"the level is not affine in its weights: {level.why_not_affine}. Its loss is no quadratic."
    others = step.parents
    if any(other.affine is None for other in others):
        reason = next(other.why_not_affine for other in others if other.affine is None)
        return None, f"a parent's level is not affine in its weights: {reason}."
    if step.index and not is_channel_major(level, step.boundary):
        return None, "the level does not read its inputs neuron by neuron, so parents' weights have no place on them."
    try:
        return parents_weights(step, reports[: step.index]), ""
    except ValueError:
        return None, "a parent has another number of inputs per neuron, so its weights have no place on the fused ones."


def _moments(
    plan: Plan, step: Step, config: dict[str, Any], W0: Tensor | None, clock: devices.Stopwatch
) -> tuple[Tensor, Moments | Rows | None]:
    """The Gram matrix by which the run grouped, made as the run made it; and the level's sums, if it is affine."""
    dtype = next(plan.model.parameters()).dtype
    products = product_dtype(config["ridge"] if plan.fit == "ridge" else None, dtype, step.device)
    if plan.fit != "ridge":
        gram = step.moments(inputs=False, dtype=products).zz
        return gram, step.moments(inputs=True) if W0 is not None else None  # no ridge outweighs their rounding
    sums = step.moments(inputs=True, dtype=products)
    with clock.phase("solve"):
        return solve(sums, config["ridge"], toward=W0 if config["toward"] == "parents" else None).gram, sums


def _groups(
    plan: Plan,
    index: int,
    report: LevelReport,
    gram: Tensor,
    scores: dict[str, Tensor],
    config: dict[str, Any],
    options: dict[str, Any],
) -> dict[str, Tensor]:
    """Importance -> (seeds, m); the first row of the run's own is what the run made."""
    grouping = same_index if plan.fused[index].head else plan.grouping
    options = {} if plan.fused[index].head else options
    random = grouping not in (same_index, GROUPINGS["hungarian"])
    seeds = [config["seed"] + k for k in range(SEEDS if random else 1)]
    found = {}
    for name, s in scores.items():
        known = [report.labels[None]] if name == config["importance"] else []
        rows = regrouped(grouping, gram, s, report.widths, index, seeds[len(known) :], report.labels, options)
        found[name] = torch.cat([*known, rows])
    return found


def _weights(level: Any) -> Tensor:
    """V (p, d) as it stands in the level, the bias in the last row."""
    affine = level.affine
    V = affine.weight.detach().flatten(1).T.double()
    return V if affine.bias is None else torch.cat([V, affine.bias.detach().double()[None]])


def _compare(step: Step, labels: Tensor, A: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Over all rows: the squared correlation of each neuron with its fused neuron, (m,); of some rows: targets, outputs."""
    total = step.walk.samples * step.level.positions
    chosen = torch.randperm(total, generator=torch.Generator().manual_seed(seed))[:ROWS].sort().values
    m = len(labels)
    sums = torch.zeros(
        5, m, dtype=torch.float64, device=step.device
    )  # of z, z^2, f, f^2, f z, f being its fused neuron
    targets, outputs, start = [], [], 0
    for f, z in step.fitted():
        for part_f, part_z in zip(*(rows.split(devices.rows_per_batch(32 * m)) for rows in (f, z)), strict=True):
            a, b = part_z.double(), part_f.double()[:, labels]
            for line, product in zip(sums, (a, a * a, b, b * b, a * b), strict=True):
                line += product.sum(0)
        here = chosen[(chosen >= start) & (chosen < start + len(z))].to(step.device) - start
        targets.append((z[here].double() @ A).float().cpu())
        outputs.append(f[here].float().cpu())
        start += len(z)
    return squared_correlation(sums, total).cpu(), torch.cat(targets), torch.cat(outputs)


def squared_correlation(sums: Tensor, count: int) -> Tensor:
    """(m,) from sums over rows of z, z^2, f, f^2 and f z; 0 where either side is constant."""
    z, zz, f, ff, fz = sums
    var_z, var_f, both = zz - z * z / count, ff - f * f / count, fz - f * z / count
    varies = (var_z > CONSTANT * zz) & (var_f > CONSTANT * ff)
    return torch.where(varies, both.square() / (var_z * var_f).where(varies, 1.0), 0.0).clamp(0, 1)


def _test_rows(images: Images, seed: int) -> Tensor:
    """All rows, or a balanced part of them."""
    if len(images) <= TEST_IMAGES:
        return torch.arange(len(images))
    return balanced(images.labels, TEST_IMAGES, generator=torch.Generator().manual_seed(seed))
