"""Runners that are killed, that share a folder, and that hand their units to other processes."""

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager

import pytest
from joblib import parallel_config

from retrofit_core.experiments import runner
from retrofit_core.experiments.runner import run
from retrofit_core.experiments.units import Parent
from tests.experiments.tiny import SOURCE, UNITS, all_numbers, carry_out, fusion, missing, read_log, started

pytestmark = pytest.mark.slow


MORE = (*UNITS, *(fusion(seed=seed) for seed in range(1, 6)))


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """What MORE units and their parents come to in a runner that nobody disturbs."""
    root = tmp_path_factory.mktemp("straight") / "runs"
    carry_out(root, MORE)
    numbers = all_numbers(root)
    assert len(numbers) == len(MORE) + 2
    return numbers


def some(numbers, units):
    keys = {unit.key() for unit in (*units, Parent(SOURCE, 0, 100), Parent(SOURCE, 1, 100))}
    return {key: value for key, value in numbers.items() if key in keys}


@pytest.mark.long
@pytest.mark.parametrize("wanted", [4, pytest.param(100, marks=pytest.mark.long)])
def test_a_runner_killed_at_any_moment_ends_with_the_same_results(straight, tmp_path, wanted):
    """So many kills at random moments, over as many folders as that takes."""
    expected, draw, kills, folders = some(straight, UNITS), random.Random(0), 0, 0
    process, start = started(tmp_path / "first" / "runs")
    begin = time.monotonic()
    start()
    process.join()
    whole = time.monotonic() - begin
    assert process.exitcode == 0 and all_numbers(tmp_path / "first" / "runs") == expected
    while kills < wanted:
        root = tmp_path / str(folders) / "runs"
        folders, lives, killed = folders + 1, [], 0
        while not lives or lives[-1].exitcode != 0:
            process, start = started(root)
            lives.append(process)
            start()
            # Shorter than a life, so that a folder sees several kills.
            # On a machine that has become slower since, one folder would see them all.
            undisturbed = kills >= wanted or killed == max(2, wanted // 4)
            process.join(300 if undisturbed else draw.uniform(0, whole / 3))
            process.kill()
            process.join()
            assert process.exitcode in ((0,) if undisturbed else (0, -signal.SIGKILL))
            kills += process.exitcode != 0
            killed += process.exitcode != 0
            assert all_numbers(root).items() <= expected.items()
        assert all_numbers(root) == expected
        check_lives(root, [str(life.pid) for life in lives])
    assert folders >= min(4, wanted // 4)


def check_lives(root, processes):
    """No unit was begun again after its result was written, and no life left more than one unit without a result."""
    written, unfinished = set(), Counter()
    for process, what, key in read_log(root):
        assert key not in written
        if what == "written":
            written.add(key)
        unfinished[process] += 1 if what == "begun" else -1
    assert set(unfinished) <= set(processes) and set(unfinished.values()) <= {0, 1}


def test_each_process_has_a_gpu_of_its_own_as_long_as_there_are_enough(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with ExitStack() as first, ExitStack() as others:
        assert runner._own_gpu(tmp_path, first) == "cuda:0"
        assert [runner._own_gpu(tmp_path, others) for _ in range(2)] == ["cuda:1", "auto"]
        first.close()
        assert runner._own_gpu(tmp_path, others) == "cuda:0"


def test_a_machine_that_does_not_share_the_folder_is_told_of(tmp_path):
    here = {"root": tmp_path / "elsewhere", "folder": tmp_path, "device": "cpu"}
    index, why = runner._remote(3, fusion(), **here, data=None)
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
    root, told = tmp_path / "runs", []
    with ExitStack() as held:
        address = request.getfixturevalue("scheduler") if backend == "dask" else None
        for _ in range(2 if address else 0):
            held.enter_context(dask_worker(address, tmp_path))
        if address:
            client = held.enter_context(pytest.importorskip("distributed").Client(address))
            client.wait_for_workers(2)
        held.enter_context(parallel_config(backend))
        failed = run(missing(UNITS, root), root, jobs=2, device="cpu", on_result=lambda *each: told.append(each))
    assert failed == []
    assert {type(unit) for unit, _ in told[:2]} == {Parent} and len(told) == 7  # trainings first
    assert all_numbers(root) == some(straight, UNITS)
