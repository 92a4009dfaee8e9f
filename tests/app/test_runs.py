"""Workers: one for the same work, found again, cancelled, reported when dead."""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from retrofit_app import bundle, runs
from retrofit_app.models import sources
from retrofit_app.widgets import works
from retrofit_core import load_model, save_model
from retrofit_core.runs import RunConfig, create, execute, identity, read_run, store, worker
from retrofit_core.runs.parents import read_training
from retrofit_core.runs.store import FINETUNING, LANDSCAPE, NOTES, Work, notes_of, worker_of
from retrofit_core.runs.worker import CHILDREN, Job
from retrofit_core.system import files
from retrofit_core.training.config import TrainConfig

from .analyses import plain


def write_status(folder, **fields):
    (folder / "status.json").write_text(json.dumps({"schema": 3, "updated": time.time(), **fields}))


def ended(pid):
    os.kill(pid, signal.SIGKILL)
    CHILDREN[pid].wait(10)


def test_shipped_runs_come_first_are_whole_and_small(runs_folder):
    known, problems = runs.entries()
    assert not problems
    assert [entry.config["method"] for entry in known] == ["HF-Linear", "KF-Linear", "HF-Gradient", "KF-Gradient"]
    assert all(entry.shipped and entry.state == "done" and entry.accuracy > 80 for entry in known)
    for entry in known:
        run = read_run(entry.folder)  # checksums
        assert len(run.levels) == 4 and entry.training == TrainConfig(seed=1, device="cpu").to_json()
        assert not any(name.startswith("/") for name in run.config.models)
        assert all((first == 0) != (second == 0) for first, second in zip(*runs.class_counts(entry), strict=True))
        assert run.analysis is not None and run.analysis.missing == {}
        measured = [run.metrics["networks"][name]["accuracy"] for name in ("ensemble", "fused")]
        assert [run.analysis.accuracy[0], run.analysis.accuracy[-1]] == measured
    sizes = [path.stat().st_size for path in runs.BUNDLED.rglob("*") if path.is_file()]
    assert max(sizes) < 1_000_000 and sum(sizes) < 1_500_000


def test_the_same_work_starts_once(runs_folder, config, sleeper):
    first = runs.start(config)
    pid = worker_of(first)["pid"]
    assert first == runs_folder / config.key() == runs.start(config)
    assert worker_of(first)["pid"] == pid and runs.read_entry(first).state == "created"
    assert psutil.Process(pid).nice() >= worker.NICENESS  # the machine is whoever's who works at it


def test_two_sessions_that_start_the_same_work_at_once_start_it_once(runs_folder, config, sleeper):
    before, barrier = set(CHILDREN), threading.Barrier(2)

    def start() -> Path:
        barrier.wait()
        return runs.start(config)

    with ThreadPoolExecutor(2) as sessions:
        first, second = [each.result() for each in [sessions.submit(start), sessions.submit(start)]]
    assert first == second and len(set(CHILDREN) - before) == 1


def test_a_killed_worker_is_reported_and_can_be_started_again(runs_folder, config, sleeper):
    folder = runs.start(config)
    pid = worker_of(folder)["pid"]
    write_status(folder, state="running", pid=pid, level=2, levels=4)
    assert runs.read_entry(folder).state == "running"
    ended(pid)
    entry = runs.read_entry(folder)
    assert entry.state == "interrupted"
    assert "killed by SIGKILL" in runs.failure(entry) and "2 of 4 levels" in runs.failure(entry)
    assert runs.start(config) == folder
    assert worker_of(folder)["pid"] != pid
    assert runs.read_entry(folder).state == "created"  # though status.json is that of the first attempt


STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def stubborn(monkeypatch, sleeper):
    """Workers that answer neither to a request to stop nor to SIGTERM, and have a process of their own."""
    monkeypatch.setattr(worker, "command_of", lambda job: [sys.executable, "-c", STUBBORN])
    monkeypatch.setattr(worker, "PATIENCE", 0.5)
    monkeypatch.setattr(worker, "GRACE", 0.5)
    before = set(CHILDREN)
    yield
    for pid in set(CHILDREN) - before:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def until(condition, what):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["cancel", "the next start"])
def test_a_worker_that_does_not_stop_is_ended_with_all_that_it_started(runs_folder, config, stubborn, by):
    folder = runs.start(config)
    until(lambda: runs.log_tail(folder), "the worker prints its child's pid")
    child = psutil.Process(int(runs.log_tail(folder)))
    if by == "cancel":
        runs.cancel(folder)
        until(lambda: worker.was_ended(folder), "the server insists")
    else:  # of a server that has ended since
        (folder / store.CANCEL).touch()
        os.utime(folder / store.CANCEL, (time.time() - 60, time.time() - 60))
    other = runs.start(dataclasses.replace(config, seed=4))
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the group ends")
    entry = runs.read_entry(folder)
    assert other != folder and entry.state == "interrupted" and not runs.was_asked(folder)
    assert "did not stop on its own, so it was ended. No level" in runs.failure(entry)


def test_a_reused_pid_is_not_the_worker(runs_folder, config, sleeper):
    folder = runs.start(config)
    worker = worker_of(folder)
    (folder / "worker.json").write_text(json.dumps({**worker, "birth": 1.0}))
    assert runs.read_entry(folder).state == "interrupted"


@pytest.fixture
def pair(runs_folder):
    """Parents of the user's own in the runs folder, and a config of them."""
    (runs_folder / "own").mkdir(parents=True)
    for name in (*bundle.PARENTS, "splits.json"):
        shutil.copy(runs.BUNDLED / name, runs_folder / "own" / name)
    models = tuple(f"own/{name}" for name in bundle.PARENTS)
    return RunConfig(
        models=models, splits="own/splits.json", method="KF-Linear", samples=60, device="cpu", evaluate=True
    )


def train_again(path):
    """Another network in the same file."""
    model, metadata = load_model(path)
    next(model.parameters()).data += 1.0
    save_model(model, path, **metadata)


@pytest.mark.slow
def test_parents_that_were_trained_again_make_a_new_run(runs_folder, pair, sleeper, monkeypatch):
    """The finished one is of other networks: it is neither opened nor written over."""
    monkeypatch.chdir(runs_folder)
    execute(pair, pair.key())
    known = runs.entries()[0]
    assert runs.same_work(pair, known).name == pair.key() and runs.start(pair) == runs_folder / pair.key()
    before = (runs_folder / pair.key() / "status.json").read_bytes()
    train_again(runs_folder / "own" / bundle.PARENTS[0])
    assert runs.same_work(pair, known) is None
    folder = runs.start(pair)
    assert folder == runs_folder / identity(pair).key() != runs_folder / pair.key()
    assert runs.start(pair) == folder
    assert (runs_folder / pair.key() / "status.json").read_bytes() == before


def test_copies_of_the_same_files_are_the_same_work(runs_folder, pair):
    """The shipped run is opened also where its files are named by another path."""
    config = dataclasses.replace(bundle.config("KF-Linear"), models=pair.models, splits=pair.splits)
    assert runs.start(config) == runs.BUNDLED / "kf-linear"


def test_a_command_beside_the_runs_folder_makes_a_run_of_files_there(runs_folder, pair, monkeypatch):
    """As the documents show: `retrofit fuse own/... --record runs/mine`."""
    (runs_folder / "own").rename(runs_folder.parent / "own")
    monkeypatch.chdir(runs_folder.parent)
    create(runs_folder / "mine", pair)
    entry = runs.read_entry(runs_folder / "mine")
    assert entry.base == runs_folder.parent and len(runs.class_counts(entry)) == 2
    assert works.record_of(entry) == f"{runs_folder.name}/mine" and "around" in runs.where(entry)
    (runs_folder.parent / "scans").mkdir()
    scans = dataclasses.replace(entry, config={**entry.config, "data": "scans"})
    assert sources.located(sources.source_of(scans).data) == str(runs_folder.parent / "scans")
    (runs_folder.parent / "own").rename(runs_folder / "own")
    entry = runs.read_entry(runs_folder / "mine")
    assert entry.base == runs_folder and works.record_of(entry) == "mine" and "around" not in runs.where(entry)


def test_a_silent_run_of_the_command_line_is_running_while_its_process_lives(runs_folder, config):
    create(runs_folder / "x", config)
    write_status(runs_folder / "x", state="running", updated=1.0)
    for locked, state in ((True, "running"), (False, "interrupted")):
        with files.locked(runs_folder / "x") if locked else contextlib.nullcontext():
            entry = runs.read_entry(runs_folder / "x")
            assert entry.state == state == read_run(runs_folder / "x").state


def test_work_that_ends_between_two_readings_was_not_interrupted(runs_folder, config, monkeypatch):
    """A process writes its end and is gone after its state was read, and before anybody asks whether it lives."""
    folder = runs_folder / "x"
    create(folder, config)
    write_status(folder, state="running")
    (folder / NOTES).write_text(json.dumps({"state": "running"}))

    def gone(_):
        write_status(folder, state="done")
        (folder / NOTES).unlink(missing_ok=True)
        return False

    status = {"state": "running"}
    monkeypatch.setattr(store, "worker_lives", gone)
    assert notes_of(folder) == {}
    assert store.state_of(folder, status) == "running"
    monkeypatch.setattr(store, "worker_lives", lambda _: False)
    write_status(folder, state="running")
    assert store.state_of(folder, status) == "interrupted"


def test_work_goes_on_while_its_worker_is_being_started(finished, sleeper, monkeypatch):
    """However long that takes: whoever looks on would otherwise see it interrupted."""
    seen, real = [], worker.command_of
    work = Work(FINETUNING, finished / "finetunings" / "0123456789")

    def command(job):
        seen.append((work.going, work.state, store.worker_lives(work.folder)))
        return real(job)

    monkeypatch.setattr(worker, "command_of", command)
    worker.begin(Job(work, (), finished, finished.parent))
    assert seen == [(True, "running", True)] and work.going
    ended(worker_of(work.folder)["pid"])
    assert not work.going and work.state == "interrupted"


def test_a_worker_that_cannot_be_started_is_not_going(finished, monkeypatch):
    work = Work(FINETUNING, finished / "finetunings" / "0123456789")
    monkeypatch.setattr(worker, "command_of", lambda job: [str(finished / "nothing")])
    with pytest.raises(ValueError, match="cannot be written to"):
        worker.begin(Job(work, (), finished, finished.parent))
    assert not work.going and not store.worker_lives(work.folder)


def test_a_runs_folder_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch, config, sleeper):
    (tmp_path / "file").touch()
    monkeypatch.setenv("RETROFIT_RUNS", str(tmp_path / "file" / "runs"))
    with pytest.raises(ValueError, match="cannot be written to"):
        runs.start(config)


@pytest.mark.long
def test_a_real_worker_writes_the_record_of_a_direct_run(runs_folder, config, monkeypatch, tmp_path):
    folder = runs.start(config)
    entry = wait(folder, lambda entry: not entry.active)
    assert entry.state == "done", runs.log_tail(folder)
    monkeypatch.chdir(runs.BUNDLED)
    _, metrics = execute(config, tmp_path / "direct")
    assert entry.accuracy == pytest.approx(metrics["networks"]["fused"]["accuracy"], abs=0.6)


@pytest.mark.long
def test_cancel_while_the_worker_loads_is_not_lost(runs_folder, config, monkeypatch):
    monkeypatch.setattr(worker, "PATIENCE", 300)  # a busy machine loads for half a minute
    folder = runs.start(config)
    runs.cancel(folder)
    entry = wait(folder, lambda entry: not (entry.active or (folder / "cancel").exists()))  # which goes last
    assert entry.state == "cancelled" and "Cancelled" in runs.failure(entry)


# --- parents that the worker trains -----------------------------------------------------------------------------------


@pytest.fixture
def training():
    return TrainConfig(arch=('{"architecture": "cnn", "widths": [4, 6, 6]}',), epochs=15, device="cpu")


@pytest.fixture
def wanted(training):
    return RunConfig(
        models=training.files(), splits=training.splits(), method="KF-Linear", samples=60, device="cpu", evaluate=True
    )


def wait(folder, until):
    deadline = time.time() + 300  # a busy machine loads for half a minute
    while not until(runs.read_entry(folder)):
        assert time.time() < deadline, runs.log_tail(folder)
        time.sleep(0.05)
    return runs.read_entry(folder)


def test_a_start_with_training_notes_it_beside_the_parents(runs_folder, wanted, training, sleeper):
    folder = runs.start(wanted, training)
    assert folder == runs_folder / wanted.key()
    assert read_training(runs_folder / training.folder) == training
    assert runs.read_entry(folder).training == training.to_json()
    pid = worker_of(folder)["pid"]
    assert Path(f"/proc/{pid}/cwd").resolve() == runs_folder  # where the config's file names hold
    assert runs.start(wanted, training) == folder and worker_of(folder)["pid"] == pid
    with pytest.raises(runs.Busy):
        runs.start(dataclasses.replace(wanted, seed=1), training)
    known, problems = runs.entries()
    assert [entry.name for entry in known if not entry.shipped] == [folder.name] and not problems


def test_a_run_whose_networks_nobody_trains_is_refused(runs_folder, wanted):
    with pytest.raises(ValueError, match="there is no checkpoint parents-.*Train the networks again"):
        runs.start(wanted)
    assert not runs_folder.exists()


# --- work on a finished run -----------------------------------------------------------------------


@pytest.fixture
def finished(runs_folder):
    """A finished run of the user's own, without an analysis."""
    return plain(runs_folder)


@pytest.mark.slow
def test_work_starts_once_and_holds_up_other_work(finished, config, sleeper):
    """Runs among them, of which one is at work at a time."""

    def begin() -> Path:
        work = Work(LANDSCAPE, finished.parent / "plane")
        runs.begin(Job(work, ("plane",), finished.parent, finished.parent))
        return work.folder

    folder = begin()
    pid = worker_of(folder)["pid"]
    assert begin() == folder and worker_of(folder)["pid"] == pid
    with pytest.raises(runs.Busy, match="the landscape .*is still running"):
        runs.start(config)
    ended(pid)
    run = runs.start(config)
    with pytest.raises(runs.Busy, match="^run") as busy:
        begin()
    assert busy.value.run == run.name
    with pytest.raises(runs.Busy, match="still running"):
        runs.start(dataclasses.replace(config, seed=4))
    ended(worker_of(run)["pid"])
    shutil.rmtree(run)
