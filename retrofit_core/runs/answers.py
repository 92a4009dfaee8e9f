"""Which images networks classify correctly, and comparisons of two networks. No torch, so that pages load quickly."""

import base64
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000


def from_bits(text: str, images: int) -> NDArray[np.bool_]:
    """The inverse of `evaluation.as_bits`: (images,) bool."""
    return np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8), count=images).astype(bool)


def difference(ours: NDArray[np.bool_], best: NDArray[np.bool_]) -> tuple[float, tuple[float, float]]:
    """Difference in accuracy (percentage points) of two networks on the same images, and the paired 95 % interval.

    Args:
        ours, best: (n,) bool, the images that each knows; or (runs, n), see `mean_and_interval`. Equal numbers of runs are
            paired in order, a single run with each run of the other; otherwise means are independent.
    """
    left, right = np.atleast_2d(ours).astype(float), np.atleast_2d(best).astype(float)
    if len(left) == len(right) or 1 in (len(left), len(right)):
        return mean_and_interval(left - right)
    points = 100 * float(left.mean() - right.mean())
    return points, _interval(left.mean(0) - right.mean(0), [left.mean(1), right.mean(1)])


def mean_and_interval(ahead: NDArray[np.float64]) -> tuple[float, tuple[float, float]]:
    """The mean difference in percentage points, and its 95 % interval over images and runs.

    Images are resampled, the same for all runs (bootstrap). With several runs, each sample adds Student's t times the
    standard error of the mean over runs. Resampling three runs would cover 81 % instead of 95 % where runs matter most.

    Args:
        ahead: (runs, n) difference in correctness on each image, -1 to 1; runs are fusion seeds, or sets of parents with the
            mean over their seeds.
    """
    return 100 * float(ahead.mean()), _interval(ahead.mean(0), [ahead.mean(1)])


def _interval(of_images: NDArray[np.float64], of_runs: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """See `mean_and_interval`.

    Args:
        of_images: (n,) means over runs.
        of_runs: for each independent set of runs, (runs,) means over images.
    """
    n = len(of_images)
    # Only an image's mean over runs matters, so draw the number of images with each mean; 0 comes last.
    means, counts = np.unique(of_images.round(9), return_counts=True)
    order = sorted(range(len(means)), key=lambda index: (means[index] == 0, -means[index]))
    generator = np.random.default_rng(0)
    drawn = 100 * (generator.multinomial(n, counts[order] / n, RESAMPLES) @ means[order]) / n
    several = [100 * runs for runs in of_runs if len(runs) > 1]
    if several:
        error = math.hypot(*(runs.std(ddof=1) / math.sqrt(len(runs)) for runs in several))
        drawn = drawn + error * generator.standard_t(min(map(len, several)) - 1, len(drawn))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)
