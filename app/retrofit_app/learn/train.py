"""Makes the page's parents: `python -m retrofit_app.learn.train` writes parents.json beside this file.

The task: eight bent arms in the plane, two of each of four classes. A network that saw two classes puts its boundary on the
arms of the other two, so it is unsure there, and the other network is not. Weights are rounded to five digits; all facts
are about the rounded weights.

Of five starts of each network (seeds k, k + 4, ... of the kth), the one with the fewest silent neurons is kept, the first
among equals. Nothing was chosen by what the tour shows.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

PARENTS = Path(__file__).with_name("parents.json")
CLASSES, ARMS = 4, 2
#: Each class's place between arms, in quarters of a turn: 0 and 1 face each other, 2 and 3 are between them.
PLACES = (0, 2, 1, 3)
TURN, NOISE, INNER, RADIUS = 0.12, 0.06, 0.3, 2.0
#: What each network of a regime saw: classes, cycled.
SEEN = {
    "classes": [[0, 1], [2, 3], [1, 2], [3, 0]],
    "skewed": [[0, 1] * 24 + [2, 3], [2, 3] * 24 + [0, 1], [1, 2] * 24 + [3, 0], [3, 0] * 24 + [1, 2]],
    "all": [[0, 1, 2, 3]] * 4,
}
WIDTHS = (8, 12)
POINTS = 400
SAMPLES: dict[str, Any] = {"seed": 7, "count": 320}
TEST: dict[str, Any] = {"seed": 99, "count": 800}
STARTS = 5
STEPS, RATE, DECAY = 2000, 0.02, 1e-3


def random(seed: int) -> Callable[[], float]:
    """Draws from [0, 1): mulberry32, as `Engine.random` in engine.js."""
    state, mask = seed, 0xFFFFFFFF

    def draw() -> float:
        nonlocal state
        state = (state + 0x6D2B79F5) & mask
        t = ((state ^ (state >> 15)) * (state | 1)) & mask
        t ^= (t + (((t ^ (t >> 7)) * (t | 61)) & mask)) & mask
        return ((t ^ (t >> 14)) & mask) / 2**32

    return draw


def points(seed: int, count: int, seen: Sequence[int] = tuple(range(CLASSES))) -> tuple[Tensor, Tensor]:
    """(count, 2) float64 points and (count,) int64 labels, which cycle through `seen`; as `Engine.data` in engine.js."""
    draw, rows, labels = random(seed), [], []
    for n in range(count):
        label, arm = seen[n % len(seen)], n // len(seen) % ARMS
        radius = INNER + (1 - INNER) * math.sqrt(draw())
        angle = 2 * math.pi * ((PLACES[label] / CLASSES + arm) / ARMS + TURN * (radius - INNER))
        spread = NOISE * (0.5 + 0.5 * radius)
        x = radius * math.cos(angle) + spread * 2 * (draw() + draw() + draw() - 1.5)
        y = radius * math.sin(angle) + spread * 2 * (draw() + draw() + draw() - 1.5)
        rows.append([math.floor(RADIUS * value * 1e4 + 0.5) / 1e4 for value in (x, y)])
        labels.append(label)
    return torch.tensor(rows, dtype=torch.float64), torch.tensor(labels)


def own_points(regime: str, index: int, width: int) -> dict[str, Any]:
    """A network's training data, as arguments of `points`."""
    return {
        "seed": 1000 * width + 100 * list(SEEN).index(regime) + index,
        "count": POINTS,
        "seen": SEEN[regime][index],
    }


def trained(inputs: Tensor, labels: Tensor, width: int, seeds: Sequence[int]) -> Iterator[nn.Sequential]:
    """Networks 2-width-width-4, trained side by side by Adam on cross entropy with a penalty on squared weights.

    Args:
        inputs: (networks, points, 2).
        labels: (networks, points).
        seeds: of each network's initial weights.
    """
    sizes, draws = (2, width, width, CLASSES), [torch.Generator().manual_seed(seed) for seed in seeds]
    weights, biases = [], []
    for ins, outs in zip(sizes, sizes[1:], strict=False):
        first = [
            torch.randn(ins, outs, generator=draw, dtype=torch.float64) * 0.8 * math.sqrt(2 / ins) for draw in draws
        ]
        shift = [torch.randn(1, outs, generator=draw, dtype=torch.float64) * 0.5 * (ins == 2) for draw in draws]
        weights.append(torch.stack(first).requires_grad_())
        biases.append(torch.stack(shift).requires_grad_())
    optimiser = torch.optim.Adam([*weights, *biases], lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=STEPS)
    for _ in range(STEPS):
        h = inputs
        for level, (W, b) in enumerate(zip(weights, biases, strict=True)):
            h = torch.baddbmm(b, h.relu() if level else h, W)
        loss = nn.functional.cross_entropy(h.flatten(0, 1), labels.flatten(), reduction="none").view(len(seeds), -1)
        optimiser.zero_grad()
        (loss.mean(1).sum() + DECAY * sum(W.square().sum() for W in weights)).backward()
        optimiser.step()
        schedule.step()
    for k in range(len(seeds)):
        yield network([W[k].T.tolist() for W in weights], [b[k, 0].tolist() for b in biases])


def network(weights: Sequence[Any], biases: Sequence[Any]) -> nn.Sequential:
    """The float64 network with these numbers, rounded to five digits."""
    layers: list[nn.Module] = []
    for W, b in zip(weights, biases, strict=True):
        layer = nn.Linear(len(W[0]), len(W), dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor([[_rounded(value) for value in row] for row in W], dtype=torch.float64))
            layer.bias.copy_(torch.tensor([_rounded(value) for value in b], dtype=torch.float64))
        layers += [nn.ReLU(), layer] if layers else [layer]
    return nn.Sequential(*layers)


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def accuracy(model: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    """Per cent of the points whose class has the largest output."""
    return 100 * (model(inputs).argmax(1) == labels).double().mean().item()


def silent(model: nn.Sequential, inputs: Tensor) -> int:
    """How many hidden neurons fire for no input."""
    return sum(int((model[:depth](inputs) <= 0).all(0).sum()) for depth in range(2, len(model), 2))


def facts() -> dict[str, Any]:
    """The content of parents.json."""
    test_inputs, test_labels = points(**TEST)
    parents: dict[str, Any] = {regime: {str(width): [] for width in WIDTHS} for regime in SEEN}
    for width in WIDTHS:
        names = [(regime, index) for regime in SEEN for index in range(len(SEEN[regime])) for _ in range(STARTS)]
        seeds = [index + 4 * start for _ in SEEN for index in range(4) for start in range(STARTS)]
        own = [points(**own_points(regime, index, width)) for regime, index in names]
        inputs, labels = torch.stack([x for x, _ in own]), torch.stack([y for _, y in own])
        networks = list(zip(names, trained(inputs, labels, width, seeds), own, strict=True))
        for start in range(0, len(networks), STARTS):
            (regime, index), model, _ = min(
                networks[start : start + STARTS], key=lambda entry: silent(entry[1], entry[2][0])
            )
            keep = torch.isin(test_labels, torch.tensor(SEEN[regime][index][:2] if regime != "all" else range(CLASSES)))
            linear = [layer for layer in model if isinstance(layer, nn.Linear)]
            parents[regime][str(width)].append({
                "name": "ABCD"[index],
                "saw": own_points(regime, index, width),
                "accuracy": round(accuracy(model, test_inputs, test_labels), 3),
                "accuracy_on_most_seen": round(accuracy(model, test_inputs[keep], test_labels[keep]), 3),
                "weights": [layer.weight.tolist() for layer in linear],
                "biases": [layer.bias.tolist() for layer in linear],
            })  # fmt: skip
    return {"classes": CLASSES, "samples": SAMPLES, "test": TEST, "parents": parents}


if __name__ == "__main__":
    torch.set_num_threads(1)
    PARENTS.write_text(json.dumps(facts(), separators=(",", ":")) + "\n")
