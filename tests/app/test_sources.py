"""Data sets that are found, and uploads that nobody has to trust."""

import json
import struct

import pytest

from retrofit_app import bundle, runs
from retrofit_app.models import sources, uploads
from retrofit_core.runs import RunConfig, create


def packed(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


GOOD = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()


def test_data_sets_are_found_beside_the_runs_and_where_the_variable_says(runs_folder, tmp_path, monkeypatch):
    (tmp_path / "data" / "mnist").mkdir(parents=True)
    (tmp_path / "data" / ".hidden").mkdir()
    (tmp_path / "data" / "notes.txt").touch()
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    (elsewhere / "cifar10").mkdir(parents=True)
    monkeypatch.setenv(sources.VARIABLE, str(elsewhere))
    assert sources.data_sets() == ["digits", "../data/mnist", str(elsewhere / "cifar10")]


def test_an_upload_is_kept_under_its_content_and_only_that_can_be_deleted(runs_folder):
    content = (runs.BUNDLED / bundle.PARENTS[0]).read_bytes()
    name = uploads.keep("net a.safetensors", content)
    assert uploads.keep("net a.safetensors", content) == name and uploads.is_upload(name)
    assert uploads.title(name) == "net a.safetensors"
    assert (runs_folder / name).read_bytes() == content
    (runs_folder / "victim.safetensors").touch()
    for other in (
        "victim.safetensors",
        "uploads/../victim.safetensors",
        "uploads/x.safetensors",
        "uploads/0123456789abcdef/../../victim.safetensors",
    ):
        uploads.forget(other)
    assert (runs_folder / "victim.safetensors").exists()
    assert uploads.forget(name) is None
    assert not list((runs_folder / "uploads").iterdir())


@pytest.mark.parametrize(("state", "deleted"), [("cancelled", False), ("running", False), ("done", True)])
def test_what_a_run_reads_that_is_not_finished_is_not_deleted(runs_folder, state, deleted):
    name = uploads.keep("a.safetensors", packed(GOOD, bytes(4)))
    create(runs_folder / "mine", RunConfig(models=(name,)), runs_folder)
    (runs_folder / "mine" / "status.json").write_text(json.dumps({"schema": 2, "state": state}))
    (runs_folder / "mine" / "metrics.json").write_text("{}")
    reader = uploads.forget(name)
    assert (reader is None) == deleted and (runs_folder / name).exists() != deleted
    assert reader is None or reader.name == "mine"


def test_a_whole_upload_passes_and_a_huge_one_does_not(monkeypatch):
    uploads.check(packed(GOOD, b"1234"))
    monkeypatch.setattr(uploads, "LARGEST_UPLOAD", 10)
    with pytest.raises(ValueError, match="limit"):
        uploads.check(packed(GOOD, b"1234"))
