"""The base class of the fits' options."""

from dataclasses import dataclass
from typing import ClassVar

from ...system.settings import Value


@dataclass(frozen=True)
class Fit(Value):
    """How a level's weights are fitted to its targets."""

    least_samples: ClassVar[int] = 2
