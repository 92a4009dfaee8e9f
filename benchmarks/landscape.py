"""Seconds for a point of a loss landscape: a plain loop, and what `landscape.Mixtures` does.

    python benchmarks/landscape.py                     five networks, random weights, 256 random images (about 5 minutes)
    python benchmarks/landscape.py --network vgg11     one of them; the record keeps the others
    python benchmarks/landscape.py --whole             the VGG pair at the defaults: expected and measured seconds

The plain loop mixes the weights of a point and runs all images in one pass, tensor by tensor, as most published code does.
The ways take turns, and of each the least time counts, for whatever else the machine does can only add to it. PyTorch's
threads are as many as OMP_NUM_THREADS says, else as many as there are cores.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from machine import facts, read, shared_folder, write
from pairs import PAIRS, config
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from retrofit_core.data import load
from retrofit_core.inspection.landscape import Landscape, Mixtures, networks_of
from retrofit_core.networks.architectures import build, parse
from retrofit_core.runs import read_inputs

NETWORKS = {
    "vgg11": ("vgg11", 4),
    "vit": ("vit", 2),
    "resnet18": ("resnet18", 2),
    "digits cnn": ('{"architecture": "cnn", "widths": [8, 16, 32], "channels": 1, "size": 8}', 64),
    "mnist mlp": ('{"architecture": "mlp", "sizes": [784, 256, 10]}', 64),
}
IMAGES, ROUNDS = 256, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=NETWORKS, action="append", help="default: all")
    parser.add_argument("--whole", action="store_true")
    arguments = parser.parse_args()
    threads = torch.get_num_threads()
    name = f"landscape-{threads}-{'thread' if threads == 1 else 'threads'}"
    content = {**read(name), "machine": facts(), "images": IMAGES, "rounds": ROUNDS}
    if arguments.whole:
        content["whole"] = whole()
        print(content["whole"], flush=True)
    else:
        for network in arguments.network or NETWORKS:
            content[network] = ways(*NETWORKS[network])
            print(network, content[network], flush=True)
    write(name, content)


def ways(spec: str, points: int) -> dict[str, float]:
    """Seconds a point of each way, and how many times faster than the plain loop ours is."""
    networks = {str(seed): build(parse(spec), seed=seed).eval() for seed in range(3)}
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(IMAGES, *networks["0"].input_shape, generator=generator)
    y = torch.randint(10, (IMAGES,), generator=generator)
    shares = torch.softmax(torch.randn(points, 3, generator=generator), 1).double()
    ours = Mixtures(networks, x, y)
    runs: dict[str, Callable[[], Any]] = {
        "plain loop": lambda: plain(list(networks.values()), x, y, shares),
        "ours": lambda: ours.measure(shares),
        "ours, bfloat16": lambda: ours.measure(shares, torch.bfloat16),
    }
    seconds = {name: float("inf") for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name] = min(seconds[name], (time.perf_counter() - start) / points)
    return seconds | {
        "times faster": seconds["plain loop"] / seconds["ours"],
        "times faster, bfloat16": seconds["plain loop"] / seconds["ours, bfloat16"],
    }


@torch.inference_mode()
def plain(networks: list[nn.Module], x: Tensor, y: Tensor, shares: Tensor) -> list[float]:
    """Losses point by point; BatchNorm by the batch."""
    states = [dict(network.named_parameters()) for network in networks]
    network = networks[0].train()  # no dropout in these networks
    losses = []
    for share in shares.tolist():
        mixed = {}
        for name, tensor in states[0].items():
            mixed[name] = torch.zeros_like(tensor)
            for part, state in zip(share, states, strict=True):
                mixed[name] += part * state[name]
        losses.append(cross_entropy(functional_call(network, mixed, (x,)), y).item())
    return losses


def whole() -> dict[str, float]:
    """The landscape of the VGG pair and its aligned second parent at the defaults."""
    settings = config(shared_folder(), next(iter(PAIRS)))
    inputs = read_inputs(settings)
    networks = networks_of(inputs.models, align="git-re-basin", data=inputs.fusion)
    landscape = Landscape()
    start = time.perf_counter()
    plan = landscape.plan(networks, ("parent 0", "parent 1", "aligned parent 1"), load(settings.data, "test"))
    planned = time.perf_counter() - start
    expected = plan.seconds()
    first = None
    for survey in landscape.run(plan):
        if first is None and survey.finished.sum() >= 9:
            first = survey.seconds
    return {
        "evaluations": survey.total,
        "plan": planned,
        "expected": expected,
        "first picture": first or 0.0,
        "seconds": survey.seconds,
    }


if __name__ == "__main__":
    main()
