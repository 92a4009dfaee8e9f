"""Run a config: its method, then the requested evaluation and analysis."""

import dataclasses
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from torch import nn

from ..baselines import average
from ..data import Images, check_images
from ..fusion.results import FusionResult
from ..inspection import analysis as analysing
from ..methods import METHODS
from ..system.device import on_device
from ..system.monitor import Cancelled, Monitor
from ..system.runtime import Runtime
from ..training.evaluation import evaluate, evaluate_parents
from .config import RunConfig
from .finished import unchanged
from .inputs import check_choices, read_images, read_inputs, train_missing
from .record import create, read_run, recording, seal_analysis
from .store import noted


def execute(
    config: RunConfig,
    folder: str | Path | None = None,
    monitor: Monitor | None = None,
    references: dict[str, Any] | None = None,
) -> tuple[FusionResult, dict[str, Any]]:
    """Run a config; with a folder, write its record, or read that of the same finished run.

    Trains missing parents first if their folder has a training.json.

    Args:
        references: of other runs with the same parents and data, see `measured_references`.
    Returns:
        The result, and the metrics of `measure` (empty without `config.evaluate`).
    Raises:
        NotAllowed: the networks are user code that this process's user did not name (`user_code.allow`).
        ValueError: the config cannot be run, or the folder holds another run.
        Cancelled: on request; parents that were trained for the run stay.
    """
    if config.analyse and folder is None:
        raise ValueError(
            "an analysis is saved in the run's record: name the record's folder (--record), or omit the analysis."
        )
    if folder is None or not (Path(folder) / "config.json").exists():
        check_choices(config)  # before creating a record
    else:
        run = None
        with suppress(ValueError):  # a damaged record is written again
            run = read_run(folder)
        if run is not None and run.state == "done":
            create(run.folder, config)  # which refuses other work
            return FusionResult.load(folder), run.metrics
    with recording(Path(folder), config, monitor) if folder is not None else nullcontext() as recorder:
        watcher = recorder.monitor if recorder else (monitor or Monitor())
        check_choices(config)
        train_missing(config, watcher)
        inputs = read_inputs(config)
        test = test_images(config, required=True) if config.evaluate else None
        if test is not None:
            check_images(test, monitor=watcher)  # refuse damaged images before the fusion
        if recorder:
            recorder.inputs_are_read()
        method = METHODS[config.method]
        keywords = inputs.keywords(config) | {"monitor": watcher}
        result = method(inputs.models, inputs.fusion, **keywords)
        metrics = {}
        if test is not None:
            metrics = measure(inputs.models, result.model, test, watcher, config.device, references)
        if recorder:
            recorder.finish(result, metrics, checkpoint_metadata(config, inputs.train))
    if config.analyse and folder is not None:
        # The finished fusion stays; the record's notes say why it has no analysis.
        with suppress(ValueError, Cancelled, KeyboardInterrupt):
            analyse_record(folder, monitor)
    return result, metrics


def test_images(config: RunConfig, *, required: bool) -> Images | None:
    """The test split; None if there is none and it is not required."""
    try:
        return read_images(config, "test")
    except ValueError:
        if required:
            raise
        return None


def analyse_record(folder: str | Path, monitor: Monitor | None = None) -> analysing.Analysis:
    """Add an analysis to a finished record, replacing an older one.

    File names in its config are relative to the current folder. Meanwhile, analysing.json in the record shows the progress,
    and a file `cancel` there stops the analysis.

    Raises:
        NotAllowed: the run's networks are user code that this process's user did not name.
        ValueError: the run is not finished, or one of its files is missing or has changed.
        Cancelled: on request; the record stays as it was.
    """
    if read_run(folder).state != "done":  # without its lock, which a run that is going on holds
        unchanged(folder)
    with noted(Path(folder), monitor or Monitor()) as watcher:
        run = unchanged(folder)
        config = dataclasses.replace(run.config, analyse=True)
        inputs = read_inputs(config)
        analysis = analysing.analyse(
            inputs.models,
            FusionResult.load(folder),
            inputs.fusion,
            importance_data=inputs.importance,
            test=test_images(config, required=False),
            runtime=Runtime(device=config.device, monitor=watcher),
        )
        seal_analysis(run.folder, run.status, analysis)
    return analysis


def checkpoint_metadata(config: RunConfig, images: Images) -> dict[str, Any]:
    """Metadata of a fused checkpoint: class names, normalisation, data set and recipe."""
    return {
        "classes": list(images.classes),
        "mean": list(images.mean),
        "std": list(images.std),
        "data": images.name,
        **({"size": config.size} if config.size else {}),
        "recipe": {**config.to_json(), "models": [Path(path).name for path in config.models]},
    }


def measure(
    models: Sequence[nn.Module],
    fused: nn.Module,
    test: Images,
    monitor: Monitor,
    device: str = "cpu",
    references: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Accuracy, per class, loss and calibration of parents, ensemble, vanilla average and fused network on images.

    Args:
        device: where to measure copies; the networks themselves are not moved.
        references: of an earlier call with the same parents and images, see `measured_references`.
    """
    networks = dict(references or measured_references(models, test, device, monitor))
    monitor.emit("phase", name="evaluate", network="fused")
    networks["fused"] = evaluate(on_device(fused, device), test, monitor=monitor)
    return {"networks": networks, "classes": list(test.classes), "data": test.name}


def measured_references(
    models: Sequence[nn.Module], test: Images, device: str, monitor: Monitor
) -> dict[str, dict[str, Any]]:
    """What `measure` gives for the networks that do not depend on the method: parents, ensemble, average."""
    monitor.emit("phase", name="evaluate", network="parents")
    networks = evaluate_parents(models, test, device=device, monitor=monitor)
    with suppress(ValueError):  # different widths have no plain average
        networks["average"] = evaluate(on_device(average(models), device), test, monitor=monitor)
    return networks
