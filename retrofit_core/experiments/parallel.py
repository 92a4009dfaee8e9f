"""Run missing units in processes of this machine or on a cluster, with joblib."""

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from ..data import VARIABLE
from ..runs.config import RunConfig
from ..runs.execute import execute
from ..runs.store import STATUS, UNIT, read_json
from ..system import files
from ..system.extras import require
from ..system.monitor import Monitor
from .results import Result
from .runner import OnResult, Outcome, Skip, attempt, until_done
from .units import Clustering, FineTuning, Fusion, LossLandscape, Parent, Unit

T = TypeVar("T")
#: Number of crashes of the process pool after which a run gives up.
LOSSES = 3
#: Seconds to wait for a cluster's first worker.
PATIENCE = 60
#: The order of waves: units need only units of earlier kinds.
KINDS = (Parent, Fusion | Clustering, FineTuning | LossLandscape)


def run_in_parallel(
    units: Sequence[Unit],
    root: str | Path,
    *,
    jobs: int = 2,
    backend: str = "loky",
    scheduler: str | None = None,
    device: str = "auto",
    deadline: float | None = None,
    on_result: OnResult | None = None,
) -> Outcome:
    """Run missing units with joblib: all trainings, then all fusions, then all fine-tunings.

    Args:
        jobs: number of processes on this machine; a cluster uses all its workers.
        backend: "loky" (processes of this machine) or "dask".
        scheduler: address of a Dask scheduler, whose workers see `root` and the current folder under the same paths.
        device, deadline, on_result: as in `run`; "auto" gives each process its own GPU if there are any.
    Raises:
        ValueError: an unknown backend, Dask without a scheduler or workers, the package is missing, or processes died
            repeatedly.
    """
    losses = 0

    def carry_out(wave: Sequence[Unit]) -> Iterator[tuple[int, Result | str | Skip]]:
        nonlocal losses
        left = set(range(len(wave)))
        tasks = [partial(attempt, unit, Path(root).absolute(), deadline=deadline) for unit in wave]
        try:
            for index, result in spread(tasks, root, jobs=jobs, backend=backend, device=device):
                left.remove(index)
                yield index, result
        except Exception as error:  # processes were killed; `attempt` reports the units' errors
            losses += 1
            if losses >= LOSSES:
                raise ValueError(
                    f"processes died {losses} times, most recently with {error!r:.300}. There may not be enough "
                    "memory for so many at once. Results so far are kept; run the same command to continue."
                ) from error
        yield from ((index, Skip.BUSY) for index in left)

    def waves(waiting: Sequence[Unit]) -> list[list[Unit]]:
        return [[unit for unit in waiting if isinstance(unit, kinds)] for kinds in KINDS]

    with parallel_backend(backend, scheduler):
        return until_done(units, waves, carry_out, on_result)


def record_in_parallel(
    runs: Sequence[tuple[RunConfig, Path]],
    root: str | Path,
    *,
    jobs: int = 2,
    backend: str = "loky",
    scheduler: str | None = None,
    monitor: Monitor | None = None,
) -> None:
    """Make the missing records of runs with joblib. What fails or is busy is left missing, so that `execute` says why.

    Args:
        runs: with the folders of their records in `root`.
        jobs, backend, scheduler: as in `run_in_parallel`, which says what raises.
    Raises:
        Cancelled: the monitor requested it; finished levels are kept.
    """
    monitor = monitor or Monitor()
    missing = [(config, folder) for config, folder in runs if read_json(folder / STATUS).get("state") != "done"]
    tasks = [partial(_record, config, folder.absolute()) for config, folder in missing]
    device = runs[0][0].device if runs else "auto"
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    with (
        parallel_backend(backend, scheduler),
        suppress(TerminatedWorkerError),
    ):  # perhaps there was no memory for so many
        for count, _ in enumerate(spread(tasks, root, jobs=jobs, backend=backend, device=device), 1):
            monitor.emit("phase", name=f"{count} of {len(tasks)} runs are made", index=count, total=len(tasks))
            monitor.check()


def _record(config: RunConfig, folder: Path, device: str) -> None:
    if device.startswith("cuda:"):
        torch.cuda.set_device(device)  # the one that "auto" picks; the record does not name it
    with suppress(Exception):
        execute(config, folder)


def spread(
    tasks: Sequence[Callable[[str], T]], root: str | Path, *, jobs: int, backend: str, device: str
) -> Iterator[tuple[int, T | str]]:
    """Do tasks in processes, within `parallel_backend`; yields index and result of each as it finishes.

    Args:
        tasks: functions of a device.
        root: the folder that they write to.
        jobs, backend, device: as in `run_in_parallel`.
    Returns:
        A sentence in place of the result where a machine does not see the folders.
    """
    from joblib import Parallel, delayed

    root = Path(root).absolute()
    root.mkdir(parents=True, exist_ok=True)
    threads = max(1, torch.get_num_threads() // jobs) if backend == "loky" else None
    # What a process on another machine needs besides its task.
    here: dict[str, Any] = {"root": root, "folder": Path.cwd(), "data": os.environ.get(VARIABLE), "threads": threads}
    calls = [delayed(_remote)(index, task, **here, device=device) for index, task in enumerate(tasks)]
    options: Any = {"return_as": "generator_unordered", "batch_size": 1}
    # Dispatch all, because workers may join a cluster later.
    results: Any = Parallel(jobs, pre_dispatch="all", **options)(calls)
    yield from results


def _remote(
    index: int,
    task: Callable[[str], T],
    *,
    root: Path,
    folder: Path,
    data: str | None,
    threads: int | None,
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
    if threads is not None:
        torch.set_num_threads(threads)
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


@contextmanager
def parallel_backend(name: str, scheduler: str | None) -> Iterator[None]:
    """Processes of this machine ("loky"), or the workers of a Dask scheduler; raises as `run_in_parallel`."""
    from joblib import parallel_config

    if name == "loky" and scheduler is None:
        with parallel_config("loky"):
            yield
        return
    if name != "dask" or scheduler is None:
        raise ValueError(
            "--backend is loky (processes of this machine) or dask, which needs --scheduler ADDRESS. "
            f"Found --backend {name}{f' --scheduler {scheduler}' if scheduler else ''}."
        )
    require("distributed", "dask")
    from distributed import Client
    from joblib._dask import DaskDistributedBackend

    class Cluster(DaskDistributedBackend):
        def effective_n_jobs(self, n_jobs: int) -> int:
            # With one job, joblib would work in this process and leave the first worker, maybe the only one, idle.
            return max(2, super().effective_n_jobs(n_jobs))

    try:
        client = Client(scheduler)
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {scheduler}: {error}") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            raise ValueError(
                f"no worker joined the Dask scheduler at {scheduler} within {PATIENCE} s. On each machine, start one: "
                f"dask worker {scheduler} --nthreads 1"
            ) from error
        with parallel_config(Cluster(client=client)):
            yield
