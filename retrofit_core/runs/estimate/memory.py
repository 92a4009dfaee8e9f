"""Peak memory of a run."""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ...data import Images
from ...fusion.algorithm import FusionPlan
from ...fusion.budget import boundary_bytes, columns, working_bytes
from ...fusion.fit import Fit
from ...fusion.joint_spaces import Levels
from ...networks.levels import Level
from ...system import device as devices
from .planning import MethodPlan

#: Bytes for Python and the libraries.
PROCESS = 750 * 2**20
#: Chunks of rows in memory at once: inputs, outputs, and derived tensors.
CHUNKS = 4
#: Images per training step, for memory: of a parent, and (at most) of a student.
BATCH, STUDENT_BATCH = 128, 64


def peak_memory(planned: MethodPlan, images: int, data: Images, missing: Sequence[int]) -> int:
    """Networks, data and fusion samples, plus the peak of the method or a training step.

    Args:
        missing: numbers of the parents to train first.
    """
    pixels = math.prod(data.shape)
    held = min(pixels * len(data), devices.PIXEL_BYTES) + 4 * images * pixels
    if not isinstance(planned.plan, FusionPlan):
        weights = sum(map(_bytes, [*planned.task.parents, *planned.networks]))
        training = max((_step_bytes(planned.task.parents[k], data.shape, BATCH) for k in missing), default=0)
        return PROCESS + weights + held + max(_method_bytes(planned, images, data), training)
    levels = planned.plan.levels
    fusion, training = fusion_memory(levels, planned.algorithm.fit, images, planned.task.runtime.memory), 0
    if missing:  # weights, gradients, two moments, best weights; activations and their gradients
        each = [_weights(network) for network in levels.networks]
        numbers = max(sum(level.width * level.positions for level in network) for network in levels.networks)
        training = PROCESS + sum(each) + 5 * max(each) + 2 * 4 * 3 * BATCH * numbers
    return held + max(fusion, training)


def fusion_memory(levels: Levels, fit: Fit, images: int, budget: int) -> int:
    """Peak memory of a fusion without its data: Python and the libraries, networks, the reports so far, the largest level."""
    reports = itertools.accumulate(4 * sum(levels.widths(k)) ** 2 for k in range(len(levels.fused)))  # Gram matrices
    most = max(kept + _level_bytes(levels, fit, k, images, budget) for k, kept in enumerate(reports))
    return PROCESS + sum(_weights(network) for network in levels.networks) + most


def _level_bytes(levels: Levels, fit: Fit, index: int, images: int, budget: int) -> int:
    """Sums of a level, matrices of its groups, kept boundaries if they fit, a few chunks of rows, and data for an optimiser."""
    level, before = levels.fused[index], levels.fused[index - 1] if index else None
    sums = working_bytes(levels.networks, index, images)
    kept = boundary_bytes(levels.networks, index, images)
    row = level.form.inputs_per_neuron + columns(levels.networks, index)
    widest = max(each.numbers for network in levels.networks for each in network)  # batches that are recomputed pass it
    chunks = CHUNKS * min(devices.CHUNK_BYTES, 4 * images * max(level.positions * row, widest))
    sides = [level, before] if fit.epochs_range[1] else []  # targets and inputs of all samples
    rows = sum(4 * images * side.width * side.positions for side in sides if side)
    return sums + _group_bytes(levels, index) + min(kept, max(0, budget - sums)) + chunks + rows


def _group_bytes(levels: Levels, index: int) -> int:
    """Matrices over the parents' neurons, in float64, beside a level's sums: to group the spaces that begin there, or to leave
    the fused stream out of the errors in its report."""
    m = sum(levels.widths(index))
    beside = columns(levels.networks, index) - m
    most = 8 * m * (2 * (m + beside) + m) if beside else 0
    for space in levels.written(index):
        if space.first == index and not space.fixed:
            n, compared = sum(space.widths), len(space.compared)
            # Each compared level's and its copy; the sum; scaled and stacked while it is made, then those of k-means.
            most = max(most, 8 * n * n * (2 * compared + 1 + max(2 * compared if compared > 1 else 0, 4)))
    return most


def _method_bytes(planned: MethodPlan, images: int, data: Images) -> int:
    """Memory of a method without levels, besides networks and data."""
    cost, network = planned.cost, planned.networks[0]
    most = cost.bytes
    if cost.groups:  # sums of all groups in float64, their products, and one operation's tensor for all samples
        most += 2 * 8 * sum(sum(widths) ** 2 for widths in cost.groups)
        most += 4 * images * max(_outputs(network, data.shape))
    if cost.trained == "network":
        most += _step_bytes(network, data.shape, min(images, STUDENT_BATCH))
    return most


def _step_bytes(model: nn.Module, shape: Sequence[int], batch: int) -> int:
    """Memory of a training step: gradients, two moments and best weights; activations and their gradients."""
    return 4 * _bytes(model) + 2 * 4 * batch * sum(_outputs(model, shape))


def _outputs(model: nn.Module, shape: Sequence[int]) -> list[int]:
    """Output sizes of all leaf modules for an image."""
    numbers: list[int] = [0]

    def count(_: nn.Module, __: object, output: object) -> None:
        if isinstance(output, Tensor):
            numbers.append(output.numel())

    leaves = [module for module in model.modules() if not list(module.children())]
    hooks = [leaf.register_forward_hook(count) for leaf in leaves]
    with torch.no_grad():
        model(torch.zeros(1, *shape))
    for hook in hooks:
        hook.remove()
    return numbers


def _bytes(model: nn.Module) -> int:
    return 4 * sum(value.numel() for value in model.state_dict().values())


def _weights(levels: Sequence[Level]) -> int:
    return 4 * sum(level.parameters for level in levels)
