"""Workers: one for the same work, found again, cancelled, reported when dead."""

import json
import os
import signal
import time

import pytest
from retrofit_app import bundle, jobs

from retrofit_core import runs


def write_status(folder, **fields):
    (folder / "status.json").write_text(json.dumps({"schema": 1, "updated": time.time(), **fields}))


def ended(pid):
    os.kill(pid, signal.SIGKILL)
    jobs._CHILDREN[pid].wait(10)


def test_shipped_runs_come_first_and_are_whole(runs_folder):
    known, problems = jobs.entries()
    assert not problems
    assert [entry.config["method"] for entry in known] == ["HF-Linear", "KF-Linear", "HF-Gradient", "KF-Gradient"]
    assert all(entry.shipped and entry.state == "done" and entry.accuracy > 80 for entry in known)
    for entry in known:
        run = runs.read_run(entry.folder)  # checksums
        assert len(run.levels) == 4
        assert not any(name.startswith("/") for name in run.config.models)


def test_the_bundle_is_small():
    files = [path for path in jobs.BUNDLED.rglob("*") if path.is_file()]
    assert max(path.stat().st_size for path in files) < 1_000_000
    assert sum(path.stat().st_size for path in files) < 1_500_000


def test_class_counts_of_the_shipped_parents():
    counts = jobs.class_counts(bundle.config("KF-Linear").to_json())
    assert len(counts) == 2
    assert all((first == 0) != (second == 0) for first, second in zip(*counts, strict=True))  # sharded


def test_a_shipped_config_opens_the_shipped_run(runs_folder):
    assert jobs.start(bundle.config("KF-Linear")) == jobs.BUNDLED / "kf-linear"
    assert not runs_folder.exists()


def test_the_same_work_starts_once(runs_folder, config, sleeper):
    first = jobs.start(config)
    pid = jobs._worker(first)["pid"]
    assert first == runs_folder / config.key()
    assert jobs.start(config) == first
    assert jobs._worker(first)["pid"] == pid
    assert jobs.read_entry(first).state == "created"


def test_another_server_does_not_start_it_twice(runs_folder, config, sleeper):
    first = jobs.start(config)
    pid = jobs._worker(first)["pid"]
    jobs._spawn(first, jobs.BUNDLED)  # what a second server does that listed the runs a moment earlier
    assert jobs._worker(first)["pid"] == pid


def test_one_run_at_a_time(runs_folder, config, sleeper):
    first = jobs.start(config)
    with pytest.raises(jobs.Busy, match="still going on") as busy:
        jobs.start(bundle.config("HF-Linear", importance="uniform", samples=50, seed=4))
    assert busy.value.run == first.name


def test_a_killed_worker_is_reported_and_can_be_started_again(runs_folder, config, sleeper):
    folder = jobs.start(config)
    pid = jobs._worker(folder)["pid"]
    write_status(folder, state="running", pid=pid, level=2, levels=4)
    assert jobs.read_entry(folder).state == "running"
    ended(pid)
    entry = jobs.read_entry(folder)
    assert entry.state == "killed"
    assert "killed by SIGKILL" in jobs.failure(entry) and "2 of 4 levels" in jobs.failure(entry)
    assert jobs.start(config) == folder
    assert jobs._worker(folder)["pid"] != pid
    assert jobs.read_entry(folder).state == "created"  # though status.json is that of the first attempt


def test_a_reused_pid_is_not_the_worker(runs_folder, config, sleeper):
    folder = jobs.start(config)
    worker = jobs._worker(folder)
    (folder / "worker.json").write_text(json.dumps({**worker, "birth": "1"}))
    assert jobs.read_entry(folder).state == "killed"


def test_failures_are_sentences_without_paths(runs_folder, config):
    folder = runs_folder / "x"
    runs.create(folder, config)
    write_status(folder, state="failed", error="no such file.", levels_done=0)
    (folder / "worker.log").write_text(f"{folder}/config.json is wrong\n")
    entry = jobs.read_entry(folder)
    assert jobs.failure(entry) == "Failed: no such file. No level was finished."
    assert str(runs_folder) not in jobs.log_tail(folder)


def test_broken_records_are_left_out_and_named(runs_folder, config):
    (runs_folder / "bad").mkdir(parents=True)
    (runs_folder / "bad" / "config.json").write_text("{")
    runs.create(runs_folder / "good", config)
    known, problems = jobs.entries()
    assert "good" in [entry.name for entry in known] and "bad" not in [entry.name for entry in known]
    assert len(problems) == 1 and "bad" in problems[0]


def test_a_runs_folder_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch, config, sleeper):
    (tmp_path / "file").touch()
    monkeypatch.setenv("RETROFIT_RUNS", str(tmp_path / "file" / "runs"))
    with pytest.raises(ValueError, match="cannot be written to"):
        jobs.start(config)


@pytest.mark.slow
def test_a_real_worker_writes_the_record_of_a_direct_run(runs_folder, config, monkeypatch, tmp_path):
    folder = jobs.start(config)
    deadline = time.time() + 60
    while jobs.read_entry(folder).state in jobs.ACTIVE and time.time() < deadline:
        time.sleep(0.2)
    entry = jobs.read_entry(folder)
    assert entry.state == "done", jobs.log_tail(folder)
    monkeypatch.chdir(jobs.BUNDLED)
    _, metrics = runs.execute(config, tmp_path / "direct")
    assert entry.accuracy == pytest.approx(metrics["networks"]["fused"]["accuracy"], abs=0.6)


@pytest.mark.slow
def test_cancel_while_the_worker_loads_is_not_lost(runs_folder, config):
    folder = jobs.start(config)
    jobs.cancel(folder)
    deadline = time.time() + 60
    while jobs.read_entry(folder).state in jobs.ACTIVE and time.time() < deadline:
        time.sleep(0.2)
    entry = jobs.read_entry(folder)
    assert entry.state == "cancelled" and "Cancelled" in jobs.failure(entry)
    assert not (folder / "cancel").exists()
