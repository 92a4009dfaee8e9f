"""Files: written whole or not at all, locked against a second writer, identified by the digest of their content."""

import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = ".lock"
#: Seconds that a writer waits for a lock: `is_locked` holds it for a moment.
PATIENCE = 1.0
#: Seconds in which a lock's folder is made again and again, where others remove it when it is empty.
REMAKING = 60.0
#: A file that changed within so many seconds is digested again each time: a second change may bear the same time.
SETTLED = 2.0
#: Sets of more files than this are identified by names, sizes and times: reading a million images takes minutes.
MOST_READ = 1000
#: What systems and programs leave beside data, besides what begins with a dot; compared without case.
LEFT_BEHIND = {"__macosx", "thumbs.db", "ehthumbs.db", "desktop.ini", "@eadir", "$recycle.bin", "lost+found"}
#: (path, size, time of change, time of the entry's change, inode) -> digest
_digests: dict[tuple[str, int, int, int, int], str] = {}


class Locked(ValueError):
    """Somebody else is writing there."""


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary name in the same folder, for a file or a folder, that becomes `path` when the block ends well.

    Readers see the old content or the new one, also when the writer is killed; what a killed one left behind bears a
    name of its own and disturbs nobody. It is safe against dying processes, not against a machine that loses power.
    """
    path = Path(path)
    # In the same folder, because a rename across disks is not atomic.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.part")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        with suppress(OSError):  # gone already, or never there
            temporary.unlink()


def write(path: str | Path, content: bytes | str) -> None:
    """Write a file whole or not at all, see `replacing`."""
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def locked(folder: str | Path, what: str = "", name: str = LOCK, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the only right to write in a folder; the system takes it back when the process dies.

    Args:
        what: what is written there, for the refusal; by default the folder.
        name: of the lock's file in the folder.
        patience: seconds after which it is refused.
    Raises:
        Locked: another writer, of this process or another one, holds it.
    """
    path = Path(folder) / name
    lock = FileLock(path, timeout=patience)
    try:
        _acquire(lock, path)
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
    finally:
        path.unlink(missing_ok=True)  # while it is held: whoever waits for this file notices and makes a new one
        lock.release()


def _acquire(lock: FileLock, path: Path) -> None:
    begin = time.monotonic()
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
            return
        except (FileNotFoundError, FileExistsError):  # somebody removed the folder in between, as it was empty
            if time.monotonic() - begin > REMAKING or path.parent.is_file():
                raise


def is_locked(folder: str | Path, name: str = LOCK) -> bool:
    """Whether a living process writes in a folder, see `locked`."""
    path = Path(folder) / name
    if not path.exists():
        return False
    lock = FileLock(path, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        return True
    except OSError:  # a folder in which nothing can be written has no writer
        return False
    lock.release()
    return False


def key_of(facts: object, length: int = 10) -> str:
    """Hexadecimal digits that two pieces of work share exactly if these facts in plain JSON types are the same."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:length]


def digest(path: str | Path) -> str:
    """SHA-256 of a file's content, 64 hexadecimal digits. An unchanged file is read once in a process.

    Raises:
        OSError: it is not there or cannot be read.
    """
    path = Path(path).resolve()
    before = _stamp(path)
    if before in _digests:
        return _digests[before]
    with path.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    newest = max(before[2], before[3]) / 1e9
    if _stamp(path) == before and time.time() - newest > SETTLED:
        _digests[before] = content
    return content


def digest_of(paths: Sequence[str | Path]) -> str:
    """One digest of files, and of all files in folders, with their names in the order of the paths given.

    Up to MOST_READ files count by content; more by name, size and time of change, so that a copy without the times has
    another digest.

    Raises:
        OSError: one of them is not there or cannot be read.
    """
    files = [pair for path in paths for pair in _files_in(Path(path))]
    whole = hashlib.sha256()
    for name, path in files:
        if len(files) <= MOST_READ:
            content = digest(path)
        else:
            facts = path.stat()
            content = f"{facts.st_size} {facts.st_mtime_ns}"
        whole.update(f"{name}\0{content}\n".encode())
    return whole.hexdigest()


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name is no data: it begins with a dot, or is of LEFT_BEHIND."""
    return name.startswith(".") or name.casefold() in LEFT_BEHIND


def walk(folder: str | Path, refuse: Callable[[OSError], object] | None = None) -> Iterator[tuple[str, list[str]]]:
    """A folder and those below it, each with the names of its files in order; without what `is_hidden`.

    Args:
        refuse: called with the error of a folder that cannot be read; without it such a folder is left out.
    """
    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not is_hidden(name)]
        yield parent, sorted(name for name in names if not is_hidden(name))


def _files_in(path: Path) -> Iterable[tuple[str, Path]]:
    """(name within the set, path) of a file, or of the files in a folder; hidden ones are left out."""
    if not path.is_dir():
        return [(path.name, path)]
    return [
        (f"{path.name}/{Path(folder, name).relative_to(path).as_posix()}", Path(folder, name))
        for folder, names in sorted(walk(path))
        for name in names
    ]


def _stamp(path: Path) -> tuple[str, int, int, int, int]:
    facts = path.stat()
    # The time of the entry's change (ctime) as well: a program may set a file's own time back, but not this one.
    return str(path), facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino
