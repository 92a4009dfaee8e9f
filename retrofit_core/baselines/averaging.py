"""What combines parents without any alignment: weight averages (McMahan et al. 2017) and ensembles."""

import copy
import time
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .. import device as devices
from ..eligibility import check_inputs, check_outputs
from ..evaluation import ensemble
from ..monitor import Monitor
from ..registry import check_words
from ..results import FusionResult
from ..samples import as_tensors

Weighting = Literal["equal", "samples"]


@torch.no_grad()
def average(models: Sequence[nn.Module], weights: Sequence[float] | None = None) -> nn.Module:
    """A new network with the mean of every parameter and buffer; integer buffers stay parent 0's.

    Args:
        weights: of the parents, scaled to sum one; default: equal.
    Raises:
        ValueError: no models, different keys or shapes, or weights that make no mean.
    """
    if not models:
        raise ValueError("there is nothing to average. Pass a list of at least one model.")
    fused = copy.deepcopy(models[0])
    states = [model.state_dict() for model in models]
    shares = _shares(weights, len(models))
    for name, value in fused.state_dict().items():
        shapes = [tuple(state[name].shape) if name in state else None for state in states]
        if set(shapes) != {tuple(value.shape)}:
            raise ValueError(f"weights cannot be averaged: {name!r} has the shapes {shapes}. Use a KF method.")
        if value.dtype.is_floating_point:
            together = torch.stack([state[name].to(value.device) for state in states])
            value.copy_(together.mean(0) if shares is None else torch.tensordot(shares.to(together), together, 1))
    return fused


def _shares(weights: Sequence[float] | None, n: int) -> Tensor | None:
    if weights is None:
        return None
    found = torch.as_tensor(weights, dtype=torch.float64)
    if found.shape != (n,) or not torch.isfinite(found).all() or (found < 0).any() or found.sum() <= 0:
        raise ValueError(f"{n} parents need as many weights, none negative and not all zero. Found {found.tolist()}.")
    return found / found.sum()


def averaging(
    models: Sequence[nn.Module],
    data: Any,
    *,
    sample_counts: Sequence[int] | None = None,
    weighting: Weighting = "equal",
    seed: int = 0,
    device: str | torch.device | None = None,
    monitor: Monitor | None = None,
) -> FusionResult:
    """Vanilla averaging, or one round of FedAvg (McMahan et al. 2017), as a method: no alignment, no levels.

    Args:
        data: is checked, but of no other use.
        weighting: "equal", or "samples" (FedAvg): by the number of training samples of each parent.
        sample_counts: these numbers.
        seed: of no use: nothing is random.
    Raises:
        ValueError: different shapes, or FedAvg without counts.
    """
    start = time.perf_counter()
    check_words(weighting=(weighting, Weighting))
    if weighting == "samples" and sample_counts is None:
        raise ValueError(
            "FedAvg weighs parents by their numbers of training samples, which only a splits file tells. Pass "
            "sample_counts=[...] (--splits), or use Average."
        )
    place = _checked(models, data, device, monitor)
    fused = average(models, sample_counts if weighting == "samples" else None).to(place).eval()
    config = {
        "method": "average",
        "weighting": weighting,
        "device": str(place),
        "sample_counts": list(sample_counts) if weighting == "samples" and sample_counts is not None else None,
    }
    return FusionResult(fused, [], config, time.perf_counter() - start)


def ensembling(
    models: Sequence[nn.Module],
    data: Any,
    *,
    combine: Literal["softmax", "logits", "shares"] = "softmax",
    class_shares: Tensor | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    monitor: Monitor | None = None,
) -> FusionResult:
    """`ensemble` as a method: all parents run side by side, so that it bounds what one network can be asked to reach.

    Args:
        data: is checked, but of no other use.
        combine: "softmax", "logits" or "shares" (by each parent's share of a class; needs class_shares).
        class_shares: (n, classes).
        seed: of no use: nothing is random.
    Raises:
        ValueError: as `ensemble`.
    """
    start = time.perf_counter()
    if combine == "shares" and class_shares is None:
        raise ValueError(
            "Ensemble-Shares weighs classes by the parents' shares of their training rows, which only a splits file tells. "
            "Pass class_shares=TENSOR of shape (parents, classes) (--splits), or use Ensemble."
        )
    place = _checked(models, data, device, monitor)
    members = [copy.deepcopy(model).to(place).eval() for model in models]
    fused = ensemble(members, combine, class_shares if combine == "shares" else None).to(place).eval()
    config = {"method": "ensemble", "combine": combine, "device": str(place)}
    return FusionResult(fused, [], config, time.perf_counter() - start)


def _checked(
    models: Sequence[nn.Module], data: Any, device: str | torch.device | None, monitor: Monitor | None
) -> torch.device:
    """What every method refuses; one cancellation check, for this takes no time."""
    inputs = as_tensors(data)[0]
    check_inputs(models, inputs, target=None, least=1, who="averaging")
    check_outputs(models, inputs)
    (monitor or Monitor()).check()
    return devices.pick(device)
