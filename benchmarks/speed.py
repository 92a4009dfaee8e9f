"""Time of retrofitting on the VGG pair, of the closed form beside its floor; k-means; conductance.

    python benchmarks/speed.py                everything (about 15 minutes on two cores)
    python benchmarks/speed.py --part linear  one part; the record keeps the others, with the machines they were measured on

The floor is one forward pass of parents and fused network over the samples, plus the floating-point operations of
moments (float32 products) and solves (float64) at the rate that a large product of the same precision reaches in the
same run.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from machine import facts, product_rate, read, shared_folder, write
from pairs import PAIRS, config
from sklearn import cluster

from retrofit_core import METHODS, importance_scores
from retrofit_core.fusion.grouping import KMeans
from retrofit_core.fusion.importance import Conductance
from retrofit_core.fusion.moments import lags, solve
from retrofit_core.fusion.results import LevelReport
from retrofit_core.graph.layers import Layer
from retrofit_core.graph.network import Network, networks_of
from retrofit_core.graph.walk import Step, Walk
from retrofit_core.runs import read_inputs
from retrofit_core.system import device as devices
from retrofit_core.system.runtime import Runtime

REPEATS = 5
PAIR = next(iter(PAIRS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all")
    parser.add_argument("--device", default=None, help="device of the fusions (default: CUDA if present)")
    arguments = parser.parse_args()
    base = config(shared_folder(), PAIR)
    inputs = read_inputs(base)
    device = devices.pick(arguments.device)
    name = "speed" if device.type == "cpu" else f"speed-{device.type}"
    content = {"device": str(device), "samples": 400, "repeats": REPEATS, **read(name)}
    for part in arguments.part or PARTS:
        content[part] = PARTS[part](inputs, device)
        content["machines"] = {**content.get("machines", {}), part: facts()}  # parts may be measured again elsewhere
        print(part, content[part], flush=True)
        write(name, content)


def linear(inputs: Any, device: torch.device) -> dict[str, Any]:
    """Medians and spread of HF-Linear and KF-Linear, their breakdown, the floor."""
    rates = {str(dtype): product_rate(dtype) for dtype in (torch.float32, torch.float64)}
    x = inputs.fusion[0]
    results: dict[str, Any] = {"rates, GFLOP/s": {name: rate / 1e9 for name, rate in rates.items()}}
    METHODS["HF-Linear"](inputs.models, x, device=device)  # warm-up
    forward = median_seconds(lambda: forward_pass(inputs.models, x))
    for name in ("HF-Linear", "KF-Linear"):
        runs = [METHODS[name](inputs.models, x, device=device, seed=seed) for seed in range(REPEATS)]
        seconds = [run.seconds for run in runs]
        phases = {
            phase: statistics.median(total(run.levels, phase) for run in runs)
            for phase in ("forward", "moments", "solve", "group", "report")
        }
        (net,) = networks_of([runs[0].model], x)
        counts = [level_operations(r, net, layer) for r, layer in zip(runs[0].levels, net.layers, strict=True)]
        products, solves = (sum(count) for count in zip(*counts, strict=True))
        floor = forward + products / rates["torch.float32"] + solves / rates["torch.float64"]
        results[name] = {
            "median seconds": statistics.median(seconds),
            "min": min(seconds),
            "max": max(seconds),
            "breakdown": phases,
            "operations, GFLOP": {
                "moments, float32": products / 1e9,
                "solves, float64": solves / 1e9,
            },
            "forward pass, seconds": forward,
            "floor, seconds": floor,
            "times the floor": statistics.median(seconds) / floor,
        }
    return results


def forward_pass(models: list[torch.nn.Module], x: torch.Tensor) -> None:
    """Both parents and, as the fused network, parent 0 again."""
    with torch.no_grad():
        for model in (*models, models[0]):
            for batch in x.split(100):
                model(batch)


def level_operations(report: LevelReport, net: Network, layer: Layer) -> tuple[int, int]:
    """Floating-point operations of one level's moments and of its solve; symmetric products count half."""
    p, n, m, d = layer.inputs, report.rows, sum(report.widths), report.width
    if report.form == "dual":
        kernel, factor, solution, gram, weights = (
            n * n * p,
            n**3 // 3,
            2 * n * n * m,
            2 * n * m * m,
            2 * n * d * (m + p),
        )
        return 0, kernel + factor + solution + gram + n * m * m + weights
    (op,), maps = layer.operations, net.spaces.neurons.shape(layer.end)[2:]
    by_lags = op.by_lags and op.channels >= lags.MIN_CHANNELS
    pairs = (
        sum(max(0, maps[0] - abs(down)) * max(0, maps[1] - abs(right)) for down, right in lags.LAGS) if by_lags else 0
    )
    xx = 2 * (n // maps.numel()) * pairs * op.channels**2 if by_lags else n * p * p
    factor, phi, gram, weights = p**3 // 3, p * p * m, p * m * m, 2 * p * m * d + p * p * d
    return xx + 2 * n * p * m + n * m * m, factor + phi + gram + weights


def total(levels: list[LevelReport], phase: str) -> float:
    return sum(level.seconds.get(phase, 0.0) for level in levels)


def median_seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def gradient(inputs: Any, device: torch.device) -> dict[str, Any]:
    """One fusion by each gradient method: seconds, breakdown and epochs per level."""
    results = {}
    for name in ("HF-Gradient", "KF-Gradient"):
        run = METHODS[name](inputs.models, inputs.fusion[0], device=device)
        phases = {phase: total(run.levels, phase) for phase in ("forward", "moments", "group", "fit", "report")}
        epochs = [len(level.curve) - 1 for level in run.levels]
        results[name] = {"seconds": run.seconds, "breakdown": phases, "epochs": epochs}
    return results


def clustering(inputs: Any, device: torch.device) -> dict[str, Any]:
    """n = 1024 neurons, k = 512: a level of the pair and random points, against scikit-learn with as many starts."""
    cpu, generator, memory = torch.device("cpu"), torch.Generator().manual_seed(0), Runtime().memory
    nets = networks_of([*inputs.models, inputs.models[0]], inputs.fusion[0])
    batches = [[batch] for batch in inputs.fusion[0].split(nets[0].batch())]
    walks = [Walk(net.graph, batches, cpu, memory) for net in nets]
    step = Step(nets, walks, 4, devices.Stopwatch(cpu), [None] * len(batches), batches, generator)
    step.go(step.layer.reads, memory)
    real = solve(step.moments(torch.float64, None, memory)).gram
    random = torch.randn(1024, 1024, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    results = {}
    for name, gram in (("level features.11 of the pair", real), ("random points", random @ random.T)):
        values, vectors = torch.linalg.eigh(gram)
        kept = values > 1e-10 * values[-1]
        points = (vectors[:, kept] * values[kept].sqrt()).numpy()
        weights = torch.full((1024,), 1 / 1024, dtype=torch.float64)
        ours: list[tuple[float, list[float]]] = []
        theirs: list[tuple[float, list[float]]] = []
        for seed in range(3):
            start = time.perf_counter()
            result = KMeans()(
                gram.to(device), weights.to(device), (512, 512), 512, generator=torch.Generator().manual_seed(seed)
            )
            ours.append((time.perf_counter() - start, result.report["costs"]))
            starts = result.report["restarts"]
            start = time.perf_counter()
            fits = [cluster.KMeans(512, n_init=1, random_state=starts * seed + k) for k in range(starts)]
            inertia = [float(fit.fit(points, sample_weight=weights.numpy()).inertia_) for fit in fits]
            theirs.append((time.perf_counter() - start, inertia))
        results[name] = {
            "dimensions": points.shape[1],
            "starts": starts,
            **{
                f"{who}, {what}": value
                for who, runs in (("ours", ours), ("scikit-learn", theirs))
                for what, value in (
                    ("median seconds", statistics.median(t for t, _ in runs)),
                    (
                        "mean inertia of a k-means++ start",
                        statistics.mean(c for _, costs in runs for c in costs[: starts - 1]),
                    ),
                    ("best inertia", [min(costs) for _, costs in runs]),
                )
            },
        }
        results[name]["times faster"] = (
            results[name]["scikit-learn, median seconds"] / results[name]["ours, median seconds"]
        )
    return results


def conductance(inputs: Any, device: torch.device, samples: int = 100) -> dict[str, Any]:
    """All levels in one pass against Captum level by level (same steps, same rule)."""
    from captum.attr import LayerConductance

    x, y = inputs.fusion[0][:samples], inputs.fusion[1][:samples]
    network = inputs.models[0]
    (net,) = networks_of([network], x)
    start = time.perf_counter()
    ours = importance_scores(network, x, y, Conductance(normalise_scores=False)).values
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    theirs = []
    for layer, axis, width in zip(net.layers, net.axes, net.widths, strict=True):
        sums = torch.zeros(width, dtype=torch.float64)
        for part in range(0, samples, 50):
            rows = slice(part, part + 50)
            attributions: Any = LayerConductance(network, network.get_submodule(layer.name)).attribute(
                x[rows], torch.zeros_like(x[rows]), target=y[rows], n_steps=10
            )
            sums += attributions.detach().movedim(axis, -1).abs().double().reshape(-1, width).sum(0)
        theirs.append(sums / samples + 1e-8)
    captum_seconds = time.perf_counter() - start
    worst = max(((a - b).abs().max() / b.max()).item() for a, b in zip(ours, theirs, strict=True))
    return {
        "samples": samples,
        "ours, seconds": seconds,
        "Captum level by level, seconds": captum_seconds,
        "times faster": captum_seconds / seconds,
        "largest relative difference": worst,
    }


PARTS = {
    "linear": linear,
    "gradient": gradient,
    "kmeans": clustering,
    "conductance": conductance,
}

if __name__ == "__main__":
    main()
