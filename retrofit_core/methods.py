"""The one table of methods that command line, app, worker and tests read."""

from collections.abc import Callable
from functools import partial

from .fusion import fuse
from .results import FusionResult

METHODS: dict[str, Callable[..., FusionResult]] = {
    "HF-Linear": partial(fuse, grouping="hungarian", fit="ridge"),
    "KF-Linear": partial(fuse, grouping="kmeans", fit="ridge"),
    "HF-Gradient": partial(fuse, grouping="hungarian", fit="gradient"),
    "KF-Gradient": partial(fuse, grouping="kmeans", fit="gradient"),
}
