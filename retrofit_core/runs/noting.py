"""Notes of an analysis that is added to a finished record: how far it is, in a file of its own beside the sealed ones."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..monitor import Cancelled, Event, Monitor
from ..results import write_atomically
from .recorder import STATUS_INTERVAL

#: Gone once the analysis is in the record; otherwise it says how an attempt stands or ended.
NOTES = "analysing.json"


@contextmanager
def noted(folder: Path, outer: Monitor) -> Iterator[Monitor]:
    """A monitor that also writes analysing.json (state, name of the step, index, total) and obeys a file `cancel`."""
    notes: dict[str, Any] = {"state": "running", "started": time.time(), "name": "reading the record"}

    def write() -> None:
        notes["updated"] = time.time()
        write_atomically(folder / NOTES, json.dumps(notes).encode())

    def take(event: Event) -> None:
        outer.emit(**event)
        if event["kind"] in ("phase", "step"):
            if event["kind"] == "phase":
                notes["name"] = str(event.get("name", "")).removeprefix("analysis: ")
            notes.update(index=event.get("index"), total=event.get("total"))
            if time.time() - notes["updated"] > STATUS_INTERVAL:
                write()

    def cancelled() -> bool:
        outer.check()
        return (folder / "cancel").exists()

    write()
    try:
        monitor = Monitor(take, cancelled)
        monitor.check()
        yield monitor
    except BaseException as error:
        stopped = isinstance(error, (Cancelled, KeyboardInterrupt))
        notes.update(
            state="cancelled" if stopped else "failed", error="" if stopped else str(error) or type(error).__name__
        )
        write()
        raise
    else:
        (folder / NOTES).unlink()
    finally:
        (folder / "cancel").unlink(missing_ok=True)
