"""Runners that are killed, that share a folder, and that hand their cells to other processes."""

import json
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import pytest
from joblib import parallel_config

from retrofit_core.runs import grid
from tests.experiments.tiny import CELLS, all_numbers, carry_out, started

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """What the cells come to in a runner that nobody disturbs."""
    root = tmp_path_factory.mktemp("straight") / "runs"
    carry_out(root)
    numbers = all_numbers(root)
    assert len(numbers) == len(CELLS)
    return numbers


@pytest.mark.long
def test_a_runner_killed_at_any_moment_ends_with_the_same_results(straight, tmp_path):
    draw, kills = random.Random(0), 0
    process, start = started(tmp_path / "first" / "runs")
    begin = time.monotonic()
    start()
    process.join()
    whole = time.monotonic() - begin
    assert process.exitcode == 0 and all_numbers(tmp_path / "first" / "runs") == straight
    root = tmp_path / "killed" / "runs"
    while True:
        process, start = started(root)
        start()
        process.join(300 if kills >= 5 else draw.uniform(0, whole / 3))
        process.kill()
        process.join()
        known = all_numbers(root)
        assert known.items() <= straight.items()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        kills += 1
    assert all_numbers(root) == straight


def test_each_process_has_a_gpu_of_its_own_as_long_as_there_are_enough(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with ExitStack() as first, ExitStack() as others:
        assert grid._own_gpu(tmp_path, first) == "cuda:0"
        assert [grid._own_gpu(tmp_path, others) for _ in range(2)] == ["cuda:1", "auto"]
        first.close()
        assert grid._own_gpu(tmp_path, others) == "cuda:0"


def test_a_machine_that_does_not_share_the_folder_is_told_of(tmp_path):
    here = {"root": tmp_path / "elsewhere", "folder": tmp_path, "device": "cpu"}
    index, why = grid._remote(3, str, **here, data=None)
    assert index == 3 and "all machines must share that folder" in why and not here["root"].exists()


@contextmanager
def dask(*words):
    """A command of Dask, ended with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dask", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def scheduler(tmp_path):
    """The address of a scheduler that no worker has joined."""
    pytest.importorskip("distributed", reason="dask[distributed] is not installed")
    file = tmp_path / "scheduler.json"
    with dask("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)) as process:
        # The file is there before its content is.
        wait_for(lambda: file.exists() and file.read_text().rstrip().endswith("}"), process)
        yield json.loads(file.read_text())["address"]


def dask_worker(address, folder):
    options = ("--nthreads", "1", "--memory-limit", "0", "--no-dashboard", "--no-nanny")
    return dask("worker", address, *options, "--local-directory", str(folder))


def wait_for(condition, process, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.002)


@pytest.mark.long
@pytest.mark.parametrize("backend", ["loky", "dask"])
def test_other_processes_give_the_same_results(straight, tmp_path, backend, request):
    root = tmp_path / "runs"
    with ExitStack() as held:
        address = request.getfixturevalue("scheduler") if backend == "dask" else None
        for _ in range(2 if address else 0):
            held.enter_context(dask_worker(address, tmp_path))
        if address:
            client = held.enter_context(pytest.importorskip("distributed").Client(address))
            client.wait_for_workers(2)
        held.enter_context(parallel_config(backend))
        assert carry_out(root, jobs=2) == []
    assert all_numbers(root) == straight
