"""Which images networks know, and what that says of two of them. No torch, so that pages read it quickly."""

import math

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
        ours, best: (n,) bool, which images each knows; or (runs, n), see `mean_and_interval`.
    """
    return mean_and_interval(np.atleast_2d(ours).astype(float) - np.atleast_2d(best), seed)


def mean_and_interval(ahead: NDArray[np.float64], seed: int = 0) -> tuple[float, tuple[float, float]]:
    """The mean of differences in points, and its interval of 95 % over images and runs.

    The images are drawn again, the same for all runs (bootstrap). With several runs each draw adds what other runs would
    move the mean: Student's t times its standard error over runs. Drawing three runs again would cover 81 % instead of
    95 % where runs matter most.

    Args:
        ahead: (runs, n), by how many right answers one network is ahead on an image, -1 to 1; runs are fusion seeds, or sets
            of parents with the mean over their seeds.
    """
    runs, n = ahead.shape
    # Only the mean over runs counts for an image, so images are drawn as numbers of images with each mean, 0 last.
    means, counts = np.unique(ahead.mean(0).round(9), return_counts=True)
    order = sorted(range(len(means)), key=lambda index: (means[index] == 0, -means[index]))
    generator = np.random.default_rng(seed)
    drawn = 100 * (generator.multinomial(n, counts[order] / n, RESAMPLES) @ means[order]) / n
    if runs > 1:
        error = 100 * ahead.mean(1).std(ddof=1) / math.sqrt(runs)
        drawn = drawn + error * generator.standard_t(runs - 1, RESAMPLES)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return 100 * float(ahead.mean()), (float(low), float(high))
