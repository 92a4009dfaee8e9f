"""How a run or its analysis ended, in words."""

import signal
from pathlib import Path, PurePath

from retrofit_app.figures import letter, lettered
from retrofit_core.runs.store import notes_of, worker_of
from retrofit_core.runs.worker import LOG, exit_code, was_ended

from .records import Entry, runs_folder


def failure(entry: Entry) -> str:
    """One sentence on why a run ended early, without this machine's paths."""
    if entry.state == "cancelled":
        return f"Cancelled. {_finished_part(entry)}"
    if entry.state == "interrupted" and was_ended(entry.folder):
        return f"Cancelled. The worker did not stop on its own, so it was ended. {_finished_part(entry)}"
    if entry.state == "interrupted":
        code = exit_code(worker_of(entry.folder).get("pid", -1)) or 0
        how = f" by {signal.Signals(-code).name}" if code < 0 else ""
        return f"The worker was killed{how} before it finished. {_finished_part(entry)}"
    return f"Failed: {lettered(entry.status.get('error') or 'no reason was recorded.')} {_finished_part(entry)}"


def error_of(folder: Path) -> str:
    """Why work in a folder failed, without this machine's folders."""
    return lettered(without_folders(notes_of(folder).get("error") or ""))


def without_folders(text: object, *paths: Path | str) -> str:
    """A message without this machine's folders.

    Args:
        paths: further files and folders, which get their bare names.
    """
    words = str(text)
    for path in paths:
        words = words.replace(str(path), PurePath(path).name)
    return words.replace(f"{runs_folder()}/", "").replace(str(runs_folder()), "RUNS").replace(str(Path.home()), "~")


def _finished_part(entry: Entry) -> str:
    status = entry.status
    if status.get("stage") == "training" and "epochs" in status:
        return (
            f"Network {letter(status.get('parent', 0))}, one of {status.get('parents', 1)}, was being trained, in epoch "
            f"{status['epoch']} of {status['epochs']}; finished epochs are kept."
        )
    done = status.get("levels_done", status.get("level", 0))
    total = status.get("levels")
    return f"{done} of {total} levels were finished and are kept." if total else "No level was finished."


def log_tail(folder: Path, lines: int = 12) -> str:
    """The last lines of the worker's output, without this machine's folders."""
    try:
        text = (folder / LOG).read_text(errors="replace")
    except OSError:
        return ""
    return without_folders("\n".join(text.splitlines()[-lines:]))
