"""Networks that normalise by statistics of their training data."""

from torch import nn


def has_statistics(model: nn.Module) -> bool:
    """Whether a network has a BatchNorm with statistics of its training data."""
    kind = nn.modules.batchnorm._BatchNorm
    return any(isinstance(module, kind) and module.running_mean is not None for module in model.modules())
