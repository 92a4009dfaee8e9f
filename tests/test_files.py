"""Files are whole whoever is killed, have one writer, and are known by what they hold."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from retrofit_core import load_model
from retrofit_core.data import load
from retrofit_core.data.splits import read_splits
from retrofit_core.experiments.results import read
from retrofit_core.networks import user_code
from retrofit_core.networks.checkpoints import read_metadata
from retrofit_core.runs import read_config
from retrofit_core.system import files
from tests.marks import each_case

ROOT = Path(__file__).parent.parent
READERS: dict[str, Callable[[Path], object]] = {
    "content": files.read,
    "digest": files.digest,
    "digest of several": lambda path: files.digest_of([path]),
    "checkpoint": load_model,
    "metadata": read_metadata,
    "data": load,
    "splits": lambda path: read_splits(path, ["a"], 10),
    "run": lambda path: read_config(path.rename(path.with_name("config.json")).parent),
    "architecture": lambda path: user_code.allow(f"{path.rename(path.with_suffix('.py'))}:make"),
    "results": read,
}


def started(code: str) -> subprocess.Popen:
    """A process that runs the code and has said a line."""
    child = subprocess.Popen(
        [sys.executable, "-c", f"from retrofit_core.system.files import *\n{code}"], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert child.stdout is not None and child.stdout.readline()
    return child


def kill(child: subprocess.Popen) -> None:
    child.send_signal(signal.SIGKILL)
    child.communicate()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@each_case("reader", READERS)
@each_case("kind", ["device", "pipe", "loop"])
def test_only_regular_files_are_read(tmp_path, reader, kind, nobody_trusts):
    """The others may never end."""
    path = tmp_path / "odd"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)
    with pytest.raises((OSError, ValueError)) as error:
        READERS[reader](path)
    assert any(part in str(error.value) for part in (str(path), "regular", "loop"))


def test_a_folder_that_is_deleted_while_it_is_written_says_so(tmp_path):
    says = pytest.raises(ValueError, match="the record was deleted while it was being written")
    with says, files.locked(tmp_path / "run", "the record"):
        shutil.rmtree(tmp_path / "run")
        files.write(tmp_path / "run" / "status.json", "{}")


@pytest.mark.slow
def test_a_killed_writer_leaves_the_old_or_the_new_content(tmp_path):
    path = tmp_path / "file"
    texts = {letter * 20_000_000 for letter in "ab"}
    for _ in range(3):
        child = started(
            f"import itertools\nfor letter in itertools.cycle('ab'):\n"
            f"    write({str(path)!r}, letter * 20_000_000)\n    print(1, flush=True)"
        )
        kill(child)
        assert path.read_text() in texts
        files.write(path, "a" * 20_000_000)  # what the killed one left disturbs nobody
    assert path.read_text()[0] == "a"


def test_a_failed_write_leaves_nothing(tmp_path):
    files.write(tmp_path / "file", "old")
    with pytest.raises(KeyboardInterrupt), files.replacing(tmp_path / "file") as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.slow
def test_a_second_writer_is_refused_and_a_dead_one_is_not_waited_for(tmp_path):
    child = started(f"import time\nwith locked({str(tmp_path)!r}):\n    print(1, flush=True)\n    time.sleep(60)")
    assert files.is_locked(tmp_path)
    with pytest.raises(files.Locked, match=f"the record is being written by the process {child.pid}"):  # noqa: SIM117
        with files.locked(tmp_path, "the record"):
            pass
    kill(child)
    assert not files.is_locked(tmp_path)
    with files.locked(tmp_path):
        assert files.is_locked(tmp_path)
    assert not files.is_locked(tmp_path) and not list(tmp_path.iterdir())


def test_an_unchanged_file_is_read_once(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("content")
    reads, read = [], hashlib.file_digest

    def counted(*given):
        reads.append(given)
        return read(*given)

    monkeypatch.setattr(files, "SETTLED", -1.0)
    monkeypatch.setattr(hashlib, "file_digest", counted)
    assert files.digest(path) == files.digest(path) == hashlib.sha256(b"content").hexdigest()
    assert len(reads) == 1


def test_a_file_that_was_just_written_is_not_remembered(tmp_path):
    """The second content may come within the same tick of the clock, with the same size."""
    path = tmp_path / "file"
    path.write_text("first!")
    before = files.digest(path)
    assert not [stamp for stamp in files._digests if stamp[0] == str(path.resolve())]
    path.write_text("second")
    assert files.digest(path) != before


def test_another_content_of_the_same_size_and_time_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SETTLED", -1.0)
    path = tmp_path / "file"
    path.write_text("first!")
    facts, before = path.stat(), files.digest(path)
    path.write_text("second")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert files.digest(path) == hashlib.sha256(b"second").hexdigest() != before


@pytest.mark.parametrize("most", [1000, 1])
def test_a_folder_is_known_by_names_and_contents_of_its_files(tmp_path, monkeypatch, most):
    monkeypatch.setattr(files, "MOST_READ", most)
    folder = tmp_path / "cats"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.png").write_text("1")
    (folder / "inner" / "b.png").write_text("2")
    before = files.digest_of([folder])
    (folder / ".hidden").write_text("3")
    assert files.digest_of([folder]) == before
    (folder / "inner" / "b.png").write_text("changed")
    changed = files.digest_of([folder])
    (folder / "a.png").rename(folder / "c.png")
    assert len({before, changed, files.digest_of([folder])}) == 3
