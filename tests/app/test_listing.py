"""The list of runs: finished records are read once, and again when they change."""

import json
import shutil

import pytest

from retrofit_app import runs
from retrofit_app.runs import listing

from .analyses import copied


@pytest.fixture
def read(monkeypatch):
    """The records that were read."""
    names = []

    def read_entry(folder, shipped=False):
        names.append(folder.name)
        return runs.read_entry(folder, shipped)

    monkeypatch.setattr(listing, "read_entry", read_entry)
    return names


@pytest.fixture
def finished(runs_folder):
    shutil.copytree(runs.BUNDLED / "kf-linear", runs_folder / "mine")
    return runs_folder / "mine"


def test_runs_that_differ_in_a_setting_do_not_share_a_line(runs_folder):
    """In the picker they would be told apart by trying them."""
    for name, options in (("a", {"restarts": 3}), ("b", {"restarts": 4}), ("c", {"restarts": 4})):
        folder = copied(name, options=options)
        result = json.loads((folder / "result.json").read_text())
        result["config"] |= options
        (folder / "result.json").write_text(json.dumps(result))
    lines = runs.labels(runs.entries()[0])
    assert lines["kf-linear"] == "KF-Linear 93.0\N{NO-BREAK SPACE}% · cnn, shipped"
    assert [lines[name].partition("seed 0, ")[2] for name in "abc"] == ["restarts 3", "restarts 4, b", "restarts 4, c"]


def listed():
    return {entry.name: entry for entry in runs.entries()[0]}


def test_a_finished_record_is_read_once(finished, read):
    first = listed()["mine"]
    assert read.count("mine") == 1 and listed()["mine"] is first and read.count("mine") == 1


@pytest.mark.parametrize("name", ["status.json", "config.json"])
def test_a_finished_record_that_changes_is_read_again(finished, read, name):
    listed()
    content = json.loads((finished / name).read_text())
    (finished / name).write_text(json.dumps({**content, "note": "an analysis was added"}))
    listed()
    assert read.count("mine") == 2
