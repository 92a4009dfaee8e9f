"""Files: atomic writes, locks against a second writer, and digests of their content."""

import errno
import hashlib
import itertools
import json
import os
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

LOCK = ".lock"
#: Seconds that a writer waits for a lock: `is_locked` holds it for a moment.
PATIENCE = 1.0
#: Files that changed within this many seconds are always digested again: a second change may have the same time.
SETTLED = 2.0
#: Larger sets of files are identified by names, sizes and times: reading a million images takes minutes.
MOST_READ = 1000
#: Names of files that systems and programs leave among data, besides dotfiles; case does not matter.
LEFT_BEHIND = {"__macosx", "thumbs.db", "ehthumbs.db", "desktop.ini", "@eadir", "$recycle.bin", "lost+found"}
#: (path, size, mtime, ctime, inode) -> digest
_digests: dict[tuple[str, int, int, int, int], str] = {}


class Locked(ValueError):
    """Another writer holds the lock."""


def facts_of(path: str | Path) -> os.stat_result:
    """Size and times of a regular file.

    Raises:
        OSError: it is missing, or a folder, pipe or device: reading these may never end.
    """
    facts = os.stat(path)
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return facts


def read(path: str | Path) -> bytes:
    """The content of a file that a user names.

    Raises:
        OSError: as in `facts_of`.
    """
    facts_of(path)
    with open(path, "rb") as file:
        return file.read()


def json_of(path: str | Path) -> Any:
    """The content of a JSON file that a user names.

    Raises:
        OSError: as in `facts_of`.
        ValueError: it is no JSON in UTF-8.
    """
    try:
        return json.loads(read(path).decode())
    except RecursionError as error:
        raise json.JSONDecodeError("nested too deeply", "", 0) from error


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path in the same folder, for a file or folder, that replaces `path` when the block succeeds.

    Readers see the old content or the new one, even if the writer is killed, which leaves only an unused temporary file.
    Safe against killed processes, not against power loss.
    """
    path = Path(path)
    # In the same folder, because a rename across disks is not atomic.
    temporary = path.with_name(f".{os.getpid()}-{uuid.uuid4().hex[:8]}.part")  # short: names have a limit
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        with suppress(OSError):  # already gone, or never created
            temporary.unlink()


def write(path: str | Path, content: bytes | str) -> None:
    """Write a file atomically, see `replacing`."""
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def locked(folder: str | Path, what: str = "", name: str = LOCK, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the exclusive right to write in a folder; the system releases it when the process dies.

    Args:
        what: what is written there, for the error message; default: the folder.
        name: lock file in the folder.
        patience: seconds to wait.
    Raises:
        Locked: another writer, in this process or another one, holds it.
        ValueError: the folder was deleted meanwhile.
    """
    path = Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, timeout=patience)
    try:
        lock.acquire()
    except Timeout:
        with suppress(OSError):
            pid = path.read_text()
            raise Locked(
                f"{what or folder} is being written by the process {pid or 'of another user'}. Wait for it, or end it first."
            ) from None
        raise Locked(f"{what or folder} is being written by another process. Wait for it, or end it first.") from None
    try:
        path.write_text(str(os.getpid()))
        yield
    except OSError as error:
        if path.parent.exists():
            raise
        raise ValueError(f"{what or folder} was deleted while it was being written. Start again.") from error
    finally:
        path.unlink(missing_ok=True)  # while held: waiting processes notice and create a new one
        lock.release()


def is_locked(folder: str | Path, name: str = LOCK) -> bool:
    """Whether a running process is writing in a folder, see `locked`."""
    path = Path(folder) / name
    if not path.exists():
        return False
    lock = FileLock(path, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        return True
    except OSError:  # a read-only folder has no writer
        return False
    lock.release()
    return False


def key_of(facts: object, length: int = 10) -> str:
    """Hexadecimal digits that identify facts in plain JSON types."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:length]


def digest(path: str | Path) -> str:
    """SHA-256 of a file's content, 64 hexadecimal digits. Reads an unchanged file once per process.

    Raises:
        OSError: missing or unreadable.
    """
    path = Path(os.path.realpath(path))  # resolve() raises for links that lead in a circle
    before = _stamp(path)
    if before in _digests:
        return _digests[before]
    with path.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    if _stamp(path) == before and _is_settled(before):
        _digests[before] = content
    return content


def stamps(paths: Sequence[str | Path]) -> Hashable | None:
    """A value that changes when one of these files, or of all files in these folders, does; None if the next change might
    not show, because the last one is so recent, or for more than MOST_READ files.

    Raises:
        OSError: one is missing or unreadable.
    """
    files = (file for path in paths for _, file in _files_in(Path(path)))
    first = [_stamp(file.absolute()) for file in itertools.islice(files, MOST_READ + 1)]
    return tuple(sorted(first)) if len(first) <= MOST_READ and all(map(_is_settled, first)) else None


def digest_of(paths: Sequence[str | Path]) -> str:
    """One digest of the names and contents of files, and of all files in folders, in the given order.

    More than MOST_READ files count by name, size and mtime, so that a copy with other times has another digest.

    Raises:
        OSError: one is missing or unreadable.
    """
    files = [
        pair
        for path in paths
        for pair in sorted(_files_in(Path(path)), key=lambda pair: (str(pair[1].parent), pair[1].name))
    ]
    whole = hashlib.sha256()
    for name, path in files:
        if len(files) <= MOST_READ:
            content = digest(path)
        else:
            facts = facts_of(path)
            content = f"{facts.st_size} {facts.st_mtime_ns}"
        whole.update(f"{name}\0{content}\n".encode())
    return whole.hexdigest()


def is_hidden(name: str) -> bool:
    """Whether a file or folder is not data: its name begins with a dot or is in LEFT_BEHIND."""
    return name.startswith(".") or name.casefold() in LEFT_BEHIND


def walk(folder: str | Path, refuse: Callable[[OSError], object] | None = None) -> Iterator[tuple[str, list[str]]]:
    """A folder and its subfolders, each with the sorted names of its files; skips what `is_hidden`.

    Args:
        refuse: called with the error of an unreadable folder; default: skip it.
    """
    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not is_hidden(name)]
        yield parent, sorted(name for name in names if not is_hidden(name))


def _files_in(path: Path) -> Iterator[tuple[str, Path]]:
    """(name within the set, path) of a file, or of the files in a folder except hidden ones."""
    if not path.is_dir():
        yield path.name, path
    for folder, names in walk(path):
        for name in names:
            yield f"{path.name}/{Path(folder, name).relative_to(path).as_posix()}", Path(folder, name)


def _is_settled(stamp: tuple[str, int, int, int, int]) -> bool:
    """Whether the last change is old enough that the next one has another time."""
    return time.time() - max(stamp[2], stamp[3]) / 1e9 > SETTLED


def _stamp(path: Path) -> tuple[str, int, int, int, int]:
    facts = facts_of(path)
    # Also ctime: a program can set mtime back, but not ctime.
    return str(path), facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino
