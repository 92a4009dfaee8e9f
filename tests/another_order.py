"""Another processor, on this one: every sum of products adds in another order, so that results differ by rounding alone."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


class AnotherOrder(TorchDispatchMode):
    """Within it, products of matrices and convolutions add their terms in an order drawn from `seed`."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args = list(args)
        if func in (aten.mm.default, aten.bmm.default):
            self._mix(args, 0, 1)
        elif func in (aten.addmm.default, aten.baddbmm.default):
            self._mix(args, 1, 2)
        elif func is aten.convolution.default and args[8] == 1 and not args[6]:
            order = self._order(args[1].shape[1])
            args[:2] = [tensor.index_select(1, order) for tensor in args[:2]]
        elif func is aten.mv.default:
            order = self._order(len(args[1]))
            args = [args[0].index_select(1, order), args[1].index_select(0, order)]
        return func(*args, **(kwargs or {}))

    def _mix(self, args: list[Any], left: int, right: int) -> None:
        a, b = args[left], args[right]
        order = self._order(a.shape[-1])
        args[left], args[right] = a.index_select(-1, order), b.index_select(-2, order)

    def _order(self, n: int) -> Tensor:
        """The same for the same number of terms, because a processor repeats itself."""
        return torch.randperm(n, generator=torch.Generator().manual_seed(self.seed))
