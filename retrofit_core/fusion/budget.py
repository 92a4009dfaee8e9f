"""Bytes that a level takes, and the refusal of budgets that one level alone exceeds."""

from collections.abc import Sequence

from ..networks.levels import Level
from ..system.device import in_units
from .moments import dual_is_cheaper


def check_memory(networks: Sequence[Sequence[Level]], samples: int, memory: int, fit: str) -> None:
    """Refuse a budget that one level alone exceeds.

    Args:
        networks: levels of the parents and, last, of the fused network.
    Raises:
        ValueError: names the level and the bytes.
    """
    size = itemsize(networks[-1])
    for index, level in enumerate(networks[-1]):
        need = working_bytes(networks, index, samples)
        if fit == "gradient":  # inputs and targets of all samples
            before = networks[-1][index - 1] if index else None
            need += size * samples * level.positions * level.width
            need += size * samples * before.numbers if before else 0
        if need > memory:
            raise ValueError(
                f"level {level.name!r} needs {in_units(need)} for its sums, but the budget is {in_units(memory)}. "
                f"Allow at least memory={need} bytes (--memory), or fuse narrower networks"
                + (" or fewer samples." if fit == "gradient" else ".")
            )


def working_bytes(networks: Sequence[Sequence[Level]], index: int, samples: int) -> int:
    """Bytes of a level's sums and of the matrices that solving needs, in the cheaper of its two forms.

    Primal: xx, its factor, xz, phi, zz and G. Dual: rows and kernel. Levels that are not affine need zz alone.
    """
    level = networks[-1][index]
    m = columns(networks, index)
    if level.affine is None:
        return 2 * 8 * m * m
    n, p = samples * level.positions, level.form.inputs_per_neuron + 1
    matrices = level.form.parts or 1
    primal = 8 * (3 * matrices * p * p + 3 * p * m + 2 * m * m)
    return min(primal, dual_bytes(n, p, m)) if dual_is_cheaper(n, p, m) and matrices == 1 else primal


def columns(networks: Sequence[Sequence[Level]], index: int) -> int:
    """Columns of z: the parents' neurons and, where a level's outputs are added to a stream, the stream's; where a function
    follows before, also what the parents' layers make."""
    level = networks[-1][index]
    return level.form.columns(sum(network[index].width for network in networks[:-1]), level.width)


def dual_bytes(n: int, p: int, m: int) -> int:
    return 8 * (2 * n * (p + 2 * m) + 3 * n * n + 2 * m * m)


def boundary_bytes(networks: Sequence[Sequence[Level]], index: int, samples: int) -> int:
    """Bytes of the boundary tensors of all networks after a level, for all samples."""
    return itemsize(networks[-1]) * samples * sum(network[index].numbers for network in networks)


def itemsize(levels: Sequence[Level]) -> int:
    """Bytes of a number of a network: 4 for float32, 8 for float64."""
    return next((p.element_size() for level in levels for p in level.module.parameters()), 4)
