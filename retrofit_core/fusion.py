"""fuse(): Algorithm 1 of the paper, level by level, from moments."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from . import device as devices
from .batchnorm import reestimate
from .eligibility import Plan, check
from .fit import gradient, mapped_weights, ridge
from .fit.mapping import is_channel_major
from .fit.ridge import write_weights
from .grouping import Grouping, ordered, ordered_like, same_index
from .importance import check_data, importance_scores
from .levels import Level, rows
from .moments import (
    Moments,
    Rows,
    Solution,
    approximation_error,
    cross_error,
    cross_of,
    product_dtype,
    solve,
    unavoidable_error,
)
from .monitor import Monitor
from .ranges import check_ranges
from .results import FusionResult, LevelReport, level_report
from .samples import as_tensors, parents_data
from .settings import GRADIENT_OPTIONS, resolve
from .targets import Targets, excess
from .training_flags import keeps_training_flags
from .walk import Step, Walk

HEADS = ("scores", "mean", "shares")
OnLevel = Callable[[int, LevelReport, dict[str, Tensor]], None]


@keeps_training_flags
@torch.no_grad()
def fuse(
    models: Sequence[nn.Module],
    data: Any,
    *,
    grouping: str | Callable[..., Grouping] = "kmeans",
    fit: str = "ridge",
    importance: str | Callable[..., Any] = "uniform",
    importance_data: Any = None,
    importance_options: dict[str, Any] | None = None,
    target: nn.Module | None = None,
    boundaries: str | int | Sequence[str] = "auto",
    toward: str = "zero",
    head: str = "scores",
    class_shares: Tensor | None = None,
    weighted_loss: bool = False,
    grouping_options: dict[str, Any] | None = None,
    preset: str = "default",
    seed: int = 0,
    device: str | torch.device | None = None,
    memory: int = devices.MEMORY,
    leaves: Sequence[str] = (),
    monitor: Monitor | None = None,
    finished: Sequence[tuple[LevelReport, dict[str, Tensor]]] = (),
    on_level: OnLevel | None = None,
    **settings: Any,
) -> FusionResult:
    """Fuse trained networks into one by retrofitting (Luenam et al., Algorithm 1). The parents are left as they are.

    Args:
        models: the parents; parent 0 gives the architecture unless there is a target.
        data: fusion data: a tensor (B, ...), (inputs, labels), a DataLoader or a Dataset, normalised as in training.
        grouping: a name in GROUPINGS or a function.
        fit: "ridge" (closed form) or "gradient".
        importance: a name in IMPORTANCE or a function; importance_data is "fusion" or one (inputs, labels) per parent.
        target: network of the fused architecture (widths); its weights do not matter to the linear methods.
        boundaries, leaves: see `partition`; "auto" cuts at pre-activations for the ridge, at blocks for gradient fits.
            Networks of unequal depth are aligned: see `eligibility.check`.
        toward: "zero" or "parents": where the ridge pulls the weights.
        head: targets of the class head: "scores" (Algorithm 1), "mean", or "shares" with class_shares (n, classes).
        weighted_loss: score-weighted MSE in gradient fits.
        preset: "default", or "paper" for the paper's hyper-parameters.
        seed: decides k-means starts, batches and perturbation; the same seed gives the same weights.
        device: "auto" (CUDA if present), "cpu", "cuda:1", ...
        memory: bytes for a level's sums and for kept boundary tensors, which are recomputed where they do not fit.
        monitor: gets events and may cancel between steps.
        finished: levels of an earlier, interrupted run, with which to go on.
        on_level: called after each level with its index, report and weights.
        **settings: ridge, normalise_scores, learning_rate, weight_decay, epochs, batch_size, validation, patience,
            perturbation (`settings.DEFAULTS`).
    Raises:
        ValueError: what is asked cannot be done; raised before any work.
    """
    start = time.perf_counter()
    monitor = monitor or Monitor()
    # names are found in any case; below they are compared
    grouping, importance = (n.lower() if isinstance(n, str) else n for n in (grouping, importance))
    fit = fit.lower()
    check_ranges(seed=seed, memory=memory)
    chosen = resolve(preset, grouping, fit, settings)
    inputs, labels = as_tensors(data)
    place = devices.pick(device)
    plan = check(
        models,
        inputs,
        target=target,
        grouping=grouping,
        fit=fit,
        device=place,
        memory=memory,
        boundaries=boundaries,
        leaves=leaves,
    )
    check_options(plan, toward, head, class_shares, fit)
    inputs = inputs.to(next(plan.model.parameters()).dtype)
    scores, score_reports = parents_scores(
        plan,
        importance,
        importance_data,
        (inputs, labels),
        chosen["normalise_scores"],
        importance_options or {},
        place,
        monitor,
    )
    products = product_dtype(chosen["ridge"] if fit == "ridge" else None, inputs.dtype, place)
    clock = devices.Stopwatch(place)
    walk = Walk(plan.parents, plan.fused, inputs, device=place, memory=memory, stopwatch=clock, monitor=monitor)
    reports: list[LevelReport] = []
    for step in monitor.each("level", walk):  # Algorithm 1, line 1: bottom-up; the fitted level feeds the next one
        index, level = step.index, step.level
        generator = level_generator(seed, index)
        if index < len(finished):
            reports.append(_take_over(level, *finished[index]))
            continue
        sums = step.moments(inputs=fit == "ridge", dtype=products)  # line 2: z of the parents, x of the fused
        s = torch.cat([parent[index] for parent in scores])  # line 3
        s = _head_scores(s, head, class_shares) if level.head else s
        monitor.emit("phase", name="grouping", level=level.name)
        with clock.phase("solve"):
            W0 = parents_weights(step, reports) if toward == "parents" else None
            solution = solve(sums, chosen["ridge"], toward=W0) if fit == "ridge" else None
        with clock.phase("group"):  # line 4: R_1 ... R_d; class k stays class k at the head
            gram = solution.gram if solution else sums.zz
            groups = _group(plan, step, gram, sums.zz, s, generator, grouping_options or {})
            targets = groups.targets(s)  # lines 5-7: T = z A
        monitor.emit("phase", name="fit", level=level.name)
        if solution is not None:  # lines 8-9: the weights of the level
            fitted = _fit_ridge(level, sums, solution, s, groups.labels, targets, clock)
        else:
            _start_at_parents(plan, step, reports, targets.A)
            fitted = _fit_gradient(step, s, groups.labels, targets, generator, chosen, weighted_loss, monitor)
        reports.append(
            level_report(
                level,
                step.widths,
                sums.rows,
                sums.zz,
                s,
                groups.labels,
                targets,
                grouping=groups.report,
                seconds=dict(clock.seconds),
                **fitted,
            )
        )
        clock.seconds.clear()
        if on_level is not None:
            on_level(index, reports[-1], {name: p.detach() for name, p in level.module.state_dict().items()})
    for level in plan.fused:
        level.put_back()
    reestimate(plan.model, (batch.to(place) for batch in inputs.split(walk.batch)))
    config = {
        "grouping": str(grouping),
        "fit": fit,
        "importance": getattr(importance, "__name__", importance),
        "toward": toward,
        "head": head,
        "preset": preset,
        "seed": seed,
        "samples": len(inputs),
        "device": str(place),
        **chosen,
    }
    return FusionResult(plan.model, reports, config, time.perf_counter() - start, score_reports)


def level_generator(seed: int, index: int) -> torch.Generator:
    """The source of randomness of one level: a run that goes on there draws what it would have drawn."""
    return torch.Generator().manual_seed((seed * 1_000_003 + index) % 2**63)


def check_options(plan: Plan, toward: str, head: str, class_shares: Tensor | None, fit: str) -> None:
    if toward not in ("zero", "parents"):
        raise ValueError(f"unknown toward {toward!r}. Known: zero, parents.")
    if toward == "parents" and fit != "ridge":
        raise ValueError("toward='parents' is a choice of the ridge. Use fit='ridge', or leave it at 'zero'.")
    for level, *others in zip(plan.fused, *plan.parents, strict=True):
        if toward == "parents" and any(other.affine is None for other in others):
            why = next(other.why_not_affine for other in others if other.affine is None)
            raise ValueError(
                f"level {level.name!r}: toward='parents' needs affine levels in every parent, but in one {why}. "
                "Use toward='zero'."
            )
    if head not in HEADS:
        raise ValueError(f"unknown head {head!r}. Known: {', '.join(HEADS)}.")
    wanted = (len(plan.parents), plan.fused[-1].width)
    if head == "shares" and (class_shares is None or tuple(class_shares.shape) != wanted):
        raise ValueError(f"head='shares' needs class_shares of shape {wanted}: each parent's share of each class.")


def parents_scores(
    plan: Plan,
    importance: str | Callable[..., Any],
    importance_data: Any,
    fusion_data: tuple[Tensor, Tensor | None],
    normalise: bool,
    options: dict[str, Any],
    device: torch.device,
    monitor: Monitor,
) -> tuple[list[list[Tensor]], list[dict[str, Any]]]:
    """scores[parent][level] and what the method tells about itself."""
    check_data(importance, importance_data)
    pairs = parents_data(importance_data, fusion_data, len(plan.parents))
    found = []
    for levels, (x, y) in zip(plan.parents, pairs, strict=True):
        classes = levels[-1].width
        if y is not None and len(y) and not 0 <= int(y.min()) <= int(y.max()) < classes:
            raise ValueError(f"labels run from {int(y.min())} to {int(y.max())}; the parents have {classes} classes.")
        monitor.emit("phase", name="importance", parent=len(found), parents=len(plan.parents))
        dtype = next(levels[0].module.parameters()).dtype
        with torch.enable_grad():
            found.append(
                importance_scores(
                    levels,
                    x.to(device, dtype),
                    y.to(device) if y is not None else None,
                    importance,
                    normalise=normalise,
                    monitor=monitor,
                    **options,
                )
            )
    return [scores.values for scores in found], [scores.report for scores in found]


def _group(
    plan: Plan,
    step: Step,
    gram: Tensor,
    zz: Tensor,
    s: Tensor,
    generator: torch.Generator,
    options: dict[str, Any],
) -> Grouping:
    level, widths = step.level, step.widths
    if level.head:
        return same_index(gram, s, widths, level.width)
    groups = plan.grouping(gram, s, widths, level.width, generator=generator, **options)
    if level.residual:  # the skip adds the neurons before the level, in their order
        return ordered(groups, zz, s, *step.stream())
    # Gradient fits start at parent 0's weights, so its order must hold; for the others any order is as good.
    return ordered_like(groups, zz, s, torch.arange(widths[0], device=zz.device))


def _head_scores(s: Tensor, head: str, class_shares: Tensor | None) -> Tensor:
    if head == "mean":
        return torch.full_like(s, s.mean().item())
    return class_shares.to(s).flatten() if head == "shares" and class_shares is not None else s


def parents_weights(step: Step, reports: list[LevelReport]) -> Tensor:
    """W0 (p, m) of the ridge towards the parents, and of gradient fits where widths differ."""
    level = step.level
    before = reports[-1] if reports else None
    if before is not None and not is_channel_major(level, step.boundary):
        raise ValueError(
            f"level {level.name!r} does not read its inputs channel by channel, so the parents' weights cannot be "
            "mapped onto the fused inputs. Use toward='zero'."
        )
    labels = before.labels.to(step.device) if before else None
    return mapped_weights(level, step.parents, labels, before.widths if before else (), before.width if before else 0)


def _start_at_parents(plan: Plan, step: Step, reports: list[LevelReport], A: Tensor) -> None:
    """Start a gradient fit at parent 0's weights, or at the mapped mean of the parents' where shapes differ.

    In levels of several layers those start at parent 0's weights that it has too, of the same name and shape; the
    others keep the target's.
    """
    level, own = step.level, step.level.state()
    known = {name: value for parent in plan.parents[0] for name, value in parent.state().items()}
    known = {name: known[name] for name, value in own.items() if name in known and known[name].shape == value.shape}
    affine = level.affine is not None and all(parent.affine is not None for parent in step.parents)
    if len(known) < len(own) and affine:
        write_weights(level, parents_weights(step, reports) @ A)
        return
    for name, value in known.items():
        own[name].copy_(value)


def _fit_ridge(
    level: Level,
    sums: Moments | Rows,
    solution: Solution,
    s: Tensor,
    labels: Tensor,
    targets: Targets,
    clock: devices.Stopwatch,
) -> dict[str, Any]:
    """Closed form; returns what the report says of the fit."""
    with clock.phase("solve"):
        V = ridge(level, solution, targets.A)
    with clock.phase("report"):
        return {
            "approximation_error": approximation_error(sums, targets, V, solution.missed(targets.A, V)),
            "cross_error": cross_error(sums, s, labels, targets, V),
            "unavoidable_error": unavoidable_error(sums, s),
            "ridge": solution.strength,
            "form": "dual" if isinstance(sums, Rows) else "primal",
        }


def _fit_gradient(
    step: Step,
    s: Tensor,
    labels: Tensor,
    targets: Targets,
    generator: torch.Generator,
    chosen: dict[str, Any],
    weighted_loss: bool,
    monitor: Monitor,
) -> dict[str, Any]:
    """Gradient descent from the level's weights; returns what the report says of the fit."""
    level, walk, totals = step.level, step.walk, targets.totals
    x, T = step.inputs_and_targets(targets.A)
    with walk.stopwatch.phase("fit"), torch.enable_grad():
        options = {name: chosen[name] for name in GRADIENT_OPTIONS}
        weights = totals if weighted_loss else None
        curve = gradient(level, x, T, generator=generator, weights=weights, monitor=monitor, **options)
    with walk.stopwatch.phase("report"):
        error = torch.zeros_like(totals)
        for h, t in zip(x.split(walk.batch), T.split(walk.batch), strict=True):
            error += (rows(level.module(h), level.axis) - t.flatten(0, 1)).double().square().sum(0)
    nan = float("nan")
    return {
        "approximation_error": (totals @ error).item(),
        "cross_error": _cross_of_rows(step, s, labels, targets),
        "unavoidable_error": nan,
        "ridge": nan,
        "form": "gradient",
        "curve": curve,
    }


def _cross_of_rows(step: Step, s: Tensor, labels: Tensor, targets: Targets) -> float:
    """Theorem 1's cross term of a level that is not affine, from its rows; 0 without any work for weighted means."""
    extra = excess(targets, labels, s)
    if extra is None:
        return 0.0
    products = torch.zeros_like(extra)
    for f, z in step.fitted():
        z = z.double()
        products += z.T @ (f.double() - z @ targets.A)
    return cross_of(products, extra)


def _take_over(level: Level, report: LevelReport, weights: dict[str, Tensor]) -> LevelReport:
    level.module.load_state_dict({name: value.to(devices.of(level.module)) for name, value in weights.items()})
    return report
