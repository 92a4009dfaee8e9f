"""Algorithm 1 of the paper in plain loops over materialised activations, in numpy: the oracle of the fusion tests.

Written from the equations; shares nothing with retrofit_core. Neurons of all parents stand side by side (m of them),
z is (N, m), x (N, p) with a last column of ones where the level has a bias, a grouping is a list of lists of neurons.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

import numpy as np
from numpy import ndarray
from torch import nn

Groups = list[list[int]]


# --- networks --------------------------------------------------------------------------------------------------------


def described(model: nn.Sequential) -> list[tuple]:
    """A Sequential of Linear, Conv2d, ReLU, pooling and Flatten as a list of (operation, numbers)."""
    steps: list[tuple] = []
    for module in model:
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            weight = module.weight.detach().double().numpy().copy()
            bias = None if module.bias is None else module.bias.detach().double().numpy().copy()
            window = () if isinstance(module, nn.Linear) else (module.stride[0], module.padding[0])
            steps.append(("linear" if not window else "conv", weight, bias, *window))
        elif isinstance(module, (nn.MaxPool2d, nn.AvgPool2d)):
            stride = module.stride if module.stride is not None else module.kernel_size
            steps.append(("max" if isinstance(module, nn.MaxPool2d) else "mean", module.kernel_size, stride))
        else:
            steps.append(({nn.ReLU: "relu", nn.Flatten: "flatten", nn.Tanh: "tanh"}[type(module)],))
    return steps


def input_rows(step: tuple, h: ndarray) -> ndarray:
    """The rows that an affine step multiplies with its weights: the samples, or every patch of every sample."""
    if step[0] == "linear":
        return h
    _, weight, _, stride, padding = step
    size = weight.shape[2]
    padded = np.pad(h, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    rows = []
    for sample in padded:
        for i in range(0, sample.shape[1] - size + 1, stride):
            for j in range(0, sample.shape[2] - size + 1, stride):
                rows.append(sample[:, i : i + size, j : j + size].ravel())  # noqa: PERF401 - loops, on purpose
    return np.array(rows)


def apply(step: tuple, h: ndarray) -> ndarray:
    """One operation on (B, ...) samples."""
    if step[0] in ("linear", "conv"):
        weight, bias = step[1], step[2]
        z = input_rows(step, h) @ weight.reshape(len(weight), -1).T + (0 if bias is None else bias)
        if step[0] == "linear":
            return z
        side = int(round((len(z) / len(h)) ** 0.5))
        return z.reshape(len(h), side, side, -1).transpose(0, 3, 1, 2)
    if step[0] == "relu":
        return np.maximum(h, 0)
    if step[0] == "tanh":
        return np.tanh(h)
    if step[0] == "flatten":
        return h.reshape(len(h), -1)
    pool = np.max if step[0] == "max" else np.mean
    _, size, stride = step
    starts = range(0, h.shape[2] - size + 1, stride)
    return np.array(
        [[pool(h[:, :, i : i + size, j : j + size], axis=(2, 3)) for j in starts] for i in starts]
    ).transpose(2, 3, 0, 1)


def run(steps: Sequence[tuple], h: ndarray) -> ndarray:
    for step in steps:
        h = apply(step, h)
    return h


def output_rows(z: ndarray) -> ndarray:
    """(B, C, H, W) or (B, C) as rows of neurons."""
    return z if z.ndim == 2 else z.transpose(0, 2, 3, 1).reshape(-1, z.shape[1])


# --- one level -------------------------------------------------------------------------------------------------------


def target(z: ndarray, scores: ndarray, group: Sequence[int]) -> ndarray:
    """The importance-weighted mean of a group's outputs; the plain mean if nobody matters."""
    total = sum(scores[j] for j in group)
    if total == 0:
        return sum(z[:, j] for j in group) / len(group)
    return sum(scores[j] * z[:, j] for j in group) / total


def ridge(
    x: ndarray, t: ndarray, strength: float, parent_weights: ndarray | None = None, *, bias: bool = True
) -> ndarray:
    """argmin_v |x v - t|^2 + strength |v - parent_weights|^2, the bias (last entry) free, as least squares on
    stacked rows.
    """
    p = x.shape[1]
    if strength == 0:
        return np.linalg.pinv(x) @ t
    penalised = np.eye(p)[: p - 1] if bias else np.eye(p)
    pull = np.zeros(p) if parent_weights is None else parent_weights
    rows = np.vstack([x, strength**0.5 * penalised])
    return np.linalg.lstsq(rows, np.concatenate([t, strength**0.5 * penalised @ pull]), rcond=None)[0]


def fitted_cost(
    x: ndarray,
    z: ndarray,
    scores: ndarray,
    groups: Groups,
    strength: float = 0.0,
    parent_weights: ndarray | None = None,
    *,
    bias: bool = True,
) -> float:
    """What the level costs once the groups' weights are fitted: the representation cost, plus the ridge's penalty."""
    total = 0.0
    for group in groups:
        pull = None if parent_weights is None else target(parent_weights, scores, group)
        v = ridge(x, target(z, scores, group), strength, pull, bias=bias)
        for j in group:
            away = v - (0 if parent_weights is None else parent_weights[:, j])
            total += scores[j] * np.sum((x @ v - z[:, j]) ** 2)
            total += scores[j] * strength * np.sum((away[:-1] if bias else away) ** 2)
    return total


def errors(
    x: ndarray, z: ndarray, scores: ndarray, groups: Groups, weights: Sequence[ndarray]
) -> tuple[float, float, float]:
    """(J, approximation, grouping) of Theorem 1 by their definitions, on raw targets."""
    J = approximation = grouping = 0.0
    for group, v in zip(groups, weights, strict=True):
        t = target(z, scores, group)
        for j in group:
            J += scores[j] * np.sum((x @ v - z[:, j]) ** 2)
            approximation += scores[j] * np.sum((x @ v - t) ** 2)
            grouping += scores[j] * np.sum((t - z[:, j]) ** 2)
    return J, approximation, grouping


def cluster_cost(points: ndarray, scores: ndarray, groups: Groups) -> float:
    """sum_j s_j |point_j - centroid of its group|^2; points are columns."""
    cost = 0.0
    for group in groups:
        t = target(points, scores, group)
        cost += sum(scores[j] * np.sum((points[:, j] - t) ** 2) for j in group)
    return cost


def matchings(width: int) -> Iterator[Groups]:
    """All ways to pair the neurons 0..width-1 with width..2 width-1."""
    for order in permutations(range(width)):
        yield [[i, width + j] for i, j in enumerate(order)]


def partitions(m: int, d: int) -> Iterator[Groups]:
    """All ways to split 0..m-1 into d non-empty groups."""
    if d == 0:
        if m == 0:
            yield []
        return
    if m < d:
        return
    for smaller in partitions(m - 1, d):
        for k in range(d):
            yield [[*group, m - 1] if i == k else list(group) for i, group in enumerate(smaller)]
    for smaller in partitions(m - 1, d - 1):
        yield [*smaller, [m - 1]]


# --- the whole algorithm ---------------------------------------------------------------------------------------------


def fuse(
    parents: Sequence[nn.Sequential],
    x: ndarray,
    scores: Sequence[Sequence[ndarray]],
    groupings: Sequence[Groups],
    *,
    ridge_strength: float | str = 0.0,
    toward_parents: bool = False,
) -> tuple[list[tuple], list[dict[str, Any]]]:
    """Fuse Sequential networks of parent 0's architecture (or widths given by the groupings), level by level.

    Args:
        scores: scores[level] holds the parents' neurons side by side.
        groupings: groups of each level, in the order of the fused neurons.
        ridge_strength: lambda, or "auto": 1e-2 x the mean of x'x's diagonal without bias.
    Returns:
        The fused network's steps, and per level x, z, the weights and Theorem 1's errors.
    """
    networks = [described(parent) for parent in parents]
    fused: list[tuple] = []
    h, facts = x, []
    for position, step in enumerate(networks[0]):
        if step[0] not in ("linear", "conv"):
            fused.append(step)
            h = apply(step, h)
            continue
        level = len(facts)
        z = np.hstack([output_rows(run(steps[: position + 1], x)) for steps in networks])
        bias = step[2] is not None
        rows = input_rows(step, h)
        diagonal = np.mean([np.sum(rows[:, i] ** 2) for i in range(rows.shape[1])])
        rows = np.hstack([rows, np.ones((len(rows), 1))]) if bias else rows
        parent_weights = None
        if toward_parents:
            parent_weights = np.hstack(
                [own_weights(steps, position, facts[-1] if facts else None, k) for k, steps in enumerate(networks)]
            )
        lam = ridge_strength
        if lam == "auto":
            lam = 1e-2 * diagonal
        weights = []
        for group in groupings[level]:
            pull = None if parent_weights is None else target(parent_weights, scores[level], group)
            weights.append(ridge(rows, target(z, scores[level], group), lam, pull, bias=bias))
        J, approximation, grouping = errors(rows, z, scores[level], groupings[level], weights)
        V = np.array(weights)  # (d, p)
        shape = (len(V), -1, *step[1].shape[2:])
        done = (step[0], (V[:, :-1] if bias else V).reshape(shape), V[:, -1] if bias else None, *step[3:])
        widths = [len(steps[position][1]) for steps in networks]
        facts.append(
            {
                "x": rows,
                "z": z,
                "own": parent_weights,
                "lambda": lam,
                "V": V,
                "J": J,
                "approximation": approximation,
                "grouping": grouping,
                "groups": groupings[level],
                "widths": widths,
            }
        )
        fused.append(done)
        h = apply(done, h)
    return fused, facts


def own_weights(steps: list[tuple], position: int, before: dict[str, Any] | None, parent: int) -> ndarray:
    """(p, width): a parent's weights on the fused inputs, every previous neuron replaced by its group's neuron."""
    weight, bias = steps[position][1], steps[position][2]
    if before is None:
        mapped = weight.reshape(len(weight), -1).T
    else:
        widths = before["widths"]
        each = weight[0].size // widths[parent]
        mapped = np.zeros((len(before["groups"]) * each, len(weight)))
        for neuron in range(widths[parent]):
            column = sum(widths[:parent]) + neuron
            k = next(k for k, group in enumerate(before["groups"]) if column in group)
            for output in range(len(weight)):
                block = weight[output].ravel()[neuron * each : (neuron + 1) * each]
                mapped[k * each : (k + 1) * each, output] += block
    return mapped if bias is None else np.vstack([mapped, bias[None]])
