"""Conductance of all neurons at all levels, in one pass per interpolation point (Dhamdhere et al. 2018)."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from ...system.monitor import Monitor
from ...system.refusals import Refusal
from ...system.settings import AT_LEAST_ONE, setting
from .base import Importance, Neurons, Scores, summed, true_logits


@dataclass(frozen=True, eq=False)
class Conductance(Importance):
    """Flow through a neuron to the logit of the true class (Dhamdhere et al. 2018).

    With boundary tensors h(a) at inputs a x and gradients g(a) = d f_y / d h, the attribution of a neuron is
    sum_i (h(a_i+1) - h(a_i)) g(a_i) over Gauss-Legendre points a_1 ... a_(steps+1), as in Captum's LayerConductance. Captum
    makes two passes per level; here, one backward pass per point gives the gradients at all levels. The score is the sum
    over positions of the absolute value, averaged over samples. The baseline is zero, the mean image in normalised input
    space. For integer inputs, such as tokens, the path leads from zero to their embeddings (nn.Embedding).
    """

    steps: int = setting(
        10, "intervals of the path from the zero image to the sample", AT_LEAST_ONE, title="Steps of the path"
    )
    mixed_precision: bool = setting(False, "run passes in bfloat16, with sums in float64")
    whole: Tensor | None = field(default=None, repr=False)
    """Mask of the integers in a sample; see `for_whole_numbers`"""

    def for_whole_numbers(self, whole: Tensor) -> Self:
        """Use the path of the integers' embeddings."""
        return replace(self, whole=whole)

    def check(self, neurons: Neurons) -> None:
        """Check that an nn.Embedding reads the integers."""
        parts = [part for level in neurons.levels for part in level.module.modules()]
        if self.whole is not None and parts and not any(isinstance(part, nn.Embedding) for part in parts):
            raise Refusal(
                "importance 'conductance' follows a path from zero, but these networks read whole numbers without an "
                "nn.Embedding, whose outputs it could follow. Use importance='uniform'.",
                ("importance", "uniform"),
            )

    def scores(self, neurons: Neurons, x: Tensor, y: Tensor | None, *, monitor: Monitor) -> Scores:
        """Conductance at each tensor, (width,) each."""
        assert y is not None
        whole, points = self.whole, (np.polynomial.legendre.leggauss(self.steps + 1)[0] + 1) / 2
        path = partial(_along, neurons, None if whole is None else whole.to(x.device))

        def attribute(inputs: Tensor, labels: Tensor) -> tuple[list[Tensor], float]:
            with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=self.mixed_precision):
                attributions = _attributions(path, inputs, labels, points)
                return attributions, _change(path, inputs, inputs[:1] if whole is None else inputs, labels)

        scores = summed("conductance", attribute, neurons, x, y, monitor, copies=8)
        return replace(scores, report={"steps": self.steps, **scores.report})


#: Inputs and a point of the path from zero to them -> tensors, (B, ...) each.
Path = Callable[[Tensor, float], list[Tensor]]


def _along(neurons: Neurons, whole: Tensor | None, x: Tensor, point: float) -> list[Tensor]:
    """The tensors at a point of the path; integer inputs stay, while the outputs of each nn.Embedding are scaled."""
    if whole is None:
        return neurons(x * point)
    thread = threading.get_ident()

    def scale(module: nn.Module, _: object, output: Tensor) -> Tensor | None:
        if not isinstance(module, nn.Embedding) or threading.get_ident() != thread:
            return None
        return (output.detach() * point).requires_grad_(torch.is_grad_enabled())

    # A global hook also covers copies of modules. Its type stub does not know hooks that return a value.
    hook = nn.modules.module.register_module_forward_hook(scale)  # type: ignore[arg-type]
    try:
        return neurons(torch.where(whole, x, x * point))
    finally:
        hook.remove()


def _attributions(path: Path, x: Tensor, y: Tensor, points: np.ndarray) -> list[Tensor]:
    """Conductance at each tensor, of the same shape (B, ...)."""
    totals: list[Tensor] = []
    before: list[Tensor] = []
    gradients: tuple[Tensor, ...] = ()
    for point in points:
        last = point == points[-1]
        with torch.set_grad_enabled(not last):
            tensors = path(x, float(point))
        if gradients:
            steps = [(h.detach() - h0) * g for h, h0, g in zip(tensors, before, gradients, strict=True)]
            totals = [total + step for total, step in zip(totals, steps, strict=True)] if totals else steps
        if not last:
            gradients = torch.autograd.grad(true_logits(tensors[-1], y).sum(), tensors)
        before = [h.detach() for h in tensors]
    return totals


@torch.no_grad()
def _change(path: Path, x: Tensor, start: Tensor, y: Tensor) -> float:
    """Sum over samples of f_y(x) - f_y(0).

    Args:
        start: samples whose paths begin at point 0; one if that point is the same for all.
    """
    after = true_logits(path(x, 1.0)[-1], y)
    zero = path(start, 0.0)[-1]
    return (after - true_logits(zero.expand(len(y), -1), y)).sum(dtype=torch.float64).item()
