"""Memory of a level, and the check that it fits the budget."""

from collections.abc import Sequence

from ..networks.levels import Level
from ..system.device import in_units
from .moments import dual_is_cheaper


def check_memory(networks: Sequence[Sequence[Level]], samples: int, memory: int, fit: str) -> None:
    """Check that each level fits the memory budget.

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
    """Bytes of a level's sums and of the solver's matrices, in the cheaper of the two forms.

    Primal: xx, its factor, xz, phi, zz and G. Dual: rows and kernel. Levels that are not affine need only zz.
    """
    level = networks[-1][index]
    m = level.part * (len(networks) - 1) or columns(networks, index)
    if level.affine is None:
        return 2 * 8 * m * m
    n, p = samples * level.positions, level.form.inputs_per_neuron + 1
    matrices = level.form.parts or 1
    primal = 8 * (3 * matrices * p * p + 3 * p * m + 2 * m * m)
    return min(primal, dual_bytes(n, p, m)) if dual_is_cheaper(n, p, m) and matrices == 1 else primal


def columns(networks: Sequence[Sequence[Level]], index: int) -> int:
    """Number of columns of z: the parents' neurons and, if the level adds to a stream, the stream's neurons, plus the outputs
    of the parents' layers if a function is applied before the sum."""
    level = networks[-1][index]
    return level.form.columns(sum(network[index].width for network in networks[:-1]), level.width)


def dual_bytes(n: int, p: int, m: int) -> int:
    return 8 * (2 * n * (p + 2 * m) + 3 * n * n + 2 * m * m)


def boundary_bytes(networks: Sequence[Sequence[Level]], index: int, samples: int) -> int:
    """Bytes of all networks' boundary tensors after a level, for all samples."""
    return itemsize(networks[-1]) * samples * sum(network[index].numbers for network in networks)


def itemsize(levels: Sequence[Level]) -> int:
    """Bytes per number: 4 for float32, 8 for float64."""
    return next((p.element_size() for level in levels for p in level.module.parameters()), 4)
