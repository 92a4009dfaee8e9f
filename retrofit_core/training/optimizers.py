"""OPTIMIZERS: parameters, learning rate and weight decay -> optimiser."""

from collections.abc import Iterable

import torch
from torch import nn


def adamw(parameters: Iterable[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=rate, weight_decay=decay, fused=True)


def adam(parameters: Iterable[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    """Decay as an L2 term in the loss, as in the paper's earlier code."""
    return torch.optim.Adam(parameters, lr=rate, weight_decay=decay, fused=True)


def sgd(parameters: Iterable[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    """SGD with Nesterov momentum 0.9."""
    return torch.optim.SGD(parameters, lr=rate, weight_decay=decay, momentum=0.9, nesterov=True, fused=True)


OPTIMIZERS = {"adamw": adamw, "adam": adam, "sgd": sgd}
