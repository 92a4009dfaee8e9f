"""Run one unit: train, fuse or fine-tune what is missing, measure the network, and write its result."""

import dataclasses
import os
import platform
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .. import runs
from ..data import load
from ..data.sampling import balanced
from ..data.splits import read_splits
from ..inspection.landscape import networks_of
from ..methods import METHODS
from ..networks.checkpoints import load_model, save_model
from ..networks.composites import COMPOSITES
from ..runs import comparison, leaderboard
from ..runs.answers import from_bits
from ..runs.finetunings import FinetuneConfig
from ..runs.parents import train_parents
from ..runs.store import noted
from ..system import device as devices
from ..system import files
from ..system.device import on_device
from ..system.extras import Missing, library_version
from ..system.monitor import Monitor
from ..training.evaluation import evaluate
from ..training.files import finetuned, settings_of
from ..training.state import digest as digest_of_tensors
from .clustering import clustering
from .results import Result, packed_bits, read_result, write_result
from .units import Clustering, FineTuning, Fusion, LossLandscape, Parent, TunedEnsemble, Unit


def work(unit: Unit, root: str | Path, monitor: Monitor | None = None, device: str = "auto") -> Result:
    """A unit's result: the existing one, or else a new one.

    Only one process works on a unit. Missing parents are trained. If a method refuses, or a needed unit was refused, the
    result holds the reason.

    Args:
        root: runs folder with parents, networks and results.
    Raises:
        files.Locked: another process works on this unit, or on one that it needs.
        ValueError: a file or data set is missing or cannot be read, or a training is impossible.
        Cancelled: the monitor requested it; a training's finished epochs are kept.
    """
    root, monitor = Path(root), monitor or Monitor()
    if result := read_result(root, unit.key()):
        return result
    # Do not wait: there is other work to do.
    with noted(unit.folder(root), monitor, f"the unit {unit.key()}", patience=0) as monitor:
        if result := read_result(root, unit.key()):  # by another process, meanwhile
            return result
        load(unit.source.data_set, "test")  # what is missing now is no reason to refuse for ever
        refusal = None
        for needed in unit.needs():
            monitor.check()
            refusal = refusal or work(needed, root, monitor, device).refusal
        start = time.perf_counter()
        facts: dict[str, Any] = {"refusal": refusal}
        times: dict[str, float] = {"seconds": 0.0}
        if refusal is None:
            try:
                facts, times = _facts(unit, root, monitor, device)
            except ValueError as error:
                # A fusion is refused because of its inputs, so that it would be again, or for a missing package.
                if isinstance(error, files.Locked | Missing) or not isinstance(unit, Fusion):
                    raise
                facts = {"refusal": str(error)}
        metrics = facts.pop("metrics", {}) | {"all_seconds": time.perf_counter() - start} | times
        result = Result(
            unit.key(),
            unit.to_json(),
            title(unit),
            unit.command(root.name),
            metrics=metrics,
            machine=machine(device),
            **facts,
        )
        write_result(root, result)
        return result


def _facts(unit: Unit, root: Path, monitor: Monitor, device: str) -> tuple[dict[str, Any], dict[str, float]]:
    """A unit's measurements, and its times, see `_network`."""
    if isinstance(unit, Clustering):
        _provide_parents(unit.needs(), root, monitor, device)
        picked = devices.pick(device)
        return {"metrics": clustering(unit.config(root), unit.level, unit.seeds, monitor, picked)}, {"seconds": 0.0}
    if isinstance(unit, LossLandscape):
        _provide_parents(unit.fusion.needs(), root, monitor, device)
        parents = [load_model(file)[0] for file in unit.source.files(root)]
        networks = networks_of(parents, _start(unit.fusion, root, monitor, device))
        test = load(unit.source.data_set, "test")
        plan = unit.landscape.plan(networks, ("parent 0", "parent 1", "fused"), test, device=device)
        *_, survey = unit.landscape.run(plan, monitor)
        return {"metrics": {"landscape": survey.to_json()}}, {"seconds": 0.0}
    network, times = _network(unit, root, monitor, device)
    return _measurements(unit, network, root, monitor, device), times


def title(unit: Unit) -> str:
    """A unit and its parents in a few words."""
    training = unit.source.recipe
    parents = f"{training.data} {training.split}, {training.parts} parts, seed {training.seed}"
    return f"{_short_title(unit)} ({parents})"


def _short_title(unit: Unit) -> str:
    """A unit in a few words, without its parents."""
    if isinstance(unit, Parent):
        return f"parent {unit.index}"
    if isinstance(unit, Fusion):
        usual = {"fusion_from": None, "samples": runs.RunConfig.samples, "augment": runs.RunConfig.augment}
        now = {name: getattr(unit.run, name) for name in usual}
        changed = [f"{name}={value}" for name, value in now.items() if value != usual[name]]
        return ", ".join([comparison.title(unit.run), *changed, f"seed {unit.run.seed}"])
    if isinstance(unit, Clustering):
        return f"clustering of level {unit.level}"
    if isinstance(unit, LossLandscape):
        return f"landscape of {_short_title(unit.fusion)}"
    if isinstance(unit, TunedEnsemble):
        return "ensemble of fine-tuned parents"
    assert isinstance(unit, FineTuning)
    return f"fine-tuning of {_short_title(unit.start)}"


def _network(unit: Unit, root: Path, monitor: Monitor, device: str) -> tuple[nn.Module, dict[str, float]]:
    """The unit's network, with the "seconds" of its fusion or training, and the "processor_seconds" of a fusion."""
    if isinstance(unit, Parent):
        return _parent(unit, root, monitor, device)
    if isinstance(unit, Fusion):
        return _fused_network(unit, root, monitor, device)
    if isinstance(unit, TunedEnsemble):
        networks = [_tuned_network(member, root, monitor, device)[0] for member in unit.members]
        example = load(unit.source.data_set, "train").inputs([0])
        return METHODS["Ensemble"](networks, example).model, {"seconds": 0.0}
    assert isinstance(unit, FineTuning)
    return _tuned_network(unit, root, monitor, device)


def _parent(unit: Parent, root: Path, monitor: Monitor, device: str) -> tuple[nn.Module, dict[str, float]]:
    start = time.perf_counter()
    _provide_parents([unit], root, monitor, device)
    return load_model(unit.source.files(root)[unit.index])[0], {"seconds": time.perf_counter() - start}


def _provide_parents(units: Iterable[Unit], root: Path, monitor: Monitor, device: str) -> None:
    """Train those parents among the units whose files are missing."""
    for parent in units:
        if isinstance(parent, Parent):
            training = parent.source.recipe
            needed = (parent.source.files(root)[parent.index], parent.source.splits(root))
            if not all(Path(file).exists() for file in needed if file is not None):
                config = dataclasses.replace(training, device=device)
                # Takes over existing checkpoints that this training would give.
                train_parents(
                    config, root / training.folder, only=parent.index, resume=True, test=False, monitor=monitor
                )


def _fused_network(unit: Fusion, root: Path, monitor: Monitor, device: str) -> tuple[nn.Module, dict[str, float]]:
    _provide_parents(unit.needs(), root, monitor, device)
    config = dataclasses.replace(unit.config(root), device=device)
    result, _ = runs.execute(config, None, monitor)
    if (spec := getattr(result.model, "spec", None)) and spec["architecture"] not in COMPOSITES:
        images = load(config.data, "train")
        save_model(result.model, unit.network(root), **runs.checkpoint_metadata(config, images))
    times = {"seconds": result.seconds, "processor_seconds": result.processor_seconds}
    return result.model, {name: seconds for name, seconds in times.items() if seconds is not None}


def _tuned_network(unit: FineTuning, root: Path, monitor: Monitor, device: str) -> tuple[nn.Module, dict[str, float]]:
    network = _start(unit.start, root, monitor, device)
    start = time.perf_counter()
    images = load(unit.source.data_set, "train")
    config = FinetuneConfig(epochs=unit.epochs, learning_rate=unit.learning_rate, augment=unit.source.recipe.augment)
    settings = settings_of("finetune", images, network.spec["architecture"], 1, config)
    # The name depends on the initial weights, so that no fine-tuning of other weights is taken over.
    file = unit.network(root)
    file = file.with_stem(f"{file.stem}-{digest_of_tensors(network.state_dict())}")
    ways = {"size": None, "seed": unit.seed, "device": device, "resume": True, "monitor": monitor}
    network = finetuned(file, network, images, settings, unit.start.key(), **ways)[0]
    return network, {"seconds": time.perf_counter() - start}


def _start(unit: Unit, root: Path, monitor: Monitor, device: str) -> Any:
    """The network that a fine-tuning starts from; made again if its file is missing or damaged."""
    if not isinstance(unit, Parent):
        with suppress(ValueError):
            return load_model(unit.network(root))[0]
    return _network(unit, root, monitor, device)[0]


def _measurements(unit: Unit, network: nn.Module, root: Path, monitor: Monitor, device: str) -> dict[str, Any]:
    """A network's metrics and correctly classified images, on the unit's test images; per_part if there are splits."""
    test, splits = load(unit.source.data_set, "test"), unit.source.splits(root)
    rows = torch.arange(len(test))
    if unit.test_images is not None and unit.test_images < len(test):
        rows = balanced(test.labels, unit.test_images)
    network = on_device(network, device)
    metrics = evaluate(network, test, rows=rows, monitor=monitor)
    correct = torch.from_numpy(from_bits(metrics.pop("knows"), len(rows)))
    metrics["operations"] = leaderboard.operations(network, test.inputs(rows[:1]).to(devices.of(network)))
    hits = []
    if splits is not None and Path(splits).exists():
        train = load(unit.source.data_set, "train")
        parts = read_splits(splits, unit.source.files(root), len(train))
        hits = [correct[torch.isin(test.labels[rows], train.labels[part].unique())] for part in parts]
    metrics["per_part"] = [100 * hit.double().mean().item() if len(hit) else None for hit in hits]
    return {"metrics": metrics, "correct": packed_bits(correct.numpy())}


def machine(device: str = "auto") -> dict[str, Any]:
    """The machine of a measurement: processor or GPU, threads, versions, commit."""
    picked = devices.pick(device)
    return {
        "device": torch.cuda.get_device_name(picked) if picked.type == "cuda" else processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "retrofit": library_version(),
        "commit": commit(),
    }


@cache
def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), platform.processor())


@cache
def commit() -> str | None:
    """The commit of a checkout; None for an installed package."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
