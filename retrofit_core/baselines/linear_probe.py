"""Linear probing: parent 0's features, a new class head fitted to all parents' outputs (LP of Luenam et al.)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional as F

from ..fusion.eligibility import check_inputs, check_outputs
from ..fusion.results import FusionResult
from ..fusion.task import Algorithm, Plan, Takes, Task
from ..graph.graph import load, name_of
from ..graph.layers import LINEAR, Operation
from ..graph.network import Network
from ..networks.inputs import batches_of, count_of, moved
from ..system.duplicates import duplicate
from ..training.descent import Descent
from .distillation import fit_to_goals, logits_of
from .inputs import leaves, networks
from .layers import solved_layers, values_of
from .watch import MOST_SAMPLES


@dataclass(frozen=True)
class LinearProbe(Descent, Algorithm):
    """Parent 0 with only its last linear layer retrained, on the parents' mean outputs.

    This is KF with every level skipped but the head. It minimises the squared error, by AdamW from parent 0's head with
    the settings of the gradient fits (paper, App. F.1). All other tensors are exactly parent 0's.

    Goals are the mean of logits, as in KF's head with uniform scores; earlier code of the authors regresses logits on the mean
    of the parents' softmax.
    """

    takes: ClassVar[Takes] = Takes(other_depths=True)
    title: ClassVar[str] = "LP"

    def plan(self, task: Task) -> Plan:
        """Check the classes and find the head; see `Algorithm`."""
        check_inputs(task.parents, task.inputs, target=None, least=2, method=self.title, written=task.parents[:1])
        check_outputs(task.parents, task.inputs)
        head_of(*networks(task, task.parents[:1]))
        return Plan(task)

    @torch.no_grad()
    def run(self, plan: Plan) -> FusionResult:
        """Run the parents, then fit the head."""
        task = plan.task
        monitor, device = task.runtime.monitor, task.device
        fused = duplicate(task.parents[0]).to(device).eval()
        inputs = moved(task.inputs, device, task.dtype)
        (net,) = networks(task, [fused])
        op, name = head_of(net), head_of(net).weight.names[0].removesuffix(".weight")
        goals = logits_of(task.parents, inputs, device, monitor).mean(0).flatten(0, -2)
        batches = batches_of(leaves(task, inputs), MOST_SAMPLES)
        each = monitor.each("step", batches, name="forward")
        x = torch.cat([values_of(net, batch, [op.x])[op.x].flatten(0, -2) for batch in each])
        head = nn.Linear(x.shape[1], op.width, bias=op.bias is not None).to(x)
        head.weight.copy_(op.weight.read(net.weights))
        if op.bias is not None:
            head.bias.copy_(op.bias.read(net.weights))
        monitor.emit("phase", name="fit", level=name)
        curve = fit_to_goals(head, x, goals, F.mse_loss, self, seed=task.seed, monitor=monitor)
        op.weight.write(net.weights, head.weight)
        if op.bias is not None:
            op.bias.write(net.weights, head.bias)
        load(fused, net.weights)
        training = {"optimiser": "AdamW", "epochs_run": len(curve) - 1, "curve": curve}
        return self.result(fused, task, head=name, samples=count_of(inputs), seed=task.seed, **training)


def head_of(net: Network) -> Operation:
    """The linear layer whose output is the network's.

    Raises:
        ValueError: there is none, or it shares its weight with another layer.
    """
    for layer in net.layers:
        for op in layer.operations:
            if (
                op.node is net.graph.output
                and not op.computed
                and (op.product is not None or name_of(op.node) in LINEAR)
            ):
                if layer.table:
                    solved_layers(net, "LP, parent 0")
                return op
    raise ValueError(
        "the outputs of parent 0 do not come from one of its linear layers, so there is no head to train alone. Use "
        "KF-Gradient."
    )
