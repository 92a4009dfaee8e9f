"""Deep copies of networks."""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class _DetachingKept(TorchFunctionMode):
    """Within it, a deep copy of a tensor with a graph has none; PyTorch refuses to copy it.

    Networks keep such tensors: features of the last batch, and weights that a hook computes.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__deepcopy__ and not args[0].is_leaf:
            tensor, memo = args
            memo[id(tensor)] = tensor.detach().clone()
            return memo[id(tensor)]
        return func(*args, **(kwargs or {}))


def duplicate(network: nn.Module, memo: dict[int, Any] | None = None) -> nn.Module:
    """A deep copy.

    Args:
        memo: as of `copy.deepcopy`.
    """
    with torch.inference_mode(False), _DetachingKept():
        return copy.deepcopy(network, memo)
