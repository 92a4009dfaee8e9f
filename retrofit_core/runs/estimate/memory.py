"""Peak memory of a run by levels."""

import itertools
import math
from collections.abc import Sequence

from ...data import Images
from ...fusion.fit import Fit
from ...fusion.joint_spaces import Levels
from ...networks.levels import Level
from ...system import device as devices
from .planning import MethodPlan

#: Bytes for Python and the libraries.
PROCESS = 750 * 2**20
#: Chunks of rows in memory at once: inputs, outputs, and derived tensors.
CHUNKS = 4
#: Images per step of a parent's training, for memory.
BATCH = 128


def peak_memory(planned: MethodPlan, images: int, data: Images, missing: Sequence[int]) -> int:
    """Data and fusion samples, plus the peak of the fusions by level or of a training step; 0 for methods without levels.

    Args:
        missing: numbers of the parents to train first.
    """
    if not planned.fusions:
        return 0
    pixels = math.prod(data.shape)
    held = min(pixels * len(data), devices.PIXEL_BYTES) + 4 * images * pixels
    budget, levels = planned.plan.task.runtime.memory, planned.fusions[0].plan.levels
    most = max(fusion_memory(each.plan.levels, each.algorithm.fit, images, budget) for each in planned.fusions)
    if missing:  # weights, gradients, two moments, best weights; activations and their gradients
        each = [_weights(network) for network in levels.networks]
        numbers = max(sum(level.width * level.positions for level in network) for network in levels.networks)
        most = max(most, PROCESS + sum(each) + 5 * max(each) + 2 * 4 * 3 * BATCH * numbers)
    return held + most


def fusion_memory(levels: Levels, fit: Fit, images: int, budget: int) -> int:
    """Peak memory of a fusion without its data: Python and the libraries, networks, the reports so far, the largest level."""
    reports = itertools.accumulate(4 * sum(levels.widths(k)) ** 2 for k in range(len(levels.fused)))  # Gram matrices
    most = max(kept + _level_bytes(levels, fit, k, images, budget) for k, kept in enumerate(reports))
    return PROCESS + sum(_weights(network) for network in levels.networks) + most


def _level_bytes(levels: Levels, fit: Fit, index: int, images: int, budget: int) -> int:
    """Sums of a level, matrices of its groups, kept boundaries if they fit, a few chunks of rows, and data for an optimiser."""
    level, before = levels.fused[index], levels.fused[index - 1] if index else None
    sums, kept = levels.working_bytes(index, images), levels.boundary_bytes(index, images)
    row = level.form.inputs_per_neuron + levels.columns(index)
    widest = max(each.numbers for network in levels.networks for each in network)  # batches that are recomputed pass it
    chunks = CHUNKS * min(devices.CHUNK_BYTES, 4 * images * max(level.positions * row, widest))
    sides = [level, before] if fit.epochs_range[1] else []  # targets and inputs of all samples
    rows = sum(4 * images * side.width * side.positions for side in sides if side)
    return sums + _group_bytes(levels, index) + min(kept, max(0, budget - sums)) + chunks + rows


def _group_bytes(levels: Levels, index: int) -> int:
    """Matrices over the parents' neurons, in float64, beside a level's sums: to group the spaces that begin there, or to leave
    the fused stream out of the errors in its report."""
    m = sum(levels.widths(index))
    beside = levels.columns(index) - m
    most = 8 * m * (2 * (m + beside) + m) if beside else 0
    for space in levels.written(index):
        if space.first == index and not space.fixed:
            n, compared = sum(space.widths), len(space.compared)
            # Each compared level's and its copy; the sum; scaled and stacked while it is made, then those of k-means.
            most = max(most, 8 * n * n * (2 * compared + 1 + max(2 * compared if compared > 1 else 0, 4)))
    return most


def _weights(levels: Sequence[Level]) -> int:
    return 4 * sum(level.parameters for level in levels)
