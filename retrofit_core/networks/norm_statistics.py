"""BatchNorm statistics set anew from samples, exactly; and the walk through a network, one operation after the other.

There are two reasons to do so. A merged network keeps its weights and gets the statistics that belong to them, which changes
its function (RESET of Jordan et al. 2023). A fused network, whose BatchNorms hold anything after their folding, gets the
statistics of its inputs while its function stays, so that fine-tuning, which normalises by its batches, starts near it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeGuard

import torch
from torch import Tensor, fx, nn

from ..system import device as devices
from ..system.monitor import Monitor
from .batchnorm import BatchNorm
from .levels.tracing import trace
from .levels.weights import repeated
from .training_flags import evaluating

#: Samples that run at once.
BATCH = 100
#: A neuron that varies less than this share of its size is dead: its deviation is rounding.
DEAD = 1e-6

#: Rows, sum and sum of squares of each channel, float64.
Sums = tuple[int, Tensor, Tensor]
Visit = Callable[[str, nn.Module, list[Tensor]], None]


@torch.no_grad()
def reset_statistics(
    model: nn.Module,
    inputs: Tensor,
    *,
    keep_function: bool,
    only: Collection[str] | None = None,
    batch: int = BATCH,
    monitor: Monitor | None = None,
    leaves: Sequence[str] = (),
    add_up: Callable[[Tensor], Tensor] | None = None,
) -> dict[str, Any]:
    """Give each BatchNorm the exact mean and (population) variance of its inputs over all samples and positions.

    Args:
        inputs: (B, ...) in the model's dtype, on any device.
        keep_function: scale and shift make up for the new statistics, so that the function in evaluation mode stays as it
            is; BatchNorms without scale and shift, or that share them, are left alone, and any network is taken. Otherwise
            scale and shift stay: each BatchNorm is set behind those that are set already, the network must be traceable,
            and a BatchNorm that runs more than once is left alone.
        only: names of the BatchNorms; default: all.
        batch: samples that run at once; it changes rounding alone.
        leaves: modules that tracing does not enter.
        add_up: adds the sums of other processes, which hold other samples; with keep_function.
    Returns:
        What was done: kind "reset", "layers" that were set, and "dead", their neurons that do not vary.
    """
    names = {name for name, module in model.named_modules() if only is None or name in only}
    dead: list[Tensor] = []  # of each layer that was set

    def set_anew(norm: BatchNorm, sums: Sums) -> None:
        mean, variance = moments_of([sums])
        _write(norm, mean, variance, keep_function)
        dead.append(is_dead(mean, variance).sum())

    def facts() -> dict[str, Any]:
        return {"kind": "reset", "layers": len(dead), "dead": int(sum(dead))}

    if not keep_function:

        def visit(name: str, module: nn.Module, tensors: list[Tensor]) -> None:
            if _has_statistics(module) and name in names:
                set_anew(module, channel_sums(tensors, module))

        stepwise(model, inputs, visit, batch=batch, monitor=monitor, leaves=leaves)
        return facts()
    # The function stays, so what a BatchNorm reads does not depend on those before it: one pass serves all.
    norms = [module for name, module in model.named_modules() if name in names and _has_statistics(module)]
    sums: dict[BatchNorm, Sums] = {}
    shared = repeated(norms)  # scale and shift of several BatchNorms cannot make up for the statistics of each
    hooks = [
        norm.register_forward_pre_hook(partial(_add_up, sums), with_kwargs=True)
        for norm in norms
        if norm.affine and not {id(norm.weight), id(norm.bias)} & shared
    ]
    try:
        with evaluating(model):
            for x in inputs.split(batch) if hooks else ():
                (monitor or Monitor()).check()
                model(x.to(devices.of(model)))
    finally:
        for hook in hooks:
            hook.remove()
    counts = [float(count) for count, *_ in sums.values()]
    if add_up is not None and sums:
        counts = add_up(torch.tensor(counts, dtype=torch.float64, device=devices.of(model))).tolist()  # one wait
    for (norm, (_, total, squares)), count in zip(sums.items(), counts, strict=True):
        if add_up is not None:
            total, squares = add_up(total), add_up(squares)
        set_anew(norm, (int(count), total, squares))
    return facts()


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


def _add_up(
    sums: dict[BatchNorm, Sums], norm: BatchNorm, arguments: tuple[Tensor, ...], keywords: dict[str, Tensor]
) -> None:
    inputs = arguments[0] if arguments else keywords["input"]
    sums[norm] = channel_sums([inputs], norm, sums.get(norm))


def channel_sums(tensors: Iterable[Tensor], layer: nn.Module, before: Sums | None = None) -> Sums:
    """Rows, sums and sums of squares of each channel, added to those before.

    Args:
        layer: of which the tensors are inputs or outputs; in nn.Linear channels are the last axis, else the second.
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
    """(channels,) bool: channels whose variance is nothing but rounding."""
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
    """Run a network one operation after the other, all samples through each before the next begins.

    Args:
        visit: called with the name of a module, the module and all its inputs, before it runs: it may change the module.
            A module that runs more than once is not visited.
    """
    device = devices.of(model)
    with evaluating(model):
        traced = trace(model, leaves, inputs[:1].to(device))
        root = fx.GraphModule(traced.modules, traced.graph)
        interpreter = fx.Interpreter(root)
        nodes = list(root.graph.nodes)
        calls = [node.target for node in nodes if node.op == "call_module"]
        first = next(node for node in nodes if node.op == "placeholder")
        values: list[dict[fx.Node, Any]] = [{first: x.to(device)} for x in inputs.split(batch)]
        users_left = {node: len(node.users) for node in nodes}
        for number in (monitor or Monitor()).each("step", range(len(nodes)), name="repair"):
            node = nodes[number]
            if node is first or node.op == "output":
                continue
            if node.op == "call_module" and calls.count(node.target) == 1:
                layer = interpreter.fetch_attr(str(node.target))
                visit(str(node.target), layer, [tensors[node.all_input_nodes[0]] for tensors in values])
            for tensors in values:
                tensors[node] = _run(interpreter, node, tensors)
            for other in node.all_input_nodes:
                users_left[other] -= 1
                if not users_left[other]:
                    for tensors in values:
                        del tensors[other]


def _run(interpreter: fx.Interpreter, node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
    if node.op == "placeholder":
        return node.args[0] if node.args else None
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda other: values[other])
    return getattr(interpreter, node.op)(node.target, args, kwargs)
