"""Recompute BatchNorm statistics exactly from samples; and run a network one operation at a time.

There are two uses. A merged network keeps its weights and gets the statistics that match them, which changes its function
(RESET of Jordan et al. 2023). A fused network, whose BatchNorms are arbitrary after folding, gets the statistics of its inputs
and keeps its function, so that fine-tuning, which normalises by batch statistics, starts close to it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor, fx, nn

from ..system import device as devices
from ..system.monitor import Monitor
from .copies import evaluating, fed, watching
from .levels.kinds import BatchNorm, held, is_plain
from .levels.tracing import Interpreter, trace
from .levels.weights import repeated

#: Batch size.
BATCH = 100
#: A neuron is dead if its deviation is below this share of its size, which is rounding.
DEAD = 1e-6

#: Number of rows; sum and sum of squares per channel, float64.
Sums = tuple[int, Tensor, Tensor]
Visit = Callable[[str, nn.Module, list[Tensor]], None]


@torch.no_grad()
def reset_statistics(
    model: nn.Module,
    inputs: Tensor,
    *,
    keep_function: bool,
    batch: int = BATCH,
    monitor: Monitor | None = None,
    leaves: Sequence[str] = (),
) -> dict[str, Any]:
    """Set each BatchNorm to the exact mean and (population) variance of its inputs over all samples and positions.

    Args:
        inputs: (B, ...) in the model's dtype, on any device.
        keep_function: let scale and shift compensate, so that the function in evaluation mode does not change. Takes any
            network; skips BatchNorms without scale and shift, or that share them. Otherwise scale and shift stay, and each
            BatchNorm is set after those before it; the network must be traceable, and BatchNorms that run more than once
            are skipped.
        batch: batch size; affects rounding only.
        leaves: modules that tracing does not enter.
    Returns:
        Facts: kind "reset", number of "layers" that were set, and of their "dead" neurons, which do not vary.
    """
    dead: list[Tensor] = []  # per layer that was set

    def set_anew(norm: BatchNorm, sums: Sums) -> None:
        mean, variance = moments_of([sums])
        _write(norm, mean, variance, keep_function)
        dead.append(is_dead(mean, variance).sum())

    def facts() -> dict[str, Any]:
        return {"kind": "reset", "layers": len(dead), "dead": int(sum(dead))}

    if not keep_function:

        def visit(name: str, module: nn.Module, tensors: list[Tensor]) -> None:
            if _has_statistics(module):
                set_anew(module, channel_sums(tensors, module))

        stepwise(model, inputs, visit, batch=batch, monitor=monitor, leaves=leaves)
        return facts()
    # The function stays, so the inputs of a BatchNorm do not depend on earlier ones: one pass serves all.
    norms = {name: module for name, module in model.named_modules() if _has_statistics(module)}
    shared = repeated(norms.values())  # a shared scale and shift cannot compensate for different statistics
    norms = {name: n for name, n in norms.items() if n.affine and not {id(n.weight), id(n.bias)} & shared}
    sums, read = dict[str, Sums](), dict[str, Tensor]()

    def add(name: str, x: Tensor, _: Tensor) -> None:
        if name not in read and not is_plain(norms[name], BatchNorm):
            read[name] = x[:2].clone()
        sums[name] = channel_sums([x], norms[name], sums.get(name))

    with evaluating(model), watching(norms, add):
        for x in inputs.split(batch) if norms else ():
            (monitor or Monitor()).check()
            model(fed(model, x))
    for name, of_norm in sums.items():
        norm, before = norms[name], tensors_of(norms[name])
        expected = norm(read[name].clone()) if name in read else None
        set_anew(norm, of_norm)
        if expected is not None and not torch.allclose(norm(read[name]), expected, 1e-3, 1e-4):
            for tensor, value in before:  # its class uses scale and shift in another way than BatchNorm
                tensor.copy_(value)
            dead.pop()
    return facts()


def tensors_of(norm: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """The tensors of a module, each with a copy."""
    return [(tensor, tensor.clone()) for tensor in (*norm.parameters(), *norm.buffers())]


def has_statistics(model: nn.Module) -> bool:
    """Whether a network normalises by statistics of its training data."""
    return any(_has_statistics(module) for module in model.modules())


def _has_statistics(module: nn.Module) -> TypeGuard[BatchNorm]:
    return isinstance(module, BatchNorm) and module.running_mean is not None


def _write(norm: BatchNorm, mean: Tensor, variance: Tensor, keep_function: bool) -> None:
    assert norm.running_mean is not None and norm.running_var is not None
    if keep_function:
        slope = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
        norm.bias.copy_(norm.bias.double() + slope * (mean - norm.running_mean.double()))
        norm.weight.copy_(slope * (variance + norm.eps).sqrt())
    norm.running_mean.copy_(mean)
    norm.running_var.copy_(variance)


def channel_sums(tensors: Iterable[Tensor], layer: nn.Module, before: Sums | None = None) -> Sums:
    """Row count, sums and sums of squares per channel, added to those before.

    Args:
        layer: the tensors are its inputs or outputs; channels are the last axis for nn.Linear, else the second.
    """
    axis = -1 if isinstance(layer, nn.Linear) else 1
    count, total, squares = before or (0, 0.0, 0.0)
    for tensor in tensors:
        rows = tensor.movedim(axis, -1).flatten(0, -2).double()
        count, total, squares = count + len(rows), total + rows.sum(0), squares + rows.square().sum(0)
    assert isinstance(total, Tensor) and isinstance(squares, Tensor)
    return count, total, squares


def moments_of(sums: Sequence[Sums]) -> tuple[Tensor, Tensor]:
    """Mean and variance of each channel, (channels,) float64 each."""
    count = sum(batch_sums[0] for batch_sums in sums)
    mean = torch.stack([batch_sums[1] for batch_sums in sums]).sum(0) / count
    squares = torch.stack([batch_sums[2] for batch_sums in sums]).sum(0) / count
    return mean, (squares - mean.square()).clamp_min(0)


def is_dead(mean: Tensor, variance: Tensor) -> Tensor:
    """(channels,) bool: channels whose variance is only rounding."""
    return variance.sqrt() <= DEAD * (mean.square() + variance).sqrt()


@torch.no_grad()
def stepwise(
    model: nn.Module,
    inputs: Tensor,
    visit: Visit,
    *,
    batch: int = BATCH,
    monitor: Monitor | None = None,
    leaves: Sequence[str] = (),
) -> None:
    """Run a network one operation at a time, with all samples through each before the next.

    Args:
        visit: called with a module's name, the module and all its inputs before it runs; may change the module. Modules
            that run more than once are not visited.
    """
    device = devices.of(model)
    with evaluating(model):
        traced = trace(model, leaves, inputs[:1].to(device))
        interpreter, nodes = Interpreter(traced.graph), list(traced.graph.nodes)
        calls = [node.target for node in nodes if node.op == "call_module"]
        first = next(node for node in nodes if node.op == "placeholder")
        values: list[dict[fx.Node, Any]] = [{first: x.to(device)} for x in inputs.split(batch)]
        for number in (monitor or Monitor()).each("step", range(len(nodes)), name="repair"):
            node = nodes[number]
            if node is first or node.op == "output":
                continue
            if node.op == "call_module" and calls.count(node.target) == 1:
                visit(
                    str(node.target),
                    held(node),
                    [tensors[node.all_input_nodes[0]] for tensors in values],
                )
            for tensors in values:
                interpreter.env = tensors
                tensors[node] = interpreter.run_node(node)
                for other in interpreter.user_to_last_uses.get(node, ()):
                    del tensors[other]
