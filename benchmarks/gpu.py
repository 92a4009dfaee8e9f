"""What is measured on a GPU: fusions on CPU and GPU compared, and seconds of every method on the VGG11 pair and of other works.

    python benchmarks/gpu.py --part speed --out OUT             a record OUT/gpu-speed.json, written after every unit
    python benchmarks/gpu.py --part equality --out OUT --scale smoke     tiny networks, on a CPU in about a minute

A call stops after --seconds, and the next one goes on from the record. The paper's tables are measured on a GPU by
`retrofit reproduce --scale paper`. The folder of data and checkpoints is RETROFIT_SHARED.
"""

import argparse
import copy
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from machine import save, shared_folder, synchronise
from methods import PAPER, content, measured
from pairs import PAIRS, config

from retrofit_core import METHODS, evaluate
from retrofit_core.data import load
from retrofit_core.data.sampling import balanced
from retrofit_core.inspection.landscape import Mixtures
from retrofit_core.methods import RETROFITTING
from retrofit_core.networks.architectures import build, fitted, parse
from retrofit_core.runs import RunConfig, read_inputs
from retrofit_core.runs.parents import train_parents
from retrofit_core.system import device as devices
from retrofit_core.system.monitor import Cancelled, Monitor
from retrofit_core.training import recipe, train
from retrofit_core.training.config import TrainConfig

Unit = Callable[[], dict[str, Any]]
#: Networks of random weights, and those of a smoke test: how long a closed form takes does not depend on the weights.
NETWORKS = {
    "two ViTs": ("vit", '{"architecture": "vit", "patch": 4, "hidden": 16, "depth": 1, "heads": 2, "mlp_width": 16}'),
    "two ResNet-18s": ("resnet18", '{"architecture": "resnet", "layers": [1, 1], "width": 4}'),
    "vgg11": ("vgg11", '{"architecture": "vgg", "plan": [6, "M", 8, "M"]}'),
}
#: What `read_inputs` reads with them is all that a method may take: shares of the classes, data for scores.
EVERYTHING: dict[str, Any] = {"method": "KF-Linear", "importance": "conductance"}
IMAGES = 2000  # test images of a fusion on both devices: one of them is slow
#: Points of a landscape, of which some are measured.
POINTS, MEASURED = 41 * 41, 164
EPOCHS = 3  # of a training that are measured, after one that is discarded


@dataclass
class Call:
    """One call: where it measures, until when, and on what."""

    work: Path
    device: torch.device
    until: float
    smoke: bool

    @cached_property
    def monitor(self) -> Monitor:
        return Monitor(cancelled=lambda: time.time() > self.until)

    @cached_property
    def data(self) -> str:
        return "digits" if self.smoke else str(shared_folder() / "data" / "cifar10")

    def trained(self, data: str, architecture: str) -> RunConfig:
        """Two small networks on shards, trained for a few epochs on the CPU."""
        training = TrainConfig(data, (architecture,), epochs=5, device="cpu")
        folder = self.work / f"pair-{training.key()}"
        train_parents(training, folder, resume=True, test=False, monitor=self.monitor)
        models, splits, samples = training.files(folder), training.splits(folder), 40 if self.smoke else 400
        return RunConfig(models, data, splits=splits, samples=samples, importance_samples=samples, **EVERYTHING)

    def pair(self) -> RunConfig:
        """The VGG11 pair, with every input that a method may take; in a smoke test a tiny pair."""
        if self.smoke:
            return self.trained(self.data, NETWORKS["vgg11"][1])
        return config(shared_folder(), next(iter(PAIRS)), **EVERYTHING)

    def networks(self, name: str, count: int) -> list[torch.nn.Module]:
        """Networks of random weights for the call's images."""
        images = load(self.data)
        spec = fitted(parse(NETWORKS[name][self.smoke]), images.shape, len(images.classes))
        return [build(spec, seed=seed).eval() for seed in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    parser.add_argument("--work", type=Path, default=Path("build/gpu"), help="folder for what may be lost")
    parser.add_argument("--seconds", type=float, default=540, help="after which it stops (default: 540)")
    parser.add_argument("--scale", choices=("smoke", "paper"), default="paper")
    parser.add_argument("--device", help="default: CUDA if present")
    options = parser.parse_args()
    call = Call(options.work, devices.pick(options.device), time.time() + options.seconds, options.scale == "smoke")
    path = options.out / f"gpu-{options.part}.json"
    record = json.loads(path.read_text()) if path.exists() else {"units": {}}
    options.out.mkdir(parents=True, exist_ok=True)
    for name, unit in PARTS[options.part](call).items():
        if "reason" in record["units"].get(name, {"reason": ""}):
            try:
                call.monitor.check()
                record["units"][name] = unit()
            except Cancelled:
                print(f"stopped in '{name}'; call it again")
                break
            except Exception as error:  # one unit's defect must not cost the others their minutes
                record["units"][name] = {"reason": f"{type(error).__name__}: {error}"}
            print(name, record["units"][name], flush=True)
            save(path, record | {"settings": {"scale": options.scale, "device": call.device.type}})


def equality(call: Call) -> dict[str, Unit]:
    """Small networks by every method, the VGG11 pair by those of the paper."""
    pairs: dict[str, tuple[Callable[[], RunConfig], Any]] = {
        **{f"digits {name}": (partial(call.trained, "digits", name), tuple(METHODS)) for name in ("mlp", "cnn")},
        "VGG11": (call.pair, RETROFITTING),
    }
    return {
        f"{name}, {method}, {str(dtype).removeprefix('torch.')}": partial(on_both, call, make, method, dtype)
        for name, (make, methods) in pairs.items()
        for method in methods
        for dtype in (torch.float64, torch.float32)
    }


def on_both(call: Call, make: Callable[[], RunConfig], method: str, dtype: torch.dtype) -> dict[str, Any]:
    """One fusion on the CPU and on the device: how far apart weights, groups and accuracy are."""
    settings = make()
    inputs, test = read_inputs(settings), load(settings.data, "test")
    rows = balanced(test.labels, min(IMAGES, len(test)))
    x, y = inputs.fusion
    models = [copy.deepcopy(model).to(dtype) for model in inputs.models]
    scores = {"importance": "conductance"} if METHODS[method].takes.importance else {}
    keywords = {**content(method, inputs), **scores, **_epochs(method, 5), "monitor": call.monitor}
    weights, groups, result = [], [], {}
    for device in (torch.device("cpu"), call.device):
        fused = METHODS[method](models, (x.to(dtype), y), device=device, **keywords)
        weights.append(torch.cat([w.detach().double().cpu().flatten() for w in fused.model.state_dict().values()]))
        groups.append([level.labels.cpu() for level in fused.levels])
        side = "accuracy" if result else "accuracy on the CPU"
        result[side] = evaluate(fused.model.float(), test, rows=rows, monitor=call.monitor)["accuracy"]
    apart = (weights[1] - weights[0]).norm() / weights[0].norm()
    other = sum(not torch.equal(left, right) for left, right in zip(*groups, strict=True))
    return {"relative difference": apart.item(), **result, "levels with other groups": other}


def _epochs(method: str, epochs: int) -> dict[str, Any]:
    """So many epochs for the methods that go by gradient."""
    return {"epochs": epochs} if "epochs" in METHODS[method].keywords() else {}


def speed(call: Call) -> dict[str, Unit]:
    """Every method on the VGG11 pair with uniform scores; other networks; a landscape; an epoch of training."""
    return {
        **{method: partial(on_the_pair, call, method) for method in tuple(METHODS)},
        **{f"KF-Linear, {name}": partial(fusion, call, name) for name in ("two ViTs", "two ResNet-18s")},
        "landscape": partial(landscape, call),
        "training of vgg11": partial(epoch, call),
    }


def on_the_pair(call: Call, method: str) -> dict[str, Any]:
    """Seconds, accuracy and variance of a method, beside the paper's seconds."""
    inputs, test = read_inputs(call.pair()), load(call.data, "test")
    few = _epochs(method, 2) if call.smoke else {}
    row = measured(method, {"monitor": call.monitor, **few}, inputs, (test, torch.arange(len(test))), call.device)
    return {**row, "paper, seconds": PAPER["seconds"].get(method)}


def fusion(call: Call, name: str) -> dict[str, float]:
    """Seconds of KF-Linear on two networks and 400 images, after a fusion that loads kernels."""
    images, rows = load(call.data), torch.arange(400)
    data = (images.inputs(rows), images.labels[rows])
    pair = call.networks(name, 2)
    return {"seconds": seconds(lambda: METHODS["KF-Linear"](pair, data, device=call.device), call.device)}


def landscape(call: Call) -> dict[str, float]:
    """Seconds of a landscape between three VGG11s on 2,000 images; from a tenth of its points, for each takes as long."""
    images, some = load(call.data), 8 if call.smoke else MEASURED
    rows = torch.arange(100 if call.smoke else 2000)
    corners = {str(k): network for k, network in enumerate(call.networks("vgg11", 3))}
    mixtures = Mixtures(corners, images.inputs(rows), images.labels[rows], device=call.device)
    shares = torch.rand(some, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    taken = seconds(lambda: mixtures.measure(shares), call.device)
    return {"seconds": taken * POINTS / some, "points measured": some}


def epoch(call: Call) -> dict[str, float]:
    """Seconds of an epoch of one of two VGG11s by the paper's recipe."""
    images, ends = load(call.data), [time.perf_counter()]
    settings = recipe("cifar" if call.smoke else "paper", images.name, images.shape[1], "vgg", 2)

    def note(event: dict[str, Any]) -> None:
        if event["kind"] == "epoch":
            synchronise(call.device)
            ends.append(time.perf_counter())

    model = call.networks("vgg11", 1)[0].to(call.device)
    train(
        model,
        images,
        torch.arange(len(images) // 2),
        **{**settings, "epochs": EPOCHS + 1, "holdout": 0.0},
        monitor=Monitor(note, lambda: time.time() > call.until),
    )
    epochs = [end - start for start, end in zip(ends[1:-1], ends[2:], strict=True)]
    return {"seconds": statistics.mean(epochs), "deviation": statistics.stdev(epochs)}


def seconds(work: Callable[[], Any], device: torch.device) -> float:
    """Time of some work on the device, after one that is discarded."""
    for _ in range(2):
        synchronise(device)
        start = time.perf_counter()
        work()
        synchronise(device)
    return time.perf_counter() - start


PARTS = {"equality": equality, "speed": speed}

if __name__ == "__main__":
    main()
