"""Bytes of a run: of memory at its peak, and of disk when it is done."""

import math
from collections.abc import Sequence

from .. import device as devices
from ..analysis import ROWS, SEEDS
from ..budget import boundary_bytes, working_bytes
from ..data import Images
from ..eligibility import Plan
from ..importance import IMPORTANCE
from ..levels import Level
from ..runs import RunConfig

#: Bytes that Python and the libraries take.
PROCESS = 750 * 2**20
#: Chunks of rows that live at once: inputs, outputs, and what becomes of them.
CHUNKS = 4
#: Images of a training step, where memory is concerned.
BATCH = 128
#: Bytes on disk that a level has in tables, its arrays aside, and a run besides its levels.
LEVEL_FACTS, RUN_FACTS = 7_000, 8_000


def peak_memory(config: RunConfig, plan: Plan, images: int, data: Images, training: bool) -> int:
    """Networks, data, and the most that a level or a training step takes beside them."""
    networks = [*plan.parents, plan.fused]
    weights = [4 * sum(level.parameters for level in levels) for levels in networks]
    held = held_bytes(images, data)
    most = max(_level_bytes(config, plan, k, images) for k in range(len(plan.fused)))
    if training:  # weights, gradients, two moments, the best; activations and their gradients
        outputs = max(sum(level.width * level.positions for level in levels) for levels in networks)
        most = max(most, 5 * max(weights) + 2 * 4 * 3 * BATCH * outputs)
    return PROCESS + sum(weights) + held + most


def held_bytes(images: int, data: Images) -> int:
    """The data set as far as it is kept, and the fusion samples."""
    pixels = math.prod(data.shape)
    return min(pixels * len(data), devices.PIXEL_BYTES) + 4 * images * pixels


def disk_bytes(config: RunConfig, plan: Plan, missing: Sequence[int]) -> int:
    """The parents that are trained, the fused network, and what the record keeps of each level."""

    def weights(levels: Sequence[Level]) -> int:
        return 4 * sum(level.parameters for level in levels)

    trained = sum(weights(plan.parents[index]) for index in missing)
    return RUN_FACTS + trained + weights(plan.fused) + sum(_kept(config, plan, k) for k in range(len(plan.fused)))


def _kept(config: RunConfig, plan: Plan, index: int) -> int:
    """A level's Gram matrix, groups and scores; of an analysis groupings of every score, examples of targets and outputs."""
    m, d = sum(parent[index].width for parent in plan.parents), plan.fused[index].width
    kept = LEVEL_FACTS + 4 * m * m + 24 * m
    return kept + (4 * SEEDS * len(IMPORTANCE) * m + 2 * 2 * ROWS * d) * config.analyse


def _level_bytes(config: RunConfig, plan: Plan, index: int, images: int) -> int:
    """Sums of a level, what the walk keeps where it fits, a few chunks of rows, and a gradient fit's inputs and targets."""
    networks = [*plan.parents, plan.fused]
    level, before = plan.fused[index], plan.fused[index - 1] if index else None
    sums = working_bytes(networks, index, images)
    kept = boundary_bytes(networks, index, images)
    budget = config.memory or devices.MEMORY
    inputs = level.affine.weight[0].numel() if level.affine is not None else 0
    row = inputs + sum(parent[index].width for parent in plan.parents)
    chunks = CHUNKS * min(devices.CHUNK_BYTES, 4 * images * level.positions * row)
    fitted = [level, before] if plan.fit == "gradient" else []
    sides = sum(4 * images * other.width * other.positions for other in fitted if other)
    return sums + min(kept, max(0, budget - sums)) + chunks + sides
