"""OPTIMIZERS: parameters, learning rate and weight decay -> optimiser."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


def adamw(parameters: Iterable[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(**_replayable(parameters, rate), weight_decay=decay, fused=True)


def adam(parameters: Iterable[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    """Decay as an L2 term in the loss, as in the paper's earlier code."""
    return torch.optim.Adam(**_replayable(parameters, rate), weight_decay=decay, fused=True)


def sgd(parameters: Iterable[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    """SGD with Nesterov momentum 0.9."""
    return torch.optim.SGD(parameters, lr=rate, weight_decay=decay, momentum=0.9, nesterov=True, fused=True)


def _replayable(parameters: Iterable[nn.Parameter], rate: float) -> dict[str, Any]:
    """Parameters and learning rate; on a GPU the rate is a tensor, so that the steps of a CUDA graph read what it is now."""
    parameters = list(parameters)
    device = parameters[0].device
    if device.type == "cpu":
        return {"params": parameters, "lr": rate}
    return {"params": parameters, "lr": torch.tensor(rate, device=device), "capturable": True}


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of all parameters, in place if it is a tensor."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


OPTIMIZERS = {"adamw": adamw, "adam": adam, "sgd": sgd}
