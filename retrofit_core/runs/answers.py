"""Which images networks classify correctly, and comparisons of two networks. No torch, so that pages load quickly."""

import math

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
#: Of a user's metric, which takes its own time for each.
METRIC_RESAMPLES = 500


def from_bits(text: str, images: int) -> NDArray[np.bool_]:
    """The inverse of `evaluation.as_bits`: (images,) bool."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8), count=images).astype(bool)


def difference(ours: NDArray[np.bool_], best: NDArray[np.bool_], seed: int = 0) -> tuple[float, tuple[float, float]]:
    """Difference in accuracy (percentage points) of two networks on the same images, and the paired 95 % interval.

    Args:
        ours, best: (n,) bool, the images that each knows; or (runs, n), see `mean_and_interval`. Equal numbers of runs are
            paired in order, a single run with each run of the other.
    """
    return mean_and_interval(np.atleast_2d(ours).astype(float) - np.atleast_2d(best).astype(float), seed)


def mean_and_interval(ahead: NDArray[np.float64], seed: int = 0) -> tuple[float, tuple[float, float]]:
    """The mean difference in percentage points, and its 95 % interval over images and runs.

    Images are resampled, the same for all runs (bootstrap). With several runs, each sample adds Student's t times the
    standard error of the mean over runs. Resampling three runs would cover 81 % instead of 95 % where runs matter most.

    Args:
        ahead: (runs, n) difference in correctness on each image, -1 to 1; runs are fusion seeds, or sets of parents with the
            mean over their seeds.
    """
    n = ahead.shape[1]
    # Only an image's mean over runs matters, so draw the number of images with each mean; 0 comes last.
    means, counts = np.unique(ahead.mean(0).round(9), return_counts=True)
    order = sorted(range(len(means)), key=lambda index: (means[index] == 0, -means[index]))
    generator = np.random.default_rng(seed)
    drawn = 100 * (generator.multinomial(n, counts[order] / n, RESAMPLES) @ means[order]) / n
    return 100 * float(ahead.mean()), _over_runs(drawn, 100 * ahead.mean(1), generator)


def metric_difference(
    ours: NDArray[np.float64], best: NDArray[np.float64], seed: int = 0
) -> tuple[float, tuple[float, float]]:
    """Difference in a metric of two networks on the same samples, and its paired 95 % interval, as in `difference`.

    Args:
        ours, best: (runs, 1 + resamples) of each: the metric of all samples, then of resampled ones, the same for both; NaN
            where it is not defined.
    """
    ahead = ours - best
    means = ahead.mean(0)
    return float(means[0]), _over_runs(means[1:], ahead[:, 0], np.random.default_rng(seed))


def _over_runs(
    drawn: NDArray[np.float64], of_runs: NDArray[np.float64], generator: np.random.Generator
) -> tuple[float, float]:
    """The 95 % interval of resampled differences, widened by the runs, see `mean_and_interval`.

    Args:
        of_runs: (runs,) values of all samples.
    """
    if (runs := len(of_runs)) > 1:
        error = of_runs.std(ddof=1) / math.sqrt(runs)
        drawn = drawn + error * generator.standard_t(runs - 1, len(drawn))
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return float(low), float(high)
