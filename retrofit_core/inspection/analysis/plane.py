"""A level's own loss on a plane of its weights, exactly: the loss of an affine level is quadratic.

Legend: x (N, p), z (N, m), A (m, d) and T = z A as in `moments`; V (p, d) fitted weights, P (p, d) a parent's weights on
the fused inputs; S_k the sum of scores in group k.
"""

from typing import Any

import torch
from torch import Tensor

from ...fusion.moments import Moments, Rows, squared_misses
from ...fusion.targets import Targets, weighted_means

#: A direction shorter than this share of the weights is rounding.
SHORTEST = 1e-6
UNIT = "share of energy"


def loss_plane(
    sums: Moments | Rows, targets: Targets, energy: float, V: Tensor, parents: list[Tensor]
) -> dict[str, Any]:
    """sum_k S_k |x v_k - T_k|^2 as a share of the level's energy, on the plane through V and two parents' weights.

    The origin is V; the axes are orthonormal in weight space (Gram-Schmidt). Without a second parent in another direction,
    the second axis is the steepest descent at the first parent, perpendicular to the first axis.

    Args:
        targets: what the run fitted the level to.
        energy: sum_j s_j |z_j|^2 of the parents' neurons.
        parents: (p, d) weights of the parents, see `parent_weights`.
    Returns:
        quadratic [c, gx, gy, hxx, hxy, hyy] with loss = c + gx x + gy y + hxx x^2 + hxy x y + hyy y^2; marks (name, x, y,
        loss); axes, in words; unit. If all weights coincide, only "why".
    """
    sums = sums.moments() if isinstance(sums, Rows) else sums
    A, totals = targets.A, targets.totals
    shortest = SHORTEST * V.norm().item()
    steps = {f"parent {k}": parent - V for k, parent in enumerate(parents[:2])}
    away = {name: step for name, step in steps.items() if step.norm() > shortest}
    if not away:
        return {
            "why": "the parents' weights on the fused inputs are the fitted ones, so there is no direction to show."
        }
    first, *others = away
    axes = [away[first] / away[first].norm()]
    names = [f"towards {first}"]
    second = next((name for name in others if _across(away[name], axes[0]).norm() > shortest), None)
    across = _across(away[second], axes[0]) if second else None
    if across is None:
        slope = -2 * _pull(sums, A, V + away[first]) * totals
        across = _across(slope, axes[0])
        names.append(f"the steepest way down at {first}")
    else:
        names.append(f"towards {second}, across")
    axes += [across / across.norm()] if across.norm() > 0 else []
    names = names[: len(axes)]
    quadratic = _quadratic(sums, A, totals / energy, V, axes)
    marks = [{"name": "fused", "x": 0.0, "y": 0.0}]
    marks += [
        {"name": name, **dict(zip("xy", [*((step * axis).sum().item() for axis in axes), 0.0], strict=False))}
        for name, step in steps.items()
    ]
    return {
        "quadratic": quadratic,
        "marks": [{**mark, "loss": at(quadratic, mark["x"], mark["y"])} for mark in marks],
        "axes": names,
        "unit": UNIT,
    }


def at(quadratic: list[float], x: float, y: float) -> float:
    """The loss at a point of the plane."""
    c, gx, gy, hxx, hxy, hyy = quadratic
    return c + gx * x + gy * y + hxx * x * x + hxy * x * y + hyy * y * y


def parent_weights(W0: Tensor, scores: Tensor, labels: Tensor, widths: tuple[int, ...], width: int) -> list[Tensor]:
    """(p, width) for each parent: its neurons' mapped weights, averaged by score over each group.

    A group without neurons of this parent gets the mean over all its members.

    Args:
        W0: (p, m) the parents' weights mapped onto the fused inputs.
    """
    everyone = weighted_means(labels, scores, width).A
    weights, start = [], 0
    for n in widths:
        neurons = slice(start, start + n)
        A = torch.zeros_like(everyone)
        A[neurons] = weighted_means(labels[neurons], scores[neurons], width).A
        absent = torch.bincount(labels[neurons], minlength=width) == 0
        A[:, absent] = everyone[:, absent]
        weights.append(W0 @ A)
        start += n
    return weights


def _across(step: Tensor, axis: Tensor) -> Tensor:
    return step - (step * axis).sum() * axis


def _pull(sums: Moments, A: Tensor, V: Tensor) -> Tensor:
    """x'(x V - T), whose columns are half the gradient of |x v_k - T_k|^2."""
    return sums.times(V) - sums.xz @ A


def _quadratic(sums: Moments, A: Tensor, totals: Tensor, V: Tensor, axes: list[Tensor]) -> list[float]:
    pull = _pull(sums, A, V)
    images = [sums.times(axis) for axis in axes]
    slopes = [2 * ((axis * pull).sum(0) @ totals).item() for axis in axes]
    bends = [((axis * image).sum(0) @ totals).item() for axis, image in zip(axes, images, strict=True)]
    mixed = 2 * ((axes[0] * images[1]).sum(0) @ totals).item() if len(axes) == 2 else 0.0
    slopes, bends = [*slopes, 0.0][:2], [*bends, 0.0][:2]
    return [(squared_misses(sums, A, V, pull) @ totals).item(), *slopes, bends[0], mixed, bends[1]]
