"""Work in several processes: with joblib on this machine, or where the caller's `joblib.parallel_config` says."""

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, chdir, suppress
from pathlib import Path
from typing import Any, TypeVar

import torch

from ..data import VARIABLE
from ..system import files

T = TypeVar("T")


def spread(
    tasks: Sequence[Callable[[str], T]], root: str | Path, *, jobs: int, device: str
) -> Iterator[tuple[int, T | str]]:
    """Do tasks with joblib; yields index and result of each as it finishes.

    Args:
        tasks: functions of a device.
        root: the folder that they write to.
        jobs: number of processes; above 1, a cluster uses all its workers, which see `root` and the current folder under the
            same paths.
        device: "auto" gives each process its own GPU if there are any.
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
            held.enter_context(files.locked(root, name=name, patience=0))
            return f"cuda:{index}"
    return "auto"
