"""Units of a second altogether, and a runner of them in a process of its own that may be killed at any moment."""

import dataclasses
import multiprocessing
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

from retrofit_core.experiments import work as working
from retrofit_core.experiments.cells import Cell
from retrofit_core.experiments.results import Result, measured_in
from retrofit_core.experiments.runner import plan, run
from retrofit_core.experiments.units import FineTuning, Fusion, ParentSource, Unit
from retrofit_core.runs import RunConfig
from retrofit_core.training.config import TrainConfig

MLP = '{"architecture": "mlp", "sizes": [64, 8, 6, 10]}'
SOURCE = ParentSource(TrainConfig(data="digits", arch=(MLP,), split="sharded", parts=2, recipe="small", epochs=2))
LOG = "log"


def fusion(method: str = "KF-Linear", source: ParentSource = SOURCE, **changes: Any) -> Fusion:
    config = RunConfig(models=(), method=method, samples=40, importance_samples=40, **changes)
    return Fusion(source, config, 100)


def cell(*units: Unit) -> Cell:
    return Cell(units, ("accuracy",))


UNITS = (
    fusion("Average"),
    fusion(),
    fusion(importance="conductance"),
    fusion("HF-Linear", seed=1),
    FineTuning(fusion(), 1),
)
"""With two parents: seven"""


def carry_out(root: Path, units: Iterable[Unit] = UNITS, **options: Any) -> SimpleNamespace:
    """Run what is missing of some units, one after another; how many are done, and which failed."""
    todo = missing(units, root)
    failed = run(todo, root, device="cpu", **options)
    return SimpleNamespace(done=len(todo) - len(failed), failed=failed)


def missing(units: Iterable[Unit], root: Path) -> list[Unit]:
    """The units without results, after what they need."""
    return [unit for unit, result in plan([cell(unit) for unit in units], root) if result is None]


def numbers(results: Iterable[Result]) -> dict[str, Any]:
    """By key, everything in results but when, where and how fast."""
    return {result.key: _lasting(result) for result in results}


def _lasting(result: Result) -> dict[str, Any]:
    facts = dataclasses.asdict(result)
    del facts["machine"], facts["finished"]
    facts["metrics"] = {name: value for name, value in result.metrics.items() if not name.endswith("seconds")}
    return facts


def all_numbers(root: Path) -> dict[str, Any]:
    return numbers(measured_in(root).results.values())


@contextmanager
def logged(root: Path):
    """Note in a file, which kills do not harm, who began which unit's network and who wrote which unit's result."""
    make, write = working._network, working.write_result

    def note(words: str) -> None:
        with (root / LOG).open("a") as file:
            file.write(f"{os.getpid()} {words}\n")

    def noted_network(unit: Unit, *rest: Any) -> Any:
        note(f"begun {unit.key()}")
        return make(unit, *rest)

    def noted_result(folder: Path, result: Result) -> None:
        write(folder, result)
        note(f"written {result.key}")

    with patch.object(working, "_network", noted_network), patch.object(working, "write_result", noted_result):
        yield


def read_log(root: Path) -> list[tuple[str, str, str]]:
    """(process, begun or written, unit) in order."""
    path = root / LOG
    lines = path.read_text().splitlines() if path.exists() else []
    return [tuple(line.split()) for line in lines]  # type: ignore[misc]


def _runner(root: Path, units: Sequence[Unit], ready: Any, go: Any) -> None:
    torch.set_num_threads(1)
    ready.set()
    go.wait()
    with logged(root):
        carry_out(root, units)


def started(root: Path, units: Sequence[Unit] = UNITS) -> tuple[BaseProcess, Callable[[], None]]:
    """A runner in a process of its own that waits for its start, and the function that starts it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", "tests.experiments.warm"])
    ready, go = context.Event(), context.Event()
    process = context.Process(target=_runner, args=(root, units, ready, go), daemon=True)
    process.start()
    assert ready.wait(120), f"no runner: exit code {process.exitcode}"
    return process, go.set
