"""Measure cells: train, fuse and fine-tune what is missing, and add the numbers to the tables of a runs folder."""

import dataclasses
import datetime
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..data import load
from ..data.sampling import balanced
from ..data.splits import read_splits
from ..inspection.landscape import Landscape, networks_of
from ..methods import METHODS
from ..networks.checkpoints import load_model
from ..runs.answers import from_bits
from ..runs.config import RunConfig
from ..runs.execute import execute
from ..runs.finetunings import FinetuneConfig
from ..runs.grid import grid
from ..runs.leaderboard import operations
from ..runs.parents import train_parents
from ..runs.record import record_folder
from ..system import device as devices
from ..system import files
from ..system.device import on_device
from ..system.extras import Missing, library_version
from ..system.files import key_of
from ..system.monitor import Monitor
from ..training.evaluation import evaluate
from ..training.files import finetuned_network, settings_of
from ..training.state import digest
from .clustering import clustering
from .configs import Cell
from .reproduction import badge_of
from .results import FOLDER, Result, add, results_of, share_below
from .rows import OTHER_PARENT_FIRST, read_row
from .tables import BETWEEN_SEEDS, END_TO_END, LANDSCAPE_FUSED, NEARLY, NETWORK_NAMES, PATHS, TABLES, TINY_FULL

#: Of the landscape; the paper clips the loss in its figure, and does not state resolution and images.
CLIP = 4.6
OnResult = Any  # of (cells, their results or why they failed)


def missing(cells: Iterable[Cell], root: str | Path, others: Sequence[str | Path] = ()) -> list[Cell]:
    """The cells without results in a runs folder and in `others`."""
    known = {
        table: {result.place for result in results_of(table, root, others)} for table in {cell.table for cell in cells}
    }
    return [cell for cell in cells if _place(cell) not in known[cell.table]]


def _place(cell: Cell) -> tuple[Any, ...]:
    return cell.column, cell.row, badge_of(cell.of, cell.scale), cell.parents, cell.seed


def pieces(cells: Iterable[Cell]) -> list[list[Cell]]:
    """The cells that one piece of work measures: single networks; a landscape, clusterings or times as a whole."""
    by_piece: dict[Any, list[Cell]] = {}
    for cell in cells:
        whole = TABLES[cell.table].kind != "networks"
        by_piece.setdefault((cell.table, cell.parents, cell.seed) if whole else cell, []).append(cell)
    return list(by_piece.values())


def run(
    cells: Iterable[Cell],
    root: str | Path,
    *,
    jobs: int = 1,
    monitor: Monitor | None = None,
    device: str = "auto",
    on_result: OnResult = lambda cells, results: None,
) -> list[tuple[Cell, str]]:
    """Measure cells, after their parents.

    Args:
        jobs, device, monitor: see `runs.grid`.
        on_result: called with the cells of each piece of work and their results, or why it failed.
    Returns:
        The cells that failed, and why.
    Raises:
        Cancelled: the monitor requested it.
        ValueError: a process died.
    """
    root, failed = Path(root).absolute(), list[tuple[Cell, str]]()
    todo, ways = pieces(cells), {"jobs": jobs, "device": device, "monitor": monitor}
    first = {(cell.training, index): cell for piece in todo for cell in piece for index in range(cell.of.parts)}
    for _ in grid([partial(_train, cell, index, root) for (_, index), cell in first.items()], root, **ways):
        pass  # what failed is tried again by the cells that need it, which then say why
    for _, same in groupby(sorted(todo, key=_stage), _stage):
        wave = list(same)
        for index, results in grid([partial(measure, piece, root) for piece in wave], root, **ways):
            failed += [(cell, results) for cell in wave[index] if isinstance(results, str)]
            on_result(wave[index], results)
    return failed


def _stage(piece: Sequence[Cell]) -> int:
    """Fine-tunings start from networks of other cells, and an ensemble of them comes last."""
    return 0 if not piece[0].of.tuned else 1 + (piece[0].row == "Ensemble")


class Refused(Exception):
    """Why a method does not apply."""


def measure(cells: Sequence[Cell], root: Path, monitor: Monitor, device: str) -> list[Result]:
    """Measure the cells of one piece of work, and add their results to the runs folder; the refusal if a method refuses.

    Raises:
        files.Locked: another process works on what it needs.
        ValueError: a file or data set is missing or cannot be read, or a training is impossible.
        Cancelled: the monitor requested it; a training's finished epochs are kept.
    """
    table, start = cells[0].table, time.perf_counter()
    monitor.emit("phase", name=str(cells[0]), unit=True)
    load(cells[0].training.data, "test")  # what is missing now is no reason to refuse for ever
    try:
        facts = MEASURES[TABLES[table].kind](cells, root, monitor, device)
    except Refused as error:
        facts = [{"refusal": str(error)}] * len(cells)
    same = {
        "machine": ", ".join(f"{name} {value}" for name, value in machine(device).items() if value),
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        "seconds": round(time.perf_counter() - start, 6),
    }
    results = [Result(*_place(cell), **(same | each)) for cell, each in zip(cells, facts, strict=True)]
    add(root, table, results)
    return results


def _train(cell: Cell, index: int, root: Path, monitor: Monitor, device: str) -> None:
    """Train a parent if its file is missing."""
    training = cell.training
    folder = root / training.folder
    if not all(Path(file).exists() for file in (training.files(folder)[index], training.splits(folder))):
        # Takes over existing checkpoints that this training would give.
        config = dataclasses.replace(training, device=device)
        train_parents(config, folder, only=index, resume=True, test=False, monitor=monitor)


def _files(cell: Cell, root: Path, monitor: Monitor, device: str) -> tuple[str, ...]:
    """The parents' checkpoints, trained if they are missing."""
    for index in range(cell.of.parts):
        _train(cell, index, root, monitor, device)
    return cell.training.files(root / cell.training.folder)


def _config(cell: Cell, root: Path, monitor: Monitor, device: str, row: str | None = None) -> RunConfig:
    """A fusion's config with the parents' files."""
    training, found = cell.training, _files(cell, root, monitor, device)
    found = found[::-1] if OTHER_PARENT_FIRST in read_row(row or cell.row).changes else found
    splits = training.splits(root / training.folder)
    return dataclasses.replace(cell.fusion(row), models=found, splits=splits, data=training.data, device=device)


def _fused(config: RunConfig, root: Path, monitor: Monitor, record: bool = True) -> Any:
    """The result of a fusion, which is kept as a record."""
    try:
        return execute(config, record_folder(root / FOLDER, config) if record else None, monitor)[0]
    except ValueError as error:
        # Refused because of its inputs, so that it would be again; or busy, or for a missing package.
        if isinstance(error, files.Locked | Missing):
            raise
        raise Refused(str(error)) from error


def _tuned(cell: Cell, network: nn.Module, root: Path, monitor: Monitor, device: str) -> nn.Module:
    """A network fine-tuned on the data of all parents."""
    epochs, training = cell.reduced.finetune_epochs, cell.training
    images = load(training.data, "train")
    config = FinetuneConfig(epochs=epochs, learning_rate=cell.of.learning_rate, augment=training.augment)
    settings = settings_of("finetune", images, network.spec["architecture"], 1, config)  # type: ignore[index]
    # By its weights, so that no fine-tuning of other ones is taken over.
    file = root / FOLDER / f"finetuned-{key_of([settings, digest(network.state_dict())])}.safetensors"
    ways = {"size": None, "seed": 0, "device": device, "resume": True, "monitor": monitor}
    return finetuned_network(file, network, images, settings, "a network of a table", **ways)[0]


def _networks(cells: Sequence[Cell], root: Path, monitor: Monitor, device: str) -> list[dict[str, Any]]:
    """One network, fine-tuned if the column says so, measured on the test images."""
    (cell,) = cells
    column, row = cell.of, read_row(cell.row)
    parents = [load_model(file)[0] for file in _files(cell, root, monitor, device)]
    times: dict[str, float | None] = {}
    if row.parent is not None:
        network = parents[row.parent]
    elif column.tuned and row.method == "Ensemble":
        tuned = [_tuned(cell, parent, root, monitor, device) for parent in parents]
        network = METHODS["Ensemble"](tuned, load(cell.training.data, "train").inputs([0])).model
    else:
        # A record does not keep the processor's seconds.
        result = _fused(
            _config(cell, root, monitor, device), root, monitor, record=not column.metric.endswith("seconds")
        )
        network, times = result.model, {"seconds": result.seconds, "processor_seconds": result.processor_seconds}
    start = time.perf_counter()
    if column.tuned and row.method != "Ensemble":
        network = _tuned(cell, network, root, monitor, device)
        times["seconds"] = time.perf_counter() - start
    test, splits = load(cell.training.data, "test"), cell.training.splits(root / cell.training.folder)
    rows, most = torch.arange(len(test)), cell.reduced.test_images
    if most is not None and most < len(test):
        rows = balanced(test.labels, most)
    network = on_device(network, device)
    facts: dict[str, Any] = {"images": len(rows)}
    if times.get("seconds") is not None:
        facts["seconds"] = times["seconds"]
    if column.metric in times:
        return [facts | {"value": times[column.metric]}]
    if column.metric == "operations":
        example = test.inputs(rows[:1])
        of_parent = operations(on_device(parents[0], device), example)
        return [facts | {"value": operations(network, example) / of_parent}]
    scores = evaluate(network, test, rows=rows, monitor=monitor)
    if column.metric == "accuracy":
        measured = {"value": scores["accuracy"], "bits": scores["knows"]}
        return [facts | measured | {"metrics": {"per_class": scores["per_class"]}}]
    train = load(cell.training.data, "train")
    part = read_splits(splits, cell.training.files(root / cell.training.folder), len(train))[
        int(column.metric.split()[1])
    ]
    of_part = torch.isin(test.labels[rows], train.labels[part].unique()).numpy()
    return [facts | {"value": 100 * float(from_bits(scores["knows"], len(rows))[of_part].mean())}]


def _landscape(cells: Sequence[Cell], root: Path, monitor: Monitor, device: str) -> list[dict[str, Any]]:
    """The loss on the plane through two parents and their fused network, at, around and between them."""
    cell = cells[0]
    fused = _fused(_config(cell, root, monitor, device, LANDSCAPE_FUSED), root, monitor).model
    networks = networks_of([load_model(file)[0] for file in _files(cell, root, monitor, device)], fused)
    landscape = Landscape(images=min(Landscape.images, cell.reduced.test_images or Landscape.images), clip=CLIP)
    test = load(cell.training.data, "test")
    *_, survey = landscape.run(
        landscape.plan(networks, ("parent 0", "parent 1", "fused"), test, device=device), monitor
    )
    whole = survey.to_json()
    numbers: dict[tuple[str, Any], float] = {
        **{("barrier", (path["first"], path["last"])): path["barrier"] for path in whole["paths"]},
        **{("rise", rise["name"]): rise["mean"] for rise in whole["rises"]},
        **{(name, each["name"]): each[name] for each in whole["markers"] for name in ("loss", "accuracy")},
    }
    values = [numbers[each.column, (PATHS | NETWORK_NAMES)[each.row]] for each in cells]
    drawn = [(each.column, each.row) == ("loss", LANDSCAPE_FUSED) for each in cells]
    return [
        {"value": value, **({"metrics": {"landscape": whole}} if first else {})}
        for value, first in zip(values, drawn, strict=True)
    ]


def _clustering(cells: Sequence[Cell], root: Path, monitor: Monitor, device: str) -> list[dict[str, Any]]:
    """Agreement of clusterings of the third convolution, and the share of scores near zero."""
    config = dataclasses.replace(
        _config(cells[0], root, monitor, device, "KF-Linear, conductance"),
        samples=200,
        importance_samples=RunConfig.importance_samples,
    )
    found = clustering(config, 2, 5, monitor, devices.pick(device))
    facts, drawn = [], set()
    for cell in cells:
        if cell.of.metric == "rand":
            pair = {cell.column, cell.column if cell.row == BETWEEN_SEEDS else "uniform"}
            value = next(each["mean"] for each in found["agreement"] if {each["first"], each["second"]} == pair)
        else:
            value = share_below(found["histograms"][cell.column], float(NEARLY))
        facts.append({"value": value, "metrics": {} if cell.column in drawn else found})
        drawn.add(cell.column)
    return facts


def _times(cells: Sequence[Cell], root: Path, monitor: Monitor, device: str) -> list[dict[str, Any]]:
    """Seconds of a fusion, of its fine-tuning, and of both; what a row leaves out does not count."""
    tuning = dataclasses.replace(cells[0], table="vit-full-tiny-imagenet", column=TINY_FULL[1].name)
    fused = _fused(_config(cells[0], root, monitor, device, "KF-Gradient, uniform"), root, monitor)
    start = time.perf_counter()
    _tuned(tuning, fused.model, root, monitor, device)
    seconds = {"fusion": fused.seconds, "fine-tuning": time.perf_counter() - start}
    return [
        {
            "value": sum(
                seconds[part] for part in END_TO_END[cell.row] if part != "total" and cell.column in (part, "total")
            )
        }
        for cell in cells
    ]


MEASURES = {"networks": _networks, "landscape": _landscape, "clustering": _clustering, "times": _times}


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
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), platform.processor())
    return platform.processor()


@cache
def commit() -> str | None:
    """The commit of a checkout; None for an installed package."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
