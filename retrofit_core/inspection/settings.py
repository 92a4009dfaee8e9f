"""Settings of a landscape. No torch: the command line derives its options from these fields."""

from dataclasses import dataclass

from ..system.settings import SEED, Range, Value, setting


@dataclass(frozen=True)
class LandscapeSettings(Value):
    """What determines a landscape besides its networks and images."""

    resolution: int = setting(15, "points along each axis", Range(2, 501))
    images: int = setting(256, "images per point, balanced over the classes", Range(2))
    seed: int = setting(0, "determines the images; the same seed gives the same numbers", SEED)
    margin: float = setting(0.3, "margin of the grid around the networks, as a share of their extent", Range(0, 10))
    path_points: int = setting(11, "points along the path between two networks, including its ends", Range(3, 1001))
    radius: float = setting(
        0.1,
        "distance at which flatness is measured, in units of the distance between the plane's first two networks",
        Range(0, 10, without_low=True),
    )
    directions: int = setting(
        8, "number of directions in the plane for measuring flatness; 0: do not measure it", Range(0, 1000)
    )
    clip: float | None = setting(
        None, "loss above which the figure is hatched; the data keep their values", Range(0, without_low=True)
    )
