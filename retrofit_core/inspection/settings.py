"""Settings of a landscape. No torch: the command line derives its options from these fields."""

from dataclasses import dataclass
from typing import Literal

from ..system.settings import SEED, Range, Value, setting

#: BatchNorm statistics between the networks.
Norms = Literal["estimated", "interpolated"]


@dataclass(frozen=True)
class LandscapeSettings(Value):
    """What determines a landscape besides its networks and images."""

    resolution: int = setting(15, "points along each axis", Range(2, 501))
    images: int = setting(256, "images on which each point is measured, balanced over the classes", Range(2))
    seed: int = setting(0, "decides which images; same seed, same numbers", SEED)
    margin: float = setting(0.3, "how far the grid goes beyond the networks, in shares of their extent", Range(0, 10))
    norms: Norms = setting(
        "estimated",
        "BatchNorm statistics at each point: estimated again on the images, or interpolated like the weights",
    )
    precision: Literal["auto", "float32", "bfloat16"] = setting(
        "auto",
        "of the grid's products; auto: bfloat16 for large networks where the processor multiplies it faster. Networks, paths and "
        "flatness are always measured in float32",
    )
    path_points: int = setting(11, "points along the path between two networks, its ends among them", Range(3, 1001))
    radius: float = setting(
        0.1,
        "distance at which flatness is measured, in units of that between the plane's first two networks",
        Range(0, 10, without_low=True),
    )
    directions: int = setting(8, "directions in the plane in which flatness is measured; 0: not at all", Range(0, 1000))
    clip: float | None = setting(
        None, "loss above which a drawing is hatched; the numbers are kept as they are", Range(0, without_low=True)
    )
