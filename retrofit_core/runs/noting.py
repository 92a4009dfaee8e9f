"""Progress of an analysis that is added to a finished record, in a file beside the sealed ones."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..system.files import locked, write
from ..system.monitor import Cancelled, Event, Monitor
from .recorder import STATUS_INTERVAL
from .standing import NOTES


@contextmanager
def noted(folder: Path, outer: Monitor) -> Iterator[Monitor]:
    """A monitor that also writes analysing.json (state, name of the step, index, total) and obeys a file `cancel`.

    Raises:
        Locked: another process writes this record.
    """
    with locked(folder, f"the record {folder}"):
        yield from _noted(folder, outer)


def _noted(folder: Path, outer: Monitor) -> Iterator[Monitor]:
    notes: dict[str, Any] = {"state": "running", "started": time.time(), "name": "reading the record"}

    def write_notes() -> None:
        notes["updated"] = time.time()
        write(folder / NOTES, json.dumps(notes))

    def take(event: Event) -> None:
        outer.emit(**event)
        if event["kind"] in ("phase", "step"):
            if event["kind"] == "phase":
                notes["name"] = str(event.get("name", "")).removeprefix("analysis: ")
            notes.update(index=event.get("index"), total=event.get("total"))
            if time.time() - notes["updated"] > STATUS_INTERVAL:
                write_notes()

    def cancelled() -> bool:
        outer.check()
        return (folder / "cancel").exists()

    write_notes()
    try:
        monitor = Monitor(take, cancelled)
        monitor.check()
        yield monitor
    except BaseException as error:
        stopped = isinstance(error, (Cancelled, KeyboardInterrupt))
        notes.update(
            state="cancelled" if stopped else "failed", error="" if stopped else str(error) or type(error).__name__
        )
        write_notes()
        raise
    else:
        (folder / NOTES).unlink()
    finally:
        (folder / "cancel").unlink(missing_ok=True)
