"""Plan the units that tables need, each once, and run those without results: one after another, in processes, or on a cluster.

Each result is a file, written when its unit is done, so killing a run loses at most the current unit.
"""

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from ..data import VARIABLE
from ..networks import user_code
from ..runs.config import RunConfig
from ..runs.execute import execute
from ..runs.store import STATUS, UNIT, read_json
from ..system import files
from ..system.monitor import Cancelled, Monitor
from .cells import Cell
from .results import Result, read_result
from .units import Unit
from .work import title, work

OnResult = Callable[[Unit, Result | str], None]
T = TypeVar("T")


def plan(
    cells: Iterable[Cell], root: str | Path, known: Mapping[str, Result] | None = None
) -> list[tuple[Unit, Result | None]]:
    """The units of cells, each once, after the units that they need, with their results (None: to do); first seeds come first.

    Args:
        known: further results by key, which count like those of the runs folder.
    """
    units: dict[str, Unit] = {}
    for cell in cells:
        for unit in (*cell.units, *([cell.relative_to] if cell.relative_to else [])):
            for each in (*all_needs(unit), unit):
                units.setdefault(each.key(), each)
    return [(unit, read_result(root, key) or (known or {}).get(key)) for key, unit in units.items()]


def all_needs(unit: Unit) -> Iterator[Unit]:
    """The units that a unit needs, recursively, in the order of work."""
    for needed in unit.needs():
        yield from all_needs(needed)
        yield needed


def waves(units: Sequence[Unit]) -> list[list[Unit]]:
    """The units by how many others must be done before: each wave needs only earlier ones."""
    by_depth: dict[int, list[Unit]] = {}
    for unit in units:
        by_depth.setdefault(_depth(unit), []).append(unit)
    return [by_depth[depth] for depth in sorted(by_depth)]


def _depth(unit: Unit) -> int:
    return 1 + max(map(_depth, unit.needs()), default=0)


def run(
    units: Sequence[Unit],
    root: str | Path,
    *,
    jobs: int = 1,
    monitor: Monitor | None = None,
    device: str = "auto",
    on_result: OnResult | None = None,
) -> list[tuple[Unit, str]]:
    """Run missing units with joblib, wave by wave: in processes of this machine, or where the caller's `joblib.parallel_config`
    says. A cluster's workers see `root` and the current folder under the same paths.

    Args:
        units: without results, each after those that it needs.
        jobs: number of processes; above 1, a cluster uses all its workers.
        monitor: of units in this process, that is of a single job.
        device: "auto" gives each process its own GPU if there are any.
        on_result: called with each unit and its result, or why it failed.
    Returns:
        The units that failed, and why.
    Raises:
        Cancelled: the monitor requested it.
        ValueError: a process died.
    """
    own = monitor if jobs == 1 else None  # joblib then works in this process
    results: dict[str, Result | str] = {}
    for wave in waves(units):
        tasks = []
        for unit in wave:
            need = next((each for each in unit.needs() if isinstance(results.get(each.key()), str)), None)
            failed = need and f"it needs {title(need)}, which failed: {results[need.key()]}"
            tasks.append(partial(attempt, unit, Path(root).absolute(), failed=failed, monitor=own))
        for index, result in spread(tasks, root, jobs=jobs, device=device):
            results[wave[index].key()] = result
            if on_result:
                on_result(wave[index], result)
    return [(unit, result) for unit in units if isinstance(result := results[unit.key()], str)]


def attempt(unit: Unit, root: Path, device: str, *, failed: str | None, monitor: Monitor | None) -> Result | str:
    """Run a unit; returns its result, or why it failed.

    Args:
        failed: why what it needs failed.
    Raises:
        Cancelled: the monitor requested it.
    """
    if failed:
        return failed
    if monitor:
        monitor.emit("phase", name=title(unit), unit=unit.key())
    try:
        return work(unit, root, monitor, device)
    except Cancelled:
        raise
    except Exception as error:  # one unit's failure must not stop the others
        return str(error) if isinstance(error, ValueError) else repr(error)


def record_in_parallel(
    runs: Sequence[tuple[RunConfig, Path]],
    root: str | Path,
    *,
    jobs: int = 2,
    monitor: Monitor | None = None,
) -> None:
    """Make the missing records of runs with joblib. What fails or is busy is left missing, so that `execute` says why.

    Args:
        runs: with the folders of their records in `root`.
        jobs: as in `run`.
    Raises:
        Cancelled: the monitor requested it.
        ValueError: a process died.
    """
    monitor = monitor or Monitor()
    missing = [(config, folder) for config, folder in runs if read_json(folder / STATUS).get("state") != "done"]
    tasks = [partial(_record, config, folder.absolute()) for config, folder in missing]
    device = runs[0][0].device if runs else "auto"
    for count, _ in enumerate(spread(tasks, root, jobs=jobs, device=device), 1):
        monitor.emit("phase", name=f"{count} of {len(tasks)} runs are made", index=count, total=len(tasks))
        monitor.check()


def _record(config: RunConfig, folder: Path, device: str) -> None:
    if device.startswith("cuda:"):
        torch.cuda.set_device(device)  # the one that "auto" picks; the record does not name it
    with suppress(Exception):
        for arch in (config.arch, config.target):  # which the command line named
            user_code.allow(arch)
        execute(config, folder)


def spread(
    tasks: Sequence[Callable[[str], T]], root: str | Path, *, jobs: int, device: str
) -> Iterator[tuple[int, T | str]]:
    """Do tasks with joblib; yields index and result of each as it finishes.

    Args:
        tasks: functions of a device.
        root: the folder that they write to.
        jobs, device: as in `run`.
    Returns:
        A sentence in place of the result where a machine does not see the folders.
    Raises:
        ValueError: a process died.
    """
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    root = Path(root).absolute()
    root.mkdir(parents=True, exist_ok=True)
    # What a process on another machine needs besides its task.
    here: dict[str, Any] = {"root": root, "folder": Path.cwd(), "data": os.environ.get(VARIABLE)}
    calls = [delayed(_remote)(index, task, **here, device=device) for index, task in enumerate(tasks)]
    options: Any = {"return_as": "generator_unordered", "batch_size": 1}
    # Dispatch all, because workers may join a cluster later.
    results: Any = Parallel(jobs, pre_dispatch="all", **options)(calls)
    try:
        yield from results
    except TerminatedWorkerError as error:
        raise ValueError(
            f"a process died: {error!r:.300}. There may not be enough memory for so many at once. What is finished is "
            "kept: run the same command again, with fewer --jobs."
        ) from error


def _remote(
    index: int,
    task: Callable[[str], T],
    *,
    root: Path,
    folder: Path,
    data: str | None,
    device: str,
) -> tuple[int, T | str]:
    """A task in another process, maybe on another machine.

    Args:
        folder: working directory of the command, for relative file names.
        data: further folders of data sets, from the environment.
    """
    for needed in (root, folder):
        if not needed.is_dir():
            return index, f"the worker on {platform.node()} does not see {needed}: all machines must share that folder."
    if data is not None:
        os.environ[VARIABLE] = data
    with chdir(folder), ExitStack() as held:
        return index, task(_own_gpu(root, held) if device == "auto" else device)


def _own_gpu(root: Path, held: ExitStack) -> str:
    """A GPU of this machine that no other process of the run uses, while its lock is held; "auto" if there is none."""
    for index in range(torch.cuda.device_count()):
        with suppress(files.Locked):
            name = f"{platform.node()}-gpu-{index}.lock"
            held.enter_context(files.locked(root / UNIT.folder, name=name, patience=0))
            return f"cuda:{index}"
    return "auto"
