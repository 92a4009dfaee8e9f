"""A score of the user's own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...networks.levels import Level
from ...system.monitor import Monitor
from .base import Importance, Scores


@dataclass(frozen=True, eq=False)
class Custom(Importance):
    """A function `(levels, x, y) -> Scores`, or one (width,) tensor or array per level, as an importance."""

    reads_logits: ClassVar[bool] = False  # its function sees to the outputs itself

    function: Callable[..., Any] = field(kw_only=True)
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keywords that are handed to the function"""

    @property
    def __name__(self) -> str:
        """The function's name, under which records and messages know the score."""
        return getattr(self.function, "__name__", str(self.function))

    def scores(
        self, levels: Sequence[Level], x: Tensor, y: Tensor | None, *, monitor: Monitor
    ) -> Scores | Sequence[Tensor]:
        """What the function returns, arrays of numpy as tensors."""
        returned = self.function(levels, x, y, **self.options)
        return returned if isinstance(returned, Scores) else [torch.as_tensor(value) for value in returned]
