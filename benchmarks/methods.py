"""Every method on the VGG pair in one process: seconds, accuracy, variance that the neurons keep.

    python benchmarks/methods.py                 everything (about an hour on two cores)
    python benchmarks/methods.py --part repair   one part; the record keeps the others as they were measured before

Conductance is computed once and given to every method, so seconds are those of the fusion alone. A method that does not
apply to the pair is a row with its reason.
"""

import argparse
import os
import statistics
import time
from collections.abc import Iterator
from typing import Any

import torch
from machine import forget_peak, peak_bytes, read, shared_folder, synchronise, write
from pairs import PAIRS, config, in_turn, scores_of

from retrofit_core import METHODS, ensemble, evaluate
from retrofit_core.baselines.repair import statistics as layer_statistics
from retrofit_core.data import Images, load
from retrofit_core.data.sampling import balanced
from retrofit_core.graph.network import networks_of
from retrofit_core.runs import read_inputs
from retrofit_core.runs.inputs import Inputs
from retrofit_core.system import device as devices

PAIR = next(iter(PAIRS))
#: Of methods that take less than LONG seconds.
REPEATS, LONG = 3, 40.0
WARM_UP = 100  # samples of a run before the first that counts
#: Luenam et al., appendix on runtimes: the same number of samples, VGG11s on CIFAR-10, mean of ten runs.
PAPER = {
    "machine": "NVIDIA RTX A5000",
    "seconds": {"OTFusion": 0.7, "Git-Re-Basin": 1.0, "HF-Linear": 14.2, "KF-Linear": 78.3, "KF-Gradient": 16.5},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all")
    parser.add_argument("--method", choices=METHODS, action="append", help="default: all")
    parser.add_argument("--images", type=int, help="test images, balanced over the classes (default: all)")
    parser.add_argument("--device", default=None, help="device of the fusions (default: CUDA if present)")
    arguments = parser.parse_args()
    # Its inputs are those of every method: numbers of rows, and data for scores.
    base = config(shared_folder(), PAIR, importance="conductance")
    inputs, test, device = read_inputs(base), load(base.data, "test"), devices.pick(arguments.device)
    rows = balanced(test.labels, arguments.images or len(test))
    name = "methods" if device.type == "cpu" else f"methods-{device.type}"
    content = {
        "device": str(device),
        "pair": PAIR,
        "samples": len(inputs.fusion[0]),
        "test images": len(rows),
        "paper": PAPER,
    }
    before = read(name)
    if before.get("test images") == len(rows):  # figures on other images cannot stand beside these
        content |= {key: value for key, value in before.items() if key in ("reference", *PARTS)}
    if "reference" not in content:
        content["reference"] = {
            f"parent {k}": evaluate(model, test, rows=rows)["accuracy"] for k, model in enumerate(inputs.models)
        }
        content["reference"]["ensemble"] = evaluate(ensemble(inputs.models), test, rows=rows)["accuracy"]
    for part in arguments.part or PARTS:
        rows_by_method = {row["method"]: row for row in content.get(part, {}).get("rows", [])}
        facts: dict[str, Any] = {"load before": os.getloadavg()[0]}
        for method, given in PARTS[part](inputs, facts):
            if method in (arguments.method or METHODS):
                rows_by_method[method] = measured(method, given, inputs, (test, rows), device)
                print(part, rows_by_method[method], flush=True)
                content[part] = {**facts, "rows": [rows_by_method[one] for one in METHODS if one in rows_by_method]}
                write(name, content)


def uniform(inputs: Inputs, facts: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every method as it is."""
    yield from ((name, {}) for name in METHODS)


def conductance(inputs: Inputs, facts: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every method that takes importance, with conductance on each parent's own rows."""
    start = time.perf_counter()
    scores = scores_of(inputs, "conductance")
    facts["scores, seconds"] = time.perf_counter() - start
    yield from ((name, {"importance": in_turn(scores)}) for name, method in METHODS.items() if method.takes.importance)


def repair(inputs: Inputs, facts: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every method that averages aligned neurons, its statistics corrected; with conductance where it takes it."""
    scores = scores_of(inputs, "conductance")
    for name, method in METHODS.items():
        if "repair" in method.settings():
            yield name, {"repair": True, **({"importance": in_turn(scores)} if method.takes.importance else {})}


PARTS = {"uniform": uniform, "conductance": conductance, "repair": repair}


def measured(
    name: str, given: dict[str, Any], inputs: Inputs, test: tuple[Images, torch.Tensor], device: torch.device
) -> dict[str, Any]:
    """One row: wall and processor seconds (medians), accuracy, variance of every layer against the parents' mean."""
    method, keywords = METHODS[name], {**content(name, inputs), "device": device, **given}
    times: list[tuple[float, float]] = []
    forget_peak(device)
    try:
        x, y = inputs.fusion
        method(inputs.models, (x[:WARM_UP], y[:WARM_UP]), **keywords)  # a GPU loads kernels at their first use
        while not times or (len(times) < REPEATS and times[0][0] < LONG):
            start = time.perf_counter(), time.process_time()
            model = method(inputs.models, inputs.fusion, **keywords).model
            synchronise(device)
            times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    except ValueError as error:
        return {"method": name, "reason": str(error)}
    peak, monitor = peak_bytes(device), given.get("monitor")
    wall, processor = (statistics.median(values) for values in zip(*times, strict=True))
    return {
        "method": name,
        "repeats": len(times),
        "seconds": wall,
        "processor seconds": processor,
        **({"peak bytes": peak} if peak is not None else {}),
        "accuracy": evaluate(devices.on_device(model, device), test[0], rows=test[1], monitor=monitor)["accuracy"],
        "variance": kept_variance(model, inputs),
    }


def content(name: str, inputs: Inputs) -> dict[str, Any]:
    """The keywords of a method that hold what was read beside networks and fusion data."""
    return {"importance_data": inputs.importance} if "importance_data" in METHODS[name].keywords() else {}


def kept_variance(model: torch.nn.Module, inputs: Inputs) -> dict[str, float]:
    """layer -> variance of its outputs on the fusion samples, over the mean of the parents'; none for ensembles."""
    samples = inputs.fusion[0]
    fused, *parents = (layer_statistics(net, [samples]) for net in networks_of([model, *inputs.models], samples))

    def total(statistics_: Any, layer: str) -> float:
        return statistics_[layer][1].square().sum().item()

    return {
        layer: total(fused, layer) / statistics.mean(total(parent, layer) for parent in parents)
        for layer in fused
        if all(layer in parent for parent in parents)
    }


if __name__ == "__main__":
    main()
