"""RegMean: weights closest to every parent's layers on its own inputs (Jin et al. 2023). No alignment.

Legend: W_k (p, c) weights of a layer of parent k, G_k (p, p) the mean of x x' over its input rows, a(G) = G with the
off-diagonals times the ratio.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..fusion.eligibility import check_inputs
from ..fusion.moments import cholesky
from ..fusion.results import FusionResult
from ..fusion.task import Plan, Takes, Task
from ..graph.graph import load
from ..graph.network import Network
from ..networks.inputs import batches_of, count_of
from ..system.device import check_sums, on_device
from ..system.monitor import Monitor
from ..system.settings import FRACTION, setting
from .averaging import WeightAverager, average, check_can_be_averaged
from .inputs import leaves, networks
from .layers import OperationSums, batch_for, refuse_other_numbers, solved_layers, values_of

#: Ridge towards the average, relative to the mean diagonal of the Gram matrices, for directions that no parent saw: large
#: compared with rounding of products, small compared with data.
VANISHING = {torch.float32: 1e-6, torch.float64: 1e-12}


@dataclass(frozen=True)
class RegMean(WeightAverager):
    """W = (sum_k a(G_k))^-1 sum_k a(G_k) W_k for linear layers and ungrouped convolutions; other tensors are averaged.

    Neurons are not aligned, so it suits parents with a common initialisation. The sums of all layers are held at once.
    Nothing is random. A parent without its own data runs on the fusion data. Only the shapes of a target count, which are
    the parents'.

    Differences from the authors' code: it includes convolutions, with unfolded inputs; Gram matrices are means, so that
    parents count equally whatever the size of their data; in directions that no parent sees, weights stay at the
    average. As in theirs, biases are averaged.
    """

    takes: ClassVar[Takes] = Takes(equal_widths=True, target=True, parents_data=True)
    title: ClassVar[str] = "RegMean"

    ratio: float = setting(
        0.9,
        "factor for the off-diagonals (1: least squares; 0: a weighted average; 0.9: as in the paper)",
        FRACTION,
        title="Weight of off-diagonals",
    )

    def plan(self, task: Task) -> Plan:
        """Check shapes and data; see `Algorithm`."""
        check_inputs(task.parents, task.inputs, target=task.target, least=1, method=self.title)
        self.check_mergeable(task)
        nets = networks(task, task.parents)
        for index, net in enumerate(nets):
            solved_layers(net, f"RegMean, parent {index}")
        refuse_other_numbers(nets, task.parents[0], self.title)
        if task.target is not None:
            check_can_be_averaged([task.parents[0], task.target])
        task.parents_data()  # refuses a wrong number of data sets
        return Plan(task)

    @torch.no_grad()
    def run(self, plan: Plan) -> FusionResult:
        """Collect sums of every parent, then solve layer by layer."""
        task = plan.task
        monitor, device = task.runtime.monitor, task.device
        fused = average(task.parents).to(device).eval()
        parents = [on_device(model, device).eval() for model in task.parents]
        data = [inputs for inputs, _ in task.parents_data()]
        nets = networks(task, [*parents, fused])
        sums = [_layer_sums(net, leaves(task, x), monitor) for net, x in zip(nets[:-1], data, strict=True)]
        weights, solved = nets[-1].weights, []
        layers, theirs = (solved_layers(net, self.title) for net in (nets[-1], nets[0]))
        for number, (name, (op, *_)) in enumerate(layers.items()):
            monitor.check()
            monitor.emit("level", index=number, total=len(layers), name=name.removesuffix(".weight"))
            ran = [of_net.pop(name).finish() for of_net in sums]
            check_sums(name, *(moments.xx for moments in ran))
            W = solution(
                [moments.xx for moments in ran],
                [theirs[name][0].weight.read(net.weights).T.double() for net in nets[:-1]],
                self.ratio,
                VANISHING[weights[name].dtype],
                rows=[moments.rows for moments in ran],
            )
            op.weight.write(weights, W.T.to(weights[name]))
            solved.append(name.removesuffix(".weight"))
        load(fused, weights)
        own_data = not (task.importance.data is None or isinstance(task.importance.data, str))
        facts = {"layers": solved, "samples": list(map(count_of, data)), "own_data": own_data, "seed": task.seed}
        return self.result(fused, task, **facts)


def _layer_sums(net: Network, leaves: Sequence[Tensor], monitor: Monitor) -> dict[str, OperationSums]:
    """Sums of x x' for every layer."""
    weight = next(iter(net.weights.values()))
    layers = solved_layers(net, RegMean.title)
    sums = {
        name: OperationSums(ops[0], 1, dtype=weight.dtype, device=weight.device, ones=False)
        for name, ops in layers.items()
    }
    nodes = [op.x for ops in layers.values() for op in ops]
    for batch in monitor.each("step", batches_of(leaves, batch_for(net, nodes)), name="forward"):
        values = values_of(net, batch, nodes)
        for name, ops in layers.items():
            for op in ops:
                sums[name].add(values[op.x])
    return sums


def solution(
    grams: Sequence[Tensor],
    weights: Sequence[Tensor],
    ratio: float,
    vanishing: float,
    rows: Sequence[int],
) -> Tensor:
    """(p, c) the weights W that minimise sum_k tr (W - W_k)' a(G_k) (W - W_k).

    Args:
        grams: (p, p) sums of x x' of each parent.
        weights: (p, c) W_k.
        rows: divisors of the sums.
    """
    mean = torch.stack(list(weights)).mean(0)
    total, right = torch.zeros_like(grams[0]), torch.zeros_like(mean)
    diagonal = torch.zeros_like(grams[0][0])
    for gram, W_k, count in zip(grams, weights, rows, strict=True):
        away, energies = W_k - mean, gram.diagonal() / count
        total.add_(gram, alpha=ratio / count)
        diagonal += energies
        right.addmm_(gram, away, alpha=ratio / count).add_((1 - ratio) * energies[:, None] * away)
    size = diagonal.mean()
    if not size:
        return mean  # the layer's inputs are all zero
    total.diagonal().copy_(diagonal)
    factor, _ = cholesky(total, vanishing * size, False)  # increased if rounding requires it
    return mean + torch.cholesky_solve(right, factor)
