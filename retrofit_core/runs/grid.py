"""The loop of every grid of work: in this process, or with joblib in several or where `joblib.parallel_config` says."""

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, chdir, suppress
from pathlib import Path
from typing import Any, TypeVar

import torch

from ..data import VARIABLE
from ..system import files
from ..system.monitor import Cancelled, Monitor

T = TypeVar("T")
Task = Callable[[Monitor, str], T]


def grid(
    tasks: Sequence[Task[T]],
    root: str | Path = ".",
    *,
    jobs: int = 1,
    device: str = "auto",
    monitor: Monitor | None = None,
) -> Iterator[tuple[int, T | str]]:
    """Do tasks; yields index and result of each as it finishes, or the reason why it failed, which stops no other.

    Args:
        tasks: functions of a monitor and a device.
        root: the folder that they write to.
        jobs: number of processes; above 1, a cluster uses all its workers, which see `root` and the current folder under the
            same paths.
        device: "auto" gives each process its own GPU if there are any.
        monitor: of tasks in this process, that is of a single job.
    Raises:
        Cancelled: the monitor requested it.
        ValueError: a process died.
    """
    monitor = monitor or Monitor()
    if jobs == 1:
        for index, task in enumerate(tasks):
            monitor.check()
            yield index, _result(task, monitor, device)
        return
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    root = Path(root).absolute()
    root.mkdir(parents=True, exist_ok=True)
    # What a process on another machine needs besides its task.
    here: dict[str, Any] = {"root": root, "folder": Path.cwd(), "data": os.environ.get(VARIABLE), "device": device}
    options: Any = {"return_as": "generator_unordered", "batch_size": 1}
    # Dispatch all, because workers may join a cluster later.
    pool: Any = Parallel(jobs, pre_dispatch="all", **options)
    try:
        for each in pool(delayed(_remote)(index, task, **here) for index, task in enumerate(tasks)):
            monitor.check()
            yield each
    except TerminatedWorkerError as error:
        raise ValueError(
            f"a process died: {error!r:.300}. There may not be enough memory for so many at once. What is finished is "
            "kept: run the same command again, with fewer --jobs."
        ) from error


def _result(task: Task[T], monitor: Monitor, device: str) -> T | str:
    """What a task gives, or why it failed."""
    try:
        return task(monitor, device)
    except Cancelled:
        raise
    except ValueError as error:
        return str(error)
    except Exception as error:  # one bug must not waste hours of others
        return f"failed: {type(error).__name__}: {error}"


def _remote(
    index: int, task: Task[T], *, root: Path, folder: Path, data: str | None, device: str
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
        return index, _result(task, Monitor(), _own_gpu(root, held) if device == "auto" else device)


def _own_gpu(root: Path, held: ExitStack) -> str:
    """A GPU of this machine that no other process of the run uses, while its lock is held; "auto" if there is none."""
    for index in range(torch.cuda.device_count()):
        with suppress(files.Locked):
            name = f"{platform.node()}-gpu-{index}.lock"
            held.enter_context(files.locked(root, name=name, patience=0))
            return f"cuda:{index}"
    return "auto"
