"""Fixtures for the workbench: a runs folder of its own, the shipped runs, a worker that only sleeps."""

import sys
from pathlib import Path

import pytest
from retrofit_app import bundle, jobs
from retrofit_app.jobs.processes import CHILDREN

from retrofit_core.runs import Run, RunConfig, read_run


@pytest.fixture
def runs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runs"
    monkeypatch.setenv("RETROFIT_RUNS", str(folder))
    return folder


@pytest.fixture(scope="session")
def shipped() -> Run:
    return read_run(jobs.BUNDLED / "kf-linear")


@pytest.fixture
def config() -> RunConfig:
    """Work that is not shipped."""
    return bundle.config("HF-Linear", importance="uniform", samples=50, seed=3)


@pytest.fixture
def sleeper(monkeypatch: pytest.MonkeyPatch):
    """Workers that do nothing for a minute; they are ended after the test."""
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr("retrofit_app.jobs.workers.worker_command", lambda folder, work="fuse": command)
    before = set(CHILDREN)
    yield
    for pid in set(CHILDREN) - before:
        CHILDREN[pid].kill()
        CHILDREN.pop(pid).wait()
