"""Git Re-Basin: two parents' neurons paired one to one, then averaged (Ainsworth et al. 2023)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from ..device import Stopwatch, of
from ..grouping import pairwise_costs
from ..monitor import Monitor
from ..registry import check_words
from ..results import FusionResult, LevelReport
from ..symmetry import Group, Sums, group_sums, tensors
from ..training_flags import keeps_training_flags
from .aligned import Aligning, lines_of, prepare, report
from .otfusion import Mode, incoming

Similarity = Literal["distance", "unsquared", "correlation"]
#: Coordinate descent stops when no pairing gains this much, or after so many rounds (the authors' code).
LEAST_GAIN, MOST_ROUNDS = 1e-12, 100


@keeps_training_flags
@torch.no_grad()
def rebasin(
    models: Sequence[nn.Module],
    data: Any,
    *,
    mode: Mode = "activations",
    similarity: Similarity = "distance",
    importance: str | Callable[..., Any] = "uniform",
    importance_data: Any = None,
    importance_options: dict[str, Any] | None = None,
    target: nn.Module | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    monitor: Monitor | None = None,
    leaves: Sequence[str] = (),
    repair: bool = False,
) -> FusionResult:
    """Pair parent 1's neurons with parent 0's and take the importance-weighted mean. Parents are left as they are.

    Groups (residual streams as one, heads apart, BatchNorm carried along) come from `neuron_groups`. A fused neuron's
    incoming weights are (s0 w0 + s1 w1) / (s0 + s1).

    Differences from the authors' code: activation matching weighs the cost by scores as Luenam et al. do (with uniform
    scores it is the largest inner product, theirs); weight matching starts from one pass through the network that
    uses incoming weights only, in place of the identity, so that a reordered copy is always found; its seed decides
    the order of the rounds.

    Args:
        data: fusion data; they show the neurons behind their activation functions (activations) and serve the reports.
        mode: "activations", or "weights" (coordinate descent on the sum of inner products of all weights).
        similarity: of activations: "distance" (squared), "unsquared", or "correlation".
        target: None, or a network of the parents' widths.
        repair: correct the statistics of the fused network's layers (REPAIR); see `repair`.
    Raises:
        ValueError: not two parents of equal widths, unknown options, or an operation without a rule.
    """
    check_words(mode=(mode, Mode), similarity=(similarity, Similarity))
    if len(models) != 2:
        raise ValueError(
            f"Git Re-Basin pairs exactly two parents; found {len(models)}. Use OTFusion, KF-Linear or KF-Gradient: "
            "each takes any number."
        )
    plan = prepare(
        models,
        data,
        "Git Re-Basin",
        target=target,
        importance=importance,
        importance_data=importance_data,
        importance_options=importance_options,
        device=device,
        monitor=monitor,
        leaves=leaves,
    )
    _check_widths(plan)
    clock = Stopwatch(of(plan.fused))
    with clock.phase("forward"):
        sums = group_sums(plan.parents, plan.groups, plan.inputs, after=True, monitor=plan.monitor, leaves=leaves)
    states = [tensors(parent) for parent in plan.parents]
    orders: dict[str, Tensor] = {}
    facts: dict[str, Any] = {}
    if mode == "weights":
        with clock.phase("group"):
            orders, facts = match_weights(plan.targets, *states, seed=seed, monitor=plan.monitor)
    reports: list[LevelReport] = []
    weights: dict[str, tuple[int, Tensor]] = {}
    maps: list[dict[str, Tensor]] = [{}, {}]
    for index, group in enumerate(plan.monitor.each("level", plan.targets)):
        s0, s1 = (scores[index] for scores in plan.scores)
        with clock.phase("group"):
            if mode == "activations":
                orders[group.name] = (
                    torch.arange(group.width) if group.fixed else _matched(sums[index], s0, s1, similarity)
                )
            order = orders.setdefault(group.name, torch.arange(group.width))
            shares = torch.stack([s0, s1[order.to(s1.device)]])
            shares = shares / shares.sum(0)
            _note_shares(weights, group, shares, states[0])
            for own, share, members in zip(maps, shares, (torch.arange(group.width), order), strict=True):
                own[group.name] = torch.diag(share)[members.argsort().to(share.device)]  # (own neurons, fused ones)
            labels = torch.cat([torch.arange(group.width), order.argsort()])
        reports.append(
            report(
                group,
                (group.width, group.width),
                sums[index],
                torch.cat([s0, s1]),
                labels,
                {"algorithm": "linear_sum_assignment", **facts},
                dict(clock.seconds),
            )
        )
        clock.seconds.clear()
    states[1] = _reordered(states[1], plan.targets, orders)
    plan.write(states, weights)
    corrected = plan.repaired(maps, leaves) if repair else None
    return plan.result(
        reports,
        method="Git Re-Basin",
        repair=corrected,
        mode=mode,
        similarity=similarity,
        seed=seed,
        importance=getattr(importance, "__name__", importance),
    )


def _check_widths(plan: Aligning) -> None:
    for together, group in zip(zip(*plan.groups, strict=True), plan.targets, strict=True):
        widths = [own.width for own in together]
        if set(widths) != {group.width}:
            raise ValueError(
                f"level {group.name!r}: Git Re-Basin pairs parents of equal widths; found widths {tuple(widths)} and fused "
                f"width {group.width}. Use OTFusion, KF-Linear or KF-Gradient."
            )


def _matched(sums: Sums, s0: Tensor, s1: Tensor, similarity: str) -> Tensor:
    """(n,) the neuron of parent 1 that goes with each neuron of parent 0."""
    n = len(s0)
    if similarity == "correlation":
        cost = -sums.correlation()[:n, n:]
    elif similarity == "distance":
        cost = pairwise_costs(sums.zz, torch.cat([s0, s1]), n)
    else:  # s_i |m - a_i| + s_j |m - a_j| with m the weighted mean of both
        norms = sums.zz.diagonal()
        distances = (norms[:n, None] + norms[None, n:] - 2 * sums.zz[:n, n:]).clamp_min(0).sqrt()
        cost = 2 * s0[:, None] * s1[None] / (s0[:, None] + s1[None]) * distances
    return torch.from_numpy(linear_sum_assignment(cost.double().cpu().numpy())[1])


def _note_shares(
    weights: dict[str, tuple[int, Tensor]], group: Group, shares: Tensor, state: Mapping[str, Tensor]
) -> None:
    """Write the parents' shares (2, width) of a group's neurons to every tensor that makes them."""
    for place in group.places:
        if place.kind == "in":
            continue
        even = shares.new_full((2, state[place.name].shape[place.axis]), 0.5)
        _, found = weights.setdefault(place.name, (place.axis, even))
        found[:, place.index.to(shares.device)] = shares[:, :, None].expand(-1, -1, place.index.shape[1])


def match_weights(
    groups: Sequence[Group], first: Mapping[str, Tensor], second: Mapping[str, Tensor], *, seed: int, monitor: Monitor
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Pair neurons so that the inner product of all weights is as large as coordinate descent makes it.

    Returns:
        (width,) for each group but the classes the neuron of the second network that goes with each of the first; and
        what the descent tells about itself.
    """
    free = [group for group in groups if not group.fixed]
    first = {name: tensor.double() for name, tensor in first.items()}
    second = {name: tensor.double() for name, tensor in second.items()}
    orders = _forward_pass(groups, first, second)
    generator = torch.Generator().manual_seed(seed)
    rounds, gained = 0, True
    while gained and rounds < MOST_ROUNDS:
        gained, rounds = False, rounds + 1
        for number in torch.randperm(len(free), generator=generator).tolist():
            monitor.check()
            group = free[number]
            gains = _gains(group, groups, first, second, orders)
            new = torch.from_numpy(linear_sum_assignment(gains.cpu().numpy(), maximize=True)[1])
            line = torch.arange(group.width)
            before, after = gains[line, orders[group.name]].sum(), gains[line, new].sum()
            if after > before + LEAST_GAIN * max(1.0, abs(before.item())):
                orders[group.name], gained = new, True
    return orders, {"rounds": rounds, "converged": not gained}


def _forward_pass(
    groups: Sequence[Group], first: Mapping[str, Tensor], second: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Each group by its incoming weights, whose inputs are paired already."""
    orders: dict[str, Tensor] = {}
    for index, group in enumerate(groups):
        if group.fixed:
            continue
        done = groups[:index]
        left = incoming(groups, index, dict(first), done)
        right = incoming(groups, index, _reordered(second, groups, orders), done)
        cost = torch.cdist(left, right).square()
        orders[group.name] = torch.from_numpy(linear_sum_assignment(cost.cpu().numpy())[1])
    return orders


def _gains(
    group: Group,
    groups: Sequence[Group],
    first: Mapping[str, Tensor],
    second: Mapping[str, Tensor],
    orders: Mapping[str, Tensor],
) -> Tensor:
    """(n, n) inner products of the weights at a group's neurons, all other groups paired as they are now."""
    total = torch.zeros(group.width, group.width, dtype=torch.float64, device=first[group.places[0].name].device)
    for place in group.places:
        if place.name.rpartition(".")[2] in ("running_mean", "running_var"):
            continue  # statistics are no weights
        here = {place.name: second[place.name]}
        other = _reordered(here, groups, orders, skip=(place.name, place.axis))[place.name]
        total += lines_of(first[place.name], place) @ lines_of(other, place).T
    return total


def _reordered(
    state: Mapping[str, Tensor],
    groups: Sequence[Group],
    orders: Mapping[str, Tensor],
    skip: tuple[str, int] | None = None,
) -> dict[str, Tensor]:
    """Tensors with the neurons of each group in the wanted order."""
    found = dict(state)
    for group in groups:
        for place in group.places if group.name in orders else ():
            if place.name not in found or (place.name, place.axis) == skip:
                continue
            tensor = found[place.name]
            to, start = (index.flatten().to(tensor.device) for index in (place.index, place.index[orders[group.name]]))
            found[place.name] = tensor.index_copy(place.axis, to, tensor.index_select(place.axis, start))
    return found
