"""Fisher-weighted averaging: each parameter's mean, weighted by how much the parents' outputs depend on it (Matena and Raffel
2022). No alignment.

Legend: F_k (p,) the diagonal of parent k's Fisher information, E_x E_{y ~ p(y|x)} (d log p(y|x) / d theta)^2.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..fusion.results import FusionResult
from ..fusion.task import Plan, Takes, Task
from ..networks.outputs import check_class_scores
from ..system.device import of, on_device, rows_per_batch
from ..system.monitor import Monitor
from ..system.settings import Range, setting
from .averaging import WeightAverager, average

#: Maximum bytes of per-sample gradients in one batch. On a CPU, batches beyond its caches are slower than single samples (an
#: MLP of 0.8 million parameters by 2.3 times), smaller ones faster (a ViT of 0.14 million took half the time).
GRADIENTS, GRADIENTS_IN_CACHES = 2**30, 2**24


@dataclass(frozen=True)
class FisherAveraging(WeightAverager):
    """theta = sum_k F_k theta_k / sum_k F_k for every parameter, with F_k on parent k's own data if given.

    The expectation over classes is exact, or uses one class per sample, drawn from the parent's own probabilities with the
    seed. Parents count equally. Buffers (BatchNorm's statistics) are averaged.
    """

    takes: ClassVar[Takes] = Takes(equal_widths=True, any_architecture=True, parents_data=True)
    title: ClassVar[str] = "Fisher"

    expectation: Literal["exact", "sampled"] = setting(
        "exact",
        "expectation over the classes: exact, or sampled (one class per sample; faster)",
        title="Expectation over classes",
    )
    floor: float = setting(
        1e-6,
        "added to the Fisher information, so that weights which no parent's outputs depend on are averaged",
        Range(0, without_low=True),
        title="Least Fisher information",
    )

    def plan(self, task: Task) -> Plan:
        """Check shapes and data; see `Algorithm`."""
        shape = self.check_mergeable(task)
        check_class_scores(shape, "Fisher averaging", "Use Average.", ("method", "Average"))
        task.parents_data()  # refuses a wrong number of data sets
        return Plan(task)

    def run(self, plan: Plan) -> FusionResult:
        """Compute every parent's Fisher information, then the means."""
        task = plan.task
        monitor, generator = task.runtime.monitor, torch.Generator().manual_seed(task.seed)
        fused = average(task.parents).to(task.device).eval()
        drawing = generator if self.expectation == "sampled" else None
        data = [inputs.to(task.inputs.dtype) for inputs, _ in task.parents_data()]
        fishers = []
        for index, (parent, inputs) in enumerate(zip(task.parents, data, strict=True)):
            monitor.emit("phase", name=f"Fisher information of parent {index}")
            network = on_device(parent, task.device)
            fishers.append(fisher_diagonal(network, inputs, generator=drawing, monitor=monitor))
        parameters = [dict(parent.named_parameters()) for parent in task.parents]
        with torch.no_grad():
            for name, tensor in fused.named_parameters():
                weights = [fisher[name] + self.floor for fisher in fishers]
                tensors = [each[name].to(task.device).double() for each in parameters]
                weighted = [each * weight for each, weight in zip(tensors, weights, strict=True)]
                tensor.copy_(torch.stack(weighted).sum(0) / sum(weights))
        return self.result(fused, task, samples=list(map(len, data)), seed=task.seed)


def fisher_diagonal(
    model: nn.Module, inputs: Tensor, *, generator: torch.Generator | None = None, monitor: Monitor | None = None
) -> Mapping[str, Tensor]:
    """Parameter -> diagonal of the Fisher information, float64, as the mean over samples.

    Samples run in batches, each with its own copy of the weights (torch.func.vmap), so that one backward pass gives all their
    gradients; if vmap does not support the network, they run one by one.

    Args:
        model: in evaluation mode; all its parameters get gradients.
        inputs: (B, ...) samples; each runs alone.
        generator: draws one class per sample; None: expectation over all classes.
    """
    named = dict(model.named_parameters())
    for parameter in named.values():
        parameter.requires_grad_(True)
    totals = {name: torch.zeros_like(parameter, dtype=torch.float64) for name, parameter in named.items()}
    device, dtype = of(model), next(iter(named.values())).dtype
    of_a_sample = sum(parameter.numel() * (parameter.element_size() + 16) for parameter in named.values())
    batch = rows_per_batch(of_a_sample, GRADIENTS if device.type != "cpu" else GRADIENTS_IN_CACHES)
    with torch.enable_grad(), _with_derivatives():
        together = batch > 1 and _runs_together(model, inputs[:2].to(device, dtype))
        batch = batch if together else 1
        for x in (monitor or Monitor()).each("step", list(inputs.split(batch)), name="Fisher information"):
            x = x.to(device, dtype)
            weights = _of_each(named, len(x)) if together else named
            logs = (_together(model, weights, x) if together else model(x)).log_softmax(1)
            shares = logs.detach().double().exp()
            if generator is not None:
                drawn = [torch.multinomial(row, 1, generator=generator) for row in shares.cpu()]
                logs, shares = logs.gather(1, torch.stack(drawn).to(logs.device)), torch.ones_like(shares[:, :1])
            for log, share in zip(logs.unbind(1), shares.unbind(1), strict=True):
                gradients = torch.autograd.grad(log.sum(), list(weights.values()), retain_graph=True, allow_unused=True)
                for total, gradient in zip(totals.values(), gradients, strict=True):
                    if gradient is not None:  # unused parameters have none
                        _add_squares(total, share, gradient if together else gradient[None])
    return {name: total / len(inputs) for name, total in totals.items()}


def _add_squares(total: Tensor, share: Tensor, gradients: Tensor) -> None:
    """Add the squares of gradients (B, ...), weighted by shares (B,); on a CPU one by one, to stay in its caches."""
    if total.device.type == "cpu":
        for weight, gradient in zip(share.tolist(), gradients, strict=True):
            total.add_(gradient.double().square(), alpha=weight)
    else:
        total += torch.einsum("b,b...->...", share, gradients.double().square())


def _of_each(named: Mapping[str, Tensor], samples: int) -> dict[str, Tensor]:
    """The parameters expanded to (samples, ...) without copying, for per-sample gradients."""
    return {name: p.detach().expand(samples, *p.shape).requires_grad_() for name, p in named.items()}


def _together(model: nn.Module, weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """(B, classes) the network's outputs for each sample with its own weights."""
    return vmap(lambda own, sample: functional_call(model, own, (sample[None],))[0])(weights, x)


def _runs_together(model: nn.Module, x: Tensor) -> bool:
    """Whether a batch has gradients, and the same outputs as single samples."""
    try:
        weights = _of_each(dict(model.named_parameters()), len(x))
        outputs = _together(model, weights, x)
        torch.autograd.grad(outputs.sum(), list(weights.values()), allow_unused=True)
    except torch.OutOfMemoryError:
        raise
    except Exception:  # whatever an operation raises that vmap does not support
        return False
    alone = torch.cat([model(sample) for sample in x.split(1)])
    return torch.allclose(outputs, alone, rtol=1e-3, atol=1e-4)


@contextmanager
def _with_derivatives() -> Iterator[None]:
    """Within it, attention is computed by operations that have derivatives under vmap, not by fused kernels.

    PyTorch chooses some kernels by whether weights need gradients, which vmap hides.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
