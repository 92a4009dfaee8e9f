"""What noise on a party's sums costs, and what it hides: `python benchmarks/noise.py`.

Retrofit adds no noise. Here a contributor adds what a party could: to the inner product of neurons i and j a Gaussian number of
deviation R |i| |j|, where |i| is the root of neuron i's own inner product (so R is the noise on their uncentred correlation); to
other sums one of R times their root mean square. Nothing bounds what one sample adds to them, so no R gives differential privacy.

Cost: test accuracy of KF-Linear with conductance, of pairs of digits networks that know five classes each. Hidden: how close the
first direction of the sums over one image, at the first level of an MLP, is to this image (cosine), beside that of two images.
"""

from dataclasses import dataclass, replace
from statistics import mean, stdev

import torch
from machine import write
from torch import Tensor

from retrofit_core import METHODS, build, evaluate, train
from retrofit_core.data import load, splits
from retrofit_core.fusion.contributors import Alone
from retrofit_core.fusion.moments import Moments, MomentSums, Rows

LEVELS = (0.0, 1e-3, 1e-2, 3e-2, 1e-1)
SEEDS = (0, 1, 2)
IMAGES = 100


@dataclass
class Noisy(Alone):
    """All samples in one place, with noise of `level` on their sums."""

    level: float
    generator: torch.Generator
    share_rows = False

    def total(self, index: int, sums: Moments | Rows) -> Moments:
        moments = sums.moments() if isinstance(sums, Rows) else sums
        z = moments.zz.diagonal().sqrt()
        facts = {"zz": moments.zz + self._symmetric(z), "sz": moments.sz + self._drawn(z) * moments.rows**0.5}
        if moments.xx is not None and moments.xz is not None:
            x = moments.xx.diagonal().sqrt()
            facts |= {"xx": moments.xx + self._symmetric(x), "xz": moments.xz + self._drawn(torch.outer(x, z))}
        return replace(moments, **facts)

    def add_up(self, tensor: Tensor) -> Tensor:
        noisy = tensor + self._drawn(tensor.square().mean().sqrt().expand_as(tensor))
        return noisy if (tensor < 0).any() else noisy.clamp_min(0)  # scores and squares stay what they are

    def _drawn(self, scale: Tensor) -> Tensor:
        return self.level * scale * torch.randn(scale.shape, generator=self.generator, dtype=scale.dtype)

    def _symmetric(self, norms: Tensor) -> Tensor:
        upper = self._drawn(torch.outer(norms, norms)).triu()
        return upper + upper.triu(1).T


def main() -> None:
    images, test = load("digits", "train"), load("digits", "test")
    accuracies: dict[str, dict[str, list[float]]] = {}
    for architecture, spec in {"mlp": {"sizes": [64, 64, 48, 10]}, "cnn": {}}.items():
        rows = {str(level): list[float]() for level in LEVELS}
        for seed in SEEDS:
            parents = [build({"architecture": architecture, **spec}, seed=2 * seed + k) for k in range(2)]
            for parent, part in zip(parents, splits.sharded(images.labels, 2, seed=seed), strict=True):
                train(parent, images, part, seed=seed)
            data = images.inputs(range(400)), images.labels[:400]
            for level in LEVELS:
                noisy = Noisy(level, torch.Generator().manual_seed(seed))
                options = {"importance": "conductance", "importance_data": "fusion", "contributors": noisy}
                fused = METHODS["KF-Linear"](parents, data, seed=seed, device="cpu", **options).model
                rows[str(level)].append(evaluate(fused, test)["accuracy"])
        accuracies[architecture] = rows
        print(architecture, {level: f"{mean(row):.1f} ± {stdev(row):.1f}" for level, row in rows.items()}, flush=True)
    x = images.inputs(range(2 * IMAGES)).flatten(1).double()
    found = {str(level): mean(recovered(image, level, k) for k, image in enumerate(x[:IMAGES])) for level in LEVELS}
    unrelated = torch.cosine_similarity(x[:IMAGES], x[IMAGES:]).abs().mean().item()
    write("noise", {"samples": 400, "accuracy, %": accuracies, "cosine": found, "unrelated": unrelated})


def recovered(image: Tensor, level: float, seed: int) -> float:
    """Cosine of an image (p,) and the first direction of its own sums with noise."""
    sums = MomentSums(1, len(image))
    sums.add(torch.ones(1, 1, dtype=torch.float64), image[None])
    xx = Noisy(level, torch.Generator().manual_seed(seed)).total(0, sums.finish()).xx
    assert xx is not None
    return torch.cosine_similarity(torch.linalg.eigh(xx).eigenvectors[:, -1], image, 0).abs().item()


if __name__ == "__main__":
    main()
