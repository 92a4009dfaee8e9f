"""Conductance of all neurons at all levels, in one pass per interpolation point (Dhamdhere et al. 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...graph.graph import name_of
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

    def check(self, neurons: Neurons) -> None:
        """Check that an embedding reads whole numbers."""
        if neurons.reads_whole_numbers and not any(name_of(node) == "embedding" for node in neurons.net.graph.nodes):
            raise Refusal(
                "importance 'conductance' follows a path from zero, but these networks read whole numbers without an "
                "nn.Embedding, whose outputs it could follow. Use importance='uniform'.",
                ("importance", "uniform"),
            )

    def scores(self, neurons: Neurons, x: Any, y: Tensor | None, *, monitor: Monitor) -> Scores:
        """Conductance at each tensor, (width,) each."""
        assert y is not None
        points = (np.polynomial.legendre.leggauss(self.steps + 1)[0] + 1) / 2

        def attribute(inputs: list[Tensor], labels: Tensor) -> tuple[list[Tensor], float]:
            return _attributions(neurons, inputs, labels, points), _change(neurons, inputs, labels)

        scores = summed("conductance", attribute, neurons, x, y, monitor, copies=8)
        return replace(scores, report={"steps": self.steps, **scores.report})


def _attributions(neurons: Neurons, x: Sequence[Tensor], y: Tensor, points: np.ndarray) -> list[Tensor]:
    """Conductance at each tensor, of the same shape (B, ...)."""
    totals: list[Tensor] = []
    before: list[Tensor] = []
    gradients: tuple[Tensor, ...] = ()
    for point in points:
        last = point == points[-1]
        with torch.set_grad_enabled(not last):
            tensors = neurons.run(x, float(point))
        if gradients:
            steps = [(h.detach() - h0) * g for h, h0, g in zip(tensors, before, gradients, strict=True)]
            totals = [total + step for total, step in zip(totals, steps, strict=True)] if totals else steps
        if not last:
            gradients = torch.autograd.grad(true_logits(tensors[-1], y).sum(), tensors)
        before = [h.detach() for h in tensors]
    return totals


@torch.no_grad()
def _change(neurons: Neurons, x: Sequence[Tensor], y: Tensor) -> float:
    """Sum over samples of f_y(x) - f_y(0)."""
    after, before = (true_logits(neurons.run(x, point)[-1], y) for point in (1.0, 0.0))
    return (after - before).sum(dtype=torch.float64).item()
