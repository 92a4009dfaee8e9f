"""Plans the units of tables and runs what is missing: one after another, in processes, or on a cluster.

Results are files, each written when its unit is done, so a kill loses at most the unit under way, and any number of runners
may share a folder: a unit that another one is at is tried again later.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import torch

from .. import files
from ..data import VARIABLE
from ..monitor import Cancelled, Monitor
from .results import Result, all_results
from .tables import Cell
from .units import Clustering, FineTuning, Fusion, LossLandscape, Parent, Unit
from .work import LOCKS, finished, title, work

#: Seconds between two looks at units that other runners are at.
WAIT = 1.0
#: So often all processes may be lost before a run gives up.
LOSSES = 3
#: The order of the waves in parallel: what a unit needs is of an earlier kind.
KINDS = (Parent, Fusion | Clustering, FineTuning | LossLandscape)
OnResult = Callable[[Unit, Result | str], None]


@dataclass(frozen=True)
class Planned:
    """A unit and where it stands."""

    unit: Unit
    result: Result | None
    """None: to be done"""
    seconds: float | None
    """It will take about so long; None where nothing tells"""


@dataclass(frozen=True)
class Outcome:
    """What a run of units came to."""

    done: int
    failed: list[tuple[Unit, str]]
    """Units, and why each failed"""
    left: int
    """Units that the time did not suffice for"""


class Left(Enum):
    """Why a unit was left as it is."""

    BUSY = "another process is at it"
    LATE = "the time does not suffice"


#: Carries out some units: (index, what came of it) of each, as they are done.
Carrier = Callable[[Sequence[Planned]], Iterator[tuple[int, Result | str | Left]]]


def plan(cells: Iterable[Cell], root: str | Path) -> list[Planned]:
    """The units of cells, each once, in the order of their value: parents before fusions, first seeds first."""
    units: dict[str, Unit] = {}
    for cell in cells:
        for unit in (*cell.units, *([cell.relative_to] if cell.relative_to else [])):
            for each in (*_all_needs(unit), unit):
                units.setdefault(each.key(), each)
    past = all_results(root)
    return [
        Planned(unit, result := finished(unit, root), None if result else expected(unit, past.values()))
        for unit in units.values()
    ]


def _all_needs(unit: Unit) -> Iterator[Unit]:
    for needed in unit.needs():
        yield from _all_needs(needed)
        yield needed


def expected(unit: Unit, past: Iterable[Result]) -> float | None:
    """Seconds that units of the same kind took here: the same work with another seed, else the same method."""
    ours = unit.to_json()
    same = {
        level: [result.metrics["all_seconds"] for result in past if not result.refusal and like(ours, result.unit)]
        for level, like in LIKE
    }
    taken = next((times for times in same.values() if times), None)
    return statistics.median(taken) if taken else None


def _same_but_seed(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    return _without_seed(ours) == _without_seed(theirs)


def _same_method(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """The same kind of work on the same networks and as many images."""
    return _kind(ours) == _kind(theirs)


LIKE = (("same", _same_but_seed), ("method", _same_method))


def _without_seed(unit: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {key: value for key, value in facts.items() if key != "seed"} if name == "fusion" else facts
        for name, facts in unit.items()
        if name != "parent"
    }


def _kind(unit: dict[str, Any]) -> tuple[Any, ...]:
    if "fine-tuning" in unit:
        return ("fine-tuning", unit["fine-tuning"]["epochs"], *_kind(unit["start"])[-2:])
    training = unit.get("training", {})
    networks = (str(training.get("arch")), training.get("parts"))
    if "parent" in unit:
        return ("parent", training.get("data"), training.get("epochs"), *networks)
    if "landscape" in unit:
        settings = unit["landscape"]
        return ("landscape", settings["resolution"], settings["images"], *networks)
    run = unit.get("fusion", {})
    names = ("method", "importance", "samples", "augment", "options")
    return ("fusion", *(str(run.get(name)) for name in names), *networks)


def run(
    units: Sequence[Planned],
    root: str | Path,
    *,
    monitor: Monitor | None = None,
    deadline: float | None = None,
    device: str = "auto",
    on_result: OnResult | None = None,
) -> Outcome:
    """Do the units that are missing, one after another.

    Args:
        deadline: seconds since 1970, which machines share, after which nothing goes on; a training keeps its finished
            epochs, a fusion that is not expected to be done by then is not begun.
        on_result: called with each unit and its result, or the reason of its failure.
    Raises:
        Cancelled: the monitor asked for it.
    """

    def carry_out(wave: Sequence[Planned]) -> Iterator[tuple[int, Result | str | Left]]:
        for index, one in enumerate(wave):
            yield index, _attempt(one, Path(root), device, deadline, monitor)

    return _until_done(units, lambda waiting: [[one] for one in waiting], carry_out, on_result)


def run_in_parallel(
    units: Sequence[Planned],
    root: str | Path,
    *,
    jobs: int = 2,
    backend: str = "loky",
    scheduler: str | None = None,
    device: str = "auto",
    deadline: float | None = None,
    on_result: OnResult | None = None,
) -> Outcome:
    """Do the units that are missing through joblib: all trainings, then all fusions, then all fine-tunings.

    Args:
        jobs: processes on this machine; on a cluster its workers decide.
        backend: "loky" (processes of this machine) or "dask".
        scheduler: address of a Dask scheduler, whose workers see `root` and the current folder under the same paths.
        device, deadline, on_result: as `run`; "auto" gives each process a GPU of its own where there are any.
    Raises:
        ValueError: an unknown backend, Dask without a scheduler, the package is missing, or processes died again and again.
    """
    from joblib import Parallel, delayed

    root = Path(root).absolute()
    root.mkdir(parents=True, exist_ok=True)
    threads = max(1, torch.get_num_threads() // jobs) if backend == "loky" else None
    setting = Setting(root, str(Path.cwd()), os.environ.get(VARIABLE), threads, device, deadline)
    losses = 0

    def carry_out(wave: Sequence[Planned]) -> Iterator[tuple[int, Result | str | Left]]:
        nonlocal losses
        left = set(range(len(wave)))
        calls = [delayed(_remote)(index, one, setting) for index, one in enumerate(wave)]
        options: Any = {"return_as": "generator_unordered", "batch_size": 1}
        try:
            # All at once, because workers may join a cluster later.
            results: Any = Parallel(jobs, pre_dispatch="all", **options)(calls)
            for index, result in results:
                left.remove(index)
                yield index, result
        except Exception as error:  # not a unit's, which `_attempt` reports: processes were killed
            losses += 1
            if losses >= LOSSES:
                raise ValueError(
                    f"processes died {losses} times, the last time so: {error!r:.300}. Perhaps the memory does not suffice "
                    "for so many at once. What is measured is kept, and the same command goes on."
                ) from error
        yield from ((index, Left.BUSY) for index in left)

    def waves(waiting: Sequence[Planned]) -> list[list[Planned]]:
        return [[one for one in waiting if isinstance(one.unit, kinds)] for kinds in KINDS]

    with _backend(backend, scheduler):
        return _until_done(units, waves, carry_out, on_result)


def _until_done(
    units: Sequence[Planned],
    waves: Callable[[Sequence[Planned]], list[list[Planned]]],
    carry_out: Carrier,
    on_result: OnResult | None,
) -> Outcome:
    """Carry out what is missing, wave by wave, and what others were at again until it is done."""
    waiting = [one for one in units if one.result is None]
    done, late = 0, 0
    failed: dict[str, tuple[Unit, str]] = {}

    def note(unit: Unit, result: Result | str) -> None:
        nonlocal done
        if isinstance(result, str):
            failed[unit.key()] = (unit, result)
        else:
            done += 1
        if on_result:
            on_result(unit, result)

    while waiting:
        busy: list[Planned] = []
        for wave in waves(waiting):
            ready = []
            for one in wave:
                needed = [failed[need.key()] for need in _all_needs(one.unit) if need.key() in failed]
                if needed:  # not hours of the same training again
                    note(one.unit, f"it needs {title(needed[0][0])}, which failed: {needed[0][1]}")
                else:
                    ready.append(one)
            for index, result in carry_out(ready) if ready else ():
                if result is Left.BUSY:
                    busy.append(ready[index])
                elif result is Left.LATE:
                    late += 1
                else:
                    note(ready[index].unit, result)
        if len(busy) == len(waiting):
            time.sleep(WAIT)
        waiting = busy
    return Outcome(done, list(failed.values()), late)


def _attempt(
    one: Planned, root: Path, device: str, deadline: float | None, monitor: Monitor | None = None
) -> Result | str | Left:
    """A unit's result, the reason of its failure, or why it was left.

    Raises:
        Cancelled: the monitor asked for it.
    """
    outer = monitor or Monitor()

    def is_late() -> bool:
        outer.check()
        return deadline is not None and time.time() > deadline

    if is_late() or _too_long(one, deadline):
        return Left.LATE
    outer.emit("phase", name=title(one.unit))
    try:
        return work(one.unit, root, Monitor(lambda event: outer.emit(**event), is_late), device)
    except files.Locked:
        return Left.BUSY
    except Cancelled:
        outer.check()
        return Left.LATE
    except Exception as error:  # one unit's defect must not cost the others' hours
        return str(error) if isinstance(error, ValueError) else repr(error)


def _too_long(one: Planned, deadline: float | None) -> bool:
    """Whether a unit that cannot go on later would not be done in time."""
    if deadline is None or isinstance(one.unit, Parent | FineTuning):
        return False
    return one.seconds is not None and time.time() + one.seconds > deadline


@dataclass(frozen=True)
class Setting:
    """What a process of another machine has to know beside its unit."""

    root: Path
    folder: str
    """Where the command was given: relative names of files are read from there"""
    data: str | None
    """Of the environment: further folders of data sets"""
    threads: int | None
    device: str
    deadline: float | None


def _remote(index: int, one: Planned, setting: Setting) -> tuple[int, Result | str | Left]:
    """`_attempt` in another process, perhaps on another machine."""
    for folder in (setting.root, Path(setting.folder)):
        if not folder.is_dir():
            return index, f"the worker on {platform.node()} does not see {folder}: all machines must share that folder."
    if setting.threads is not None:
        torch.set_num_threads(setting.threads)
    if setting.data is not None:
        os.environ[VARIABLE] = setting.data
    with chdir(setting.folder), ExitStack() as held:
        return index, _attempt(one, setting.root, _own_gpu(setting, held), setting.deadline)


def _own_gpu(setting: Setting, held: ExitStack) -> str:
    """A GPU of this machine that no other process of the run is at, as long as it is held; else the device as it was said."""
    for index in range(torch.cuda.device_count()) if setting.device == "auto" else ():
        with suppress(files.Locked):
            name = f"{platform.node()}-gpu-{index}.lock"
            held.enter_context(files.locked(setting.root / LOCKS, name=name, patience=0))
            return f"cuda:{index}"
    return setting.device


@contextmanager
def _backend(name: str, scheduler: str | None) -> Iterator[None]:
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
    try:
        from distributed import Client
    except ImportError:
        raise ValueError("the Dask backend needs the package `distributed`: pip install 'dask[distributed]'.") from None
    try:
        client = Client(scheduler)
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {scheduler}: {error}") from error
    with client, parallel_config("dask"):
        yield
