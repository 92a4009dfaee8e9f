"""scikit-learn's handwritten digits (8x8, 1,797 images): embedded, no download."""

import numpy as np
import torch

from .images import Content, in_memory


def read(split: str) -> Content:
    """Reader of pixels (N, 1, 8, 8), labels (N,) int64 and the shape (1, 8, 8) of "train" (1,438 rows) or
    "test" (359 rows).

    Grey values 0..16 are scaled to 0..255. The test split is one fifth of every class, drawn with a fixed
    seed; rows keep the source's order.

    Raises:
        ValueError: another split.
    """
    if split not in ("train", "test"):
        raise ValueError(f"digits has no split {split!r}: take 'train' or 'test'.")
    from sklearn.datasets import load_digits  # imported here: takes half a second

    images, labels = load_digits(return_X_y=True)  # (1797, 64), (1797,)
    in_test, draw = np.zeros(len(labels), dtype=bool), np.random.default_rng(0)
    for label in range(10):
        members = np.flatnonzero(labels == label)
        in_test[members[draw.permutation(len(members))[: round(len(members) / 5)]]] = True
    rows = np.flatnonzero(in_test == (split == "test"))
    pixels = np.rint(images[rows].reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)  # (N, 8, 8)
    return in_memory(torch.from_numpy(pixels).unsqueeze(1), torch.from_numpy(labels[rows].astype(np.int64)))
