"""The command line, as a user calls it: in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from retrofit_core.cli import main

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def retrofit(*words, cwd, expect=0, **kwargs):
    """Run `python -m retrofit_core` and return the finished process."""
    done = subprocess.run(
        command(*words), cwd=cwd, env=environment(), capture_output=True, text=True, timeout=600, **kwargs
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done


def command(*words):
    return [sys.executable, "-m", "retrofit_core", *map(str, words)]


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "NO_COLOR": "1"}


@pytest.fixture(scope="module")
def parents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    found = json.loads(retrofit("train", "--epochs", 8, "--out", "parents", "--json", cwd=folder).stdout)
    assert [Path(parent["model"]).name for parent in found["parents"]] == [
        "parent-0.safetensors",
        "parent-1.safetensors",
    ]
    assert all(35 < parent["accuracy"] <= 55 for parent in found["parents"])  # five of ten classes each
    return folder


def fuse_words(folder, *more):
    return (
        "fuse",
        *sorted((folder / "parents").glob("*.safetensors")),
        "--splits",
        folder / "parents" / "splits.json",
        *more,
    )


def test_fuse_then_evaluate(parents):
    words = fuse_words(parents, "--importance", "conductance", "--out", "fused.safetensors", "--json")
    fused = json.loads(retrofit(*words, cwd=parents).stdout)
    assert [level["level"] for level in fused["levels"]][-1] == "classifier"
    measured = json.loads(retrofit("evaluate", "fused.safetensors", "--json", cwd=parents).stdout)
    assert 75 < measured["accuracy"] <= 100  # per cent; no parent can pass 55
    assert len(measured["per_class"]) == 10
    shown = retrofit("evaluate", "fused.safetensors", "parents/parent-0.safetensors", "--ensemble", cwd=parents).stdout
    assert f"{measured['accuracy']:.2f}" in shown and "ensemble" in shown


def tensors_of(path):
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118 - not a dict


def assert_same_tensors(left, right):
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert torch.equal(tensor, right[name])


def test_the_same_seed_gives_the_same_numbers(parents):
    for name in ("a", "b"):
        retrofit(*fuse_words(parents, "--seed", 3, "--out", f"{name}.safetensors"), cwd=parents)
    (left, left_facts), (right, right_facts) = (tensors_of(parents / f"{name}.safetensors") for name in ("a", "b"))
    assert_same_tensors(left, right)
    assert left_facts == right_facts


def test_every_method_runs_and_evaluates(parents):
    for method in ("hf-linear", "kf-linear", "hf-gradient", "kf-gradient"):
        words = fuse_words(parents, "--method", method, "--samples", 100, "--evaluate", "--record", f"record-{method}")
        shown = retrofit(*words, cwd=parents).stdout
        assert "ensemble" in shown and "average" in shown and "Fused 2 parents" in shown


def test_levels_lists_the_partition(parents):
    found = json.loads(retrofit("levels", "parents/parent-0.safetensors", "--json", cwd=parents).stdout)
    assert [level["level"] for level in found["levels"]] == ["features.0", "features.2", "features.5", "classifier"]
    assert "features.5" in retrofit("levels", "parents/parent-0.safetensors", cwd=parents).stdout
    merged = json.loads(
        retrofit("levels", "parents/parent-0.safetensors", "--boundaries", 2, "--json", cwd=parents).stdout
    )
    assert len(merged["levels"]) == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fuse"], "name at least one checkpoint"),
        (["fuse", "missing.safetensors", "--out", "x.safetensors"], "--fusion-from iid"),
        (["fuse", "missing.safetensors", "--fusion-from", "iid", "--out", "x.safetensors"], "no checkpoint at missing"),
        (["fuse", "a.safetensors", "--out", "x.pt"], "end the name in .safetensors"),
        (["fuse", "a.safetensors", "--out", "nowhere/x.safetensors"], "does not exist"),
        (["fuse", "a.safetensors"], "--out FILE.safetensors"),
        (["fuse", "a.safetensors", "--fusion-from", "iid", "--data", "nowhere", "--out", "x.safetensors"], "nowhere"),
        (["evaluate", "missing.safetensors"], "no checkpoint at missing"),
        (["levels", "missing.safetensors"], "no checkpoint at missing"),
        (["train", "--arch", "vgg99"], "vgg99"),
        (["fuse", "a.safetensors", "--ridge", "strong", "--out", "x.safetensors"], "is not a number"),
    ],
)
def test_errors_are_one_sentence_with_exit_code_2(words, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert shown.err.count("\n") == 1 and "Traceback" not in shown.err
    assert list(tmp_path.iterdir()) == []


def test_unknown_choices_name_the_known_ones(capsys):
    assert main(["fuse", "a", "--method", "kf-lineer", "--out", "x.safetensors"]) == 2
    assert "Did you mean 'KF-Linear'?" in capsys.readouterr().err
    assert main(["fuse", "a", "--toward", "infinity", "--out", "x.safetensors"]) == 2
    assert "Known: zero, parents" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "train", "fuse", "evaluate", "levels", "app"])
def test_help_teaches(name, capsys):
    assert main([word for word in (name, "--help") if word]) == 0
    shown = capsys.readouterr().out
    assert "Usage: retrofit" in shown
    if name not in ("", "app"):
        assert "Example:" in shown


def test_control_c_leaves_no_half_written_file_and_the_record_resumes(parents):
    words = fuse_words(parents, "--method", "kf-gradient", "--record", "stopped", "--out", "stopped.safetensors")
    process = subprocess.Popen(command(*words), cwd=parents, env=environment(), stderr=subprocess.PIPE, text=True)
    deadline = time.time() + 120
    while not (parents / "stopped" / "partial.safetensors").exists():
        assert time.time() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert "Interrupted" in process.stderr.read()
    process.stderr.close()
    assert not (parents / "stopped.safetensors").exists()
    assert not list(parents.rglob("*.tmp")) and not list(parents.rglob("*.part"))
    assert json.loads((parents / "stopped" / "status.json").read_text())["state"] == "cancelled"
    retrofit("fuse", "--resume", "stopped", "--out", "stopped.safetensors", cwd=parents)
    straight = fuse_words(parents, "--method", "kf-gradient", "--out", "straight.safetensors")
    retrofit(*straight, cwd=parents)
    assert_same_tensors(*(tensors_of(parents / f"{name}.safetensors")[0] for name in ("stopped", "straight")))


def test_the_mnist_pair_as_in_the_issue(shared, tmp_path):
    models = [shared / "models" / f"mnist-mlp-noniid2-{k}.safetensors" for k in (0, 1)]
    splits = shared / "models" / "mnist-mlp-noniid2-splits.json"
    words = ["fuse", *models, "--data", shared / "data" / "mnist", "--splits", splits, "--method", "kf-linear",
             "--importance", "conductance", "--samples", 400, "--seed", 0, "--out", "fused.safetensors"]  # fmt: skip
    retrofit(*words, cwd=tmp_path)
    found = retrofit("evaluate", "fused.safetensors", "--data", shared / "data" / "mnist", "--json", cwd=tmp_path)
    assert json.loads(found.stdout)["accuracy"] >= 94.0
