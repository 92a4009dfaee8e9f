"""The solution of a level: every parent neuron's own fit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from torch import Tensor


def _unsolved(*_: Tensor) -> NoReturn:
    raise TypeError("nothing was solved: this fit groups neurons by their raw outputs.")


@dataclass(frozen=True, eq=False)
class Solution:
    """Every parent neuron's own fit to the fused inputs, in the form that grouping and fit need."""

    gram: Tensor
    """(m, m) G = phi'phi: inner products of the projected neurons, exact costs at any ridge and W0"""
    strength: float = float("nan")
    """lambda as used, after `auto` and any increase"""
    weights: Callable[[Tensor], Tensor] = _unsolved
    """A (m, d) -> V (p, d): the fused weights for the targets z A; the bias is the last row"""
    missed: Callable[[Tensor, Tensor], Tensor] = _unsolved
    """A, V = weights(A) -> (d,): |x V_k - T_k|^2, at the cost of the right-hand side instead of xx V"""
