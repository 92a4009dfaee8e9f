"""The networks of a fusion that may span a plane: parents, aligned parents, their average, fused, fine-tuned."""

from collections.abc import Sequence

import torch
from torch import nn

from ...baselines import GitReBasin, OTFusion, average
from ...fusion.task import Algorithm, Task, carry_out
from ...system.monitor import Monitor
from ...system.registry import find
from ...system.runtime import Runtime
from .plane import check_alike

#: Methods that return the parents with permuted neurons.
ALIGNMENTS: dict[str, type[Algorithm]] = {"Git-Re-Basin": GitReBasin, "OTFusion": OTFusion}


def networks_of(
    parents: Sequence[nn.Module],
    fused: nn.Module | None = None,
    tuned: nn.Module | None = None,
    *,
    align: str | None = None,
    data: object = None,
    device: str | torch.device | None = "auto",
    monitor: Monitor | None = None,
) -> dict[str, nn.Module]:
    """Name -> network: "parent 0", ..., "aligned parent 1", ..., "average", "fused", "fine-tuned".

    Args:
        align: entry of ALIGNMENTS that aligns parents to parent 0.
        data: fusion samples, for aligning by activations.
    Raises:
        ValueError: no parents, different architectures, or parents that cannot be averaged or aligned.
    """
    if not parents:
        raise ValueError("a landscape needs parents. Pass at least one.")
    networks = {f"parent {index}": parent for index, parent in enumerate(parents)}
    check_alike(networks)
    if align is not None:
        algorithm = find(ALIGNMENTS, align, "alignment")()
        runtime = Runtime(device=device, monitor=monitor or Monitor())
        result = carry_out(algorithm, Task.of(list(parents), data, runtime=runtime))
        assert result.alignment is not None
        aligned = result.alignment.parents()
        networks |= {f"aligned parent {index}": aligned[index] for index in range(1, len(parents))}
    networks |= {"average": average(parents)} if len(parents) > 1 else {}
    networks |= {"fused": fused} if fused is not None else {}
    return networks | ({"fine-tuned": tuned} if tuned is not None else {})
