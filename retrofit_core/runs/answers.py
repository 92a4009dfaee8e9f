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

    The images are drawn again, the same for all fusion seeds (bootstrap). With several fusion seeds each draw adds what other
    seeds would move the mean: Student's t times its standard error over seeds. Drawing three seeds again would cover
    81 % instead of 95 % where seeds matter most.

    Args:
        ours, best: (n,) bool, which images each knows; or (fusion seeds, n).
    """
    ahead = np.atleast_2d(ours).astype(int) - np.atleast_2d(best)
    seeds, n = ahead.shape
    # Only the sum over seeds counts for an image, so images are drawn as numbers of images with each sum.
    sums = np.array([*range(seeds, 0, -1), *range(-1, -seeds - 1, -1), 0])
    shares = np.array([(ahead.sum(0) == each).sum() for each in sums]) / n
    generator = np.random.default_rng(seed)
    drawn = 100 / seeds * (generator.multinomial(n, shares, RESAMPLES) @ sums) / n
    if seeds > 1:
        error = 100 * ahead.mean(1).std(ddof=1) / math.sqrt(seeds)
        drawn = drawn + error * generator.standard_t(seeds - 1, RESAMPLES)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return 100 * float(ahead.mean()), (float(low), float(high))
