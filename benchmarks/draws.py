"""Data of pairs that a benchmark trains itself, and means over pairs with their intervals."""

import statistics
from collections.abc import Sequence

import torch
from machine import shared_folder
from scipy.stats import t
from torch import Tensor

from retrofit_core.data import Images, load
from retrofit_core.data.sampling import balanced


def images_of(data: str, split: str, size: int) -> Images:
    """Digits as they are, or a folder of the shared data, shrunk."""
    return load(data, split) if data == "digits" else load(shared_folder() / "data" / data, split, size=size)


def drawn(images: Images, rows: Tensor, samples: int, seed: int) -> tuple[Tensor, Tensor]:
    """Balanced samples of training rows, or all of these where there are fewer, with labels."""
    generator = torch.Generator().manual_seed(seed)
    chosen = balanced(images.labels, min(samples, len(rows)), rows=rows, generator=generator)
    return images.inputs(chosen), images.labels[chosen]


def interval(differences: Sequence[float]) -> tuple[float, float, float]:
    """The mean of one difference a pair, and the ends of its 95 % interval over pairs (Student's t)."""
    centre = statistics.mean(differences)
    reach = t.ppf(0.975, len(differences) - 1) * statistics.stdev(differences) / len(differences) ** 0.5
    return centre, centre - reach, centre + reach


def in_words(differences: Sequence[float]) -> str:
    """The mean of differences with its interval, as in -1.3 (-3.0 to 0.4)."""
    centre, low, high = interval(differences)
    return f"{centre:+.1f} ({low:+.1f} to {high:+.1f})"
