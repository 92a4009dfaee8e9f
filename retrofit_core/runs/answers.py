"""Which images networks know, and what that says of two of them. No torch, so that pages read it quickly."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000


def as_bits(known: NDArray[np.bool_]) -> str:
    """(n,) bool, which images a network knows, as a short text for a JSON file."""
    return np.packbits(known).tobytes().hex()


def from_bits(text: str, images: int) -> NDArray[np.bool_]:
    """The inverse of `as_bits`: (images,) bool."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8), count=images).astype(bool)


def difference(ours: NDArray[np.bool_], best: NDArray[np.bool_], seed: int = 0) -> tuple[float, tuple[float, float]]:
    """Points of accuracy between two networks on the same images, and the paired interval of 95 %.

    Args:
        ours, best: (n,) bool, which images each knows; or (runs, n), see `mean_and_interval`. Equally many runs are paired in
            their order, a single one with each run of the other; other numbers of runs differ as independent means.
    """
    left, right = np.atleast_2d(ours).astype(float), np.atleast_2d(best).astype(float)
    if len(left) == len(right) or 1 in (len(left), len(right)):
        return mean_and_interval(left - right, seed)
    points = 100 * float(left.mean() - right.mean())
    return points, _interval(left.mean(0) - right.mean(0), [left.mean(1), right.mean(1)], seed)


def mean_and_interval(ahead: NDArray[np.float64], seed: int = 0) -> tuple[float, tuple[float, float]]:
    """The mean of differences in points, and its interval of 95 % over images and runs.

    The images are drawn again, the same for all runs (bootstrap). With several runs each draw adds what other runs would
    move the mean: Student's t times its standard error over runs. Drawing three runs again would cover 81 % instead of
    95 % where runs matter most.

    Args:
        ahead: (runs, n), by how many right answers one network is ahead on an image, -1 to 1; runs are fusion seeds, or sets
            of parents with the mean over their seeds.
    """
    return 100 * float(ahead.mean()), _interval(ahead.mean(0), [ahead.mean(1)], seed)


def _interval(of_images: NDArray[np.float64], of_runs: Sequence[NDArray[np.float64]], seed: int) -> tuple[float, float]:
    """See `mean_and_interval`.

    Args:
        of_images: (n,) the means over runs.
        of_runs: for each independent set of runs their means over images (runs,).
    """
    n = len(of_images)
    # Only the mean over runs counts for an image, so images are drawn as numbers of images with each mean, 0 last.
    means, counts = np.unique(of_images.round(9), return_counts=True)
    order = sorted(range(len(means)), key=lambda index: (means[index] == 0, -means[index]))
    generator = np.random.default_rng(seed)
    drawn = 100 * (generator.multinomial(n, counts[order] / n, RESAMPLES) @ means[order]) / n
    several = [runs for runs in of_runs if len(runs) > 1]
    if several:
        error = math.hypot(*(100 * runs.std(ddof=1) / math.sqrt(len(runs)) for runs in several))
        drawn = drawn + error * generator.standard_t(min(map(len, several)) - 1, RESAMPLES)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)
