"""Importance from a user's function."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...system.monitor import Monitor
from .base import Importance, Neurons, Scores


@dataclass(frozen=True, eq=False)
class Custom(Importance):
    """Importance from a function `(neurons, x, y) -> Scores`, or one (width,) tensor or array per place."""

    reads_logits: ClassVar[bool] = False  # left to the function

    function: Callable[..., Any] = field(kw_only=True)
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keywords passed to the function"""

    @property
    def __name__(self) -> str:
        """The function's name, for records and messages."""
        return getattr(self.function, "__name__", str(self.function))

    def scores(self, neurons: Neurons, x: Tensor, y: Tensor | None, *, monitor: Monitor) -> Scores | Sequence[Tensor]:
        """The function's result, with arrays as tensors."""
        returned = self.function(neurons, x, y, **self.options)
        return returned if isinstance(returned, Scores) else [torch.as_tensor(value) for value in returned]
