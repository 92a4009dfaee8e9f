"""Tables of gpu.py: parents of a split at the paper's settings, and every method of the paper's table on them."""

import itertools
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import training
from gpu_call import Call
from gpu_files import halve
from machine import forget_peak, peak_bytes
from methods import measured

from retrofit_core import METHODS, evaluate
from retrofit_core.data import load
from retrofit_core.fusion.importance import IMPORTANCE
from retrofit_core.networks.checkpoints import load_model
from retrofit_core.runs import RunConfig, execute, read_inputs
from retrofit_core.system.device import on_device
from retrofit_core.system.monitor import Monitor
from retrofit_core.training import recipe
from retrofit_core.training.parents import TrainConfig, train_parents

Unit = Callable[[], dict[str, Any]]
#: Luenam et al., the tables of VGG11 and of ViT; methods that do not take so many parents are left out.
GRADIENT, PLAIN = ("KF-Gradient", "HF-Gradient"), ("Average", "KD", "LP")
METHODS_OF = {
    "vgg": ("Ensemble", "KF-Linear", "HF-Linear", *GRADIENT, *PLAIN, "OTFusion", "Git-Re-Basin", "ZipIt"),
    "vit": ("Ensemble", *GRADIENT, *PLAIN, "Transformer-OTFusion", "Transformer-OTFusion-Weights"),
}
TINY = {
    "vgg": '{"architecture": "vgg", "plan": [6, "M", 8, "M"]}',
    "vit": '{"architecture": "vit", "patch": 4, "resize": 16, "hidden": 16, "depth": 1, "heads": 2, "mlp_width": 16}',
}
#: Samples -> seconds of KF-Gradient with uniform scores on two ViTs (CIFAR-100), mean of five runs.
PAPER_RUNTIMES = {400: 38.1, 6000: 632.5}
#: Fusion samples of ViTs on shards in the paper.
VIT_SAMPLES = 5000


@dataclass(frozen=True)
class Table:
    """One column of a table of the paper."""

    name: str
    architecture: str
    split: str
    parts: int

    def training(self, call: Call) -> TrainConfig:
        """How its parents are trained; in a smoke test they are tiny, and so is the training."""
        kind = "vgg" if self.architecture.startswith("vgg") else "vit"
        return TrainConfig(
            data=call.data,
            arch=(TINY[kind] if call.smoke else self.architecture,),
            split=self.split,
            parts=self.parts,
            recipe="cifar" if call.data == "digits" else "paper",
            epochs=call.epochs or (2 if call.smoke else None),
            seed=call.seed,
            device=str(call.device),
        )

    def folder(self, call: Call) -> Path:
        """Of its parents; others are trained for other epochs or seeds."""
        return call.work / f"{self.name}-epochs-{call.epochs or 'paper'}-seed-{call.seed}"

    def checkpoints(self, call: Call) -> list[Path]:
        """The parents' files, whether they are there or not."""
        return [Path(file) for file in self.training(call).files(self.folder(call))]

    def fusion(self, call: Call, method: str, **settings: Any) -> RunConfig:
        """A fusion of its parents."""
        folder, training_ = self.folder(call), self.training(call)
        options: dict[str, Any] = {"epochs": 2} if call.smoke and "epochs" in METHODS[method].keywords() else {}
        if self is VIT and method in GRADIENT and settings.get("importance") == "deeplift":
            options["fallback"] = "gradient"  # a ViT has operations for which DeepLIFT has no rule
        return RunConfig(
            models=training_.files(folder),
            data=call.data,
            splits=training_.splits(folder),
            method=method,
            importance_samples=call.samples,
            device=str(call.device),
            options=options or None,
            **settings,
        )


NONIID, SHARDED = Table("noniid-2", "vgg11", "dirichlet", 2), Table("sharded-2", "vgg11", "sharded", 2)
VIT = Table("vit-sharded-2", "vit", "sharded", 2)
#: By value: where the paper's methods are furthest from every other one comes first.
FURTHER = (
    Table("sharded-4", "vgg11", "sharded", 4),
    Table("noniid-4", "vgg11", "dirichlet", 4),
    Table("sharded-6", "vgg11", "sharded", 6),
    Table("noniid-8", "vgg11", "dirichlet", 8),
)


def units(tables: tuple[Table, ...], call: Call) -> dict[str, Unit]:
    """Plan, parents and fusions of some tables with one architecture; ViTs also have their runtimes measured."""
    result: dict[str, Unit] = {"plan": partial(plan, call, tables[0])}
    for table in tables:
        result[f"{table.name}: parents"] = partial(parents, call, table)
        count = VIT_SAMPLES if table is VIT and not call.smoke else call.samples
        for seed, name in itertools.product(range(call.seeds), METHODS_OF["vit" if table is VIT else "vgg"]):
            takes = METHODS[name].takes
            most = takes.parents[1]
            if (most is not None and table.parts > most) or (seed and not takes.uses_data):
                continue
            for importance in IMPORTANCE if takes.importance else ("uniform",):
                words = [name, *([importance] if takes.importance else []), f"seed {seed}"]
                settings = {"importance": importance, "samples": count, "seed": seed}
                result[f"{table.name}: {', '.join(words)}"] = partial(fused, call, table, name, settings)
        if table is VIT:  # the longest work last
            for samples in (40, 80) if call.smoke else PAPER_RUNTIMES:
                result[f"{table.name}: time with {samples} samples"] = partial(runtime, call, table, samples)
    return result


def plan(call: Call, table: Table) -> dict[str, Any]:
    """Seconds an epoch of one parent, compiled or not, and what the table's parents take one after another."""
    images, config = load(call.data), table.training(call)
    architecture = "vit" if table is VIT else "vgg"
    settings = recipe(config.recipe, images.name, images.shape[1], architecture, table.parts)
    epochs, count = config.epochs or settings["epochs"], len(images) // table.parts
    result: dict[str, Any] = {"epochs": epochs, "parents": table.parts}
    ways = (False, True) if call.compile is None and call.device.type == "cuda" else (bool(call.compile),)
    totals = {}
    for compiled in ways:
        start = time.perf_counter()
        given = {**settings, "compile": compiled}
        each, _ = training.seconds(config.arch[0], images, call.device, count, given, call.over)
        begin = time.perf_counter() - start - (training.EPOCHS + 1) * each
        totals[compiled] = epochs * each + begin
        result["compiled, seconds an epoch" if compiled else "seconds an epoch"] = each
    result["compile"] = min(totals, key=lambda way: totals[way])
    return result | {"seconds, one parent after another": table.parts * totals[result["compile"]]}


def parents(call: Call, table: Table) -> dict[str, Any]:
    """Train the parents, several processes at once, for one waits for Python and leaves the GPU idle; measure them."""
    start, config = time.perf_counter(), table.training(call)
    compiled = bool(call.results.get("plan", {}).get("compile"))
    work = partial(train_one, config, table.folder(call), compiled, call.until)
    together = min(call.processes, table.parts)
    # Each process compiles with workers of its own: all of them fit the cores.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(max(1, (os.cpu_count() or 1) // together)))
    if call.processes == 1:
        for index in range(table.parts):
            work(index)
    else:
        with ProcessPoolExecutor(together, get_context("spawn")) as pool:
            list(pool.map(work, range(table.parts)))
    result: dict[str, Any] = {"seconds in this call": time.perf_counter() - start, "compiled": compiled}
    result |= {"processes": call.processes, "best epochs": []}
    for index, file in enumerate(table.checkpoints(call)):
        model, facts = load_model(file)
        accuracy = evaluate(on_device(model, call.device), call.test, monitor=call.monitor)["accuracy"]
        result[f"parent {index}"] = accuracy
        result["best epochs"].append(facts["best_epoch"])
    return result


def train_one(config: TrainConfig, folder: Path, compiled: bool, until: float, index: int) -> None:
    """One parent, going on where it was stopped; its weights are rounded to float16.

    Raises:
        Cancelled: `until` is reached; finished epochs are kept in the folder.
    """
    monitor = Monitor(cancelled=lambda: time.time() > until)
    train_parents(config, folder, only=index, resume=True, test=False, monitor=monitor, compile=compiled)
    halve(Path(config.files(folder)[index]))


def _require_parents(call: Call, table: Table) -> None:
    """Parents that an earlier call measured may not all have been handed on."""
    needed = [*table.checkpoints(call), Path(table.training(call).splits(table.folder(call)))]
    if not all(file.exists() for file in needed):
        parents(call, table)


def fused(call: Call, table: Table, method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Accuracy on all test images of one fusion, which goes on where it was stopped."""
    _require_parents(call, table)
    config = table.fusion(call, method, **settings)
    record = call.work / "records" / config.key()
    resumed = {"resumed": True} if record.exists() else {}
    forget_peak(call.device)
    result, _ = execute(config, record, call.monitor)
    peak = peak_bytes(call.device)
    accuracy = evaluate(on_device(result.model, call.device), call.test, monitor=call.monitor)["accuracy"]
    shutil.rmtree(record)
    return {"accuracy": accuracy, "seconds": result.seconds, "peak bytes": peak, **resumed}


def runtime(call: Call, table: Table, samples: int) -> dict[str, Any]:
    """Seconds of KF-Gradient with uniform scores, beside the paper's."""
    _require_parents(call, table)
    config = table.fusion(call, "KF-Gradient", samples=samples)
    inputs, given = read_inputs(config), {"monitor": call.monitor, **(config.options or {})}
    row = measured("KF-Gradient", given, inputs, (call.test, torch.arange(len(call.test))), call.device)
    for name in ("method", "variance"):
        row.pop(name, None)
    return {**row, "paper, seconds": PAPER_RUNTIMES.get(samples)}
