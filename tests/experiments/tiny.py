"""Cells of seconds altogether, and a runner of them in a process of its own that may be killed at any moment."""

import dataclasses
import multiprocessing
from collections.abc import Callable, Iterable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from retrofit_core.experiments.configs import Cell
from retrofit_core.experiments.results import results_of
from retrofit_core.experiments.work import missing, run

TABLE = "vgg11-full"


def cell(row: str, column: str = "2-way zero-shot", **names: Any) -> Cell:
    return Cell(TABLE, column, row, "smoke", **names)


#: Of two parents.
CELLS = (
    cell("Parent 0"),
    cell("Average"),
    cell("KF-Linear, uniform"),
    cell("KF-Linear, conductance"),
    cell("HF-Linear, uniform", seed=1),
    cell("KF-Linear, uniform", "2-way fine-tuned"),
    cell("Parent 0", "2-way fine-tuned"),
    cell("Ensemble", "2-way fine-tuned"),
)
TRAINING = CELLS[0].training


def carry_out(root: Path, cells: Iterable[Cell] = CELLS, **options: Any) -> list[tuple[Cell, str]]:
    """Measure what is missing; which failed."""
    return run(missing(list(cells), root), root, device="cpu", **options)


def all_numbers(root: Path) -> dict[Any, Any]:
    """By cell, everything in results but when, where and how fast."""
    found = {}
    for result in results_of(TABLE, root):
        facts = dataclasses.asdict(result)
        found[result.place] = {name: facts[name] for name in facts if name not in ("machine", "date", "seconds")}
    return found


def _runner(root: Path, ready: Any, go: Any) -> None:
    torch.set_num_threads(1)
    ready.set()
    go.wait()
    carry_out(root)


def started(root: Path) -> tuple[BaseProcess, Callable[[], None]]:
    """A runner in a process of its own that waits for its start, and the function that starts it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", "tests.experiments.warm"])
    ready, go = context.Event(), context.Event()
    process = context.Process(target=_runner, args=(root, ready, go), daemon=True)
    process.start()
    assert ready.wait(120), f"no runner: exit code {process.exitcode}"
    return process, go.set
