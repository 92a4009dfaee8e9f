"""The command line: in this process, and as a user calls it where the process itself is what is tested."""

import contextlib
import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from retrofit_core.cli import main
from retrofit_core.data import load
from retrofit_core.networks.architectures import build
from retrofit_core.networks.checkpoints import load_model, save_model
from retrofit_core.training.evaluation import evaluate
from tests.marks import each_case

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow
KF, OUT = ["--method", "kf-linear"], ["--out", "x.safetensors"]


def retrofit(*words, cwd, expect=0):
    """Run a command in this process, as `main` does for a user, and return its exit code and what it printed.

    A process of its own for each would spend four seconds in imports; the tests of signals start real ones.
    """
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    done = subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
    assert done.returncode == expect, done.stdout + done.stderr
    return done


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "NO_COLOR": "1"}


@pytest.fixture(scope="module")
def parents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    output = json.loads(retrofit("train", "--epochs", 8, "--out", "parents", "--json", cwd=folder).stdout)
    assert [Path(parent["model"]).name[:8] for parent in output["parents"]] == ["parent-0", "parent-1"]
    assert all(35 < parent["accuracy"] <= 55 for parent in output["parents"])  # five of ten classes each
    return folder


def fuse_words(folder, *more):
    parents, splits = sorted((folder / "parents").glob("*.safetensors")), folder / "parents" / "splits.json"
    return "fuse", *parents, "--splits", splits, "--method", "kf-linear", *more


def test_fuse_then_evaluate(parents):
    words = fuse_words(parents, "--importance", "conductance", "--out", "fused.safetensors", "--json")
    fused = json.loads(retrofit(*words, cwd=parents).stdout)
    assert [level["level"] for level in fused["levels"]][-1] == "classifier"
    measured = json.loads(retrofit("evaluate", "fused.safetensors", "--json", cwd=parents).stdout)
    assert 75 < measured["accuracy"] <= 100  # per cent; no parent can pass 55
    assert len(measured["per_class"]) == 10
    (parents / "again").mkdir()
    shutil.copy(parents / "parents" / "parent-1.safetensors", parents / "again" / "fused.safetensors")
    shown = retrofit("evaluate", "fused.safetensors", "again/fused.safetensors", cwd=parents).stdout
    other = evaluate(load_model(parents / "again/fused.safetensors")[0], load("digits", "test"))["accuracy"]
    assert f"{measured['accuracy']:.2f}" in row_of("fused.safetensors", shown)
    assert f"{other:.2f}" in row_of("fused.safetensors (2)", shown)


def tensors_of(path):
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118 - not a dict


def assert_same_tensors(left, right):
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert torch.equal(tensor, right[name])


def row_of(name, printed):
    """The line of a printed table that begins with a name, without its frame."""
    lines = [line.strip(" │|") for line in printed.splitlines()]
    return next(line for line in lines if re.match(rf"{re.escape(name)}\s", line))


def test_the_table_of_levels_has_each_levels_errors(parents):
    words = fuse_words(parents, "--importance", "conductance", "--out", "of-the-table.safetensors")
    levels = json.loads(retrofit(*words, "--json", cwd=parents).stdout)["levels"]
    printed = retrofit(*words, "--overwrite", cwd=parents).stdout
    for level in levels:
        shares = [f"{100 * level[name]:.2f}" for name in ("grouping share", "approximation share")]
        assert re.findall(r"\d+\.\d\d\b", row_of(level["level"], printed))[:2] == shares


@each_case(
    ("words", "sentence"),
    [
        (["fuse"], "name at least one checkpoint"),
        (["fuse", "/dev/null", "--out", "x.safetensors"], "--fusion-from iid"),
        (["fuse", "missing.safetensors", "--fusion-from", "iid", "--out", "x.safetensors"], "no checkpoint at missing"),
        (["fuse", "a.safetensors", "--out", "x.pt"], "Use a name that ends in .safetensors"),
        (["fuse", "a.safetensors", "--out", "nowhere/x.safetensors"], "does not exist"),
        (["fuse", "a.safetensors"], "--out FILE.safetensors"),
        (["fuse", "--record", "r", "--seed", "4", "--analyse"], "omit --seed"),
        (["fuse", "a.safetensors", "--record", "/dev/null/x"], "--record /dev/null/x: /dev/null is not a folder"),
        (
            ["compare", "a.safetensors", "--records", "/dev/null/x", "--fusion-from", "iid"],
            "--records /dev/null/x: /dev/",
        ),
        (["train", "--arch", "vgg99"], "vgg99"),
        (["fuse", "/dev/null", "--fusion-from", "iid", *KF, "--ridge", "strong", *OUT], "ridge is 'strong'"),
    ],
)
def test_errors_are_one_sentence_with_exit_code_2(words, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert shown.err.count("\n") == 1 and "Traceback" not in shown.err
    assert list(tmp_path.iterdir()) == []


@each_case(
    ("words", "read"),
    [
        (["fuse", "a", "b", "--fusion-from", "iid", "--out", "link"], "a"),
        (["fuse", "a", "b", "--fusion-from", "iid", "--out", "b"], "b"),
    ],
)
def test_no_command_overwrites_what_it_reads(words, read, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {name: f"{name}.safetensors" for name in ("a", "b", "link")}
    words = [names.get(word, word) for word in words]
    for name in ("a", "b"):
        Path(names[name]).write_text(name)
    Path("link.safetensors").symlink_to("a.safetensors")
    before = {path: path.read_text() for path in tmp_path.rglob("*.*")}
    assert main([*words, "--overwrite"]) == 2
    shown = capsys.readouterr().err
    assert f"this command reads {names.get(read, read)}" in shown and shown.count("\n") == 1
    assert {path: path.read_text() for path in tmp_path.rglob("*.*")} == before


@each_case(
    ("words", "file"),
    [
        (["fuse", "a", "--fusion-from", "iid", "--out", "x.safetensors"], "x.safetensors"),
        (["train", "--out", "parents"], "parents/parent-1.safetensors"),
        (["compare", "a", "--fusion-from", "iid", "--out", "board"], "board/leaderboard.json"),
        (["landscape", "--record", "a", "--out", "land"], "land/landscape.json"),
        (["learn", "--out", "x.html", "--no-browser"], "x.html"),
    ],
)
def test_existing_files_are_replaced_only_if_asked(words, file, tmp_path, capsys, monkeypatch):
    """The refusal comes before any work: the checkpoint `a` does not exist."""
    monkeypatch.chdir(tmp_path)
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text("kept")
    monkeypatch.setattr("retrofit_core.runs.parents._check_same_parents", lambda *_: None)
    Path("training.json").write_text("{}")  # so that `a` may be trained
    assert main(words) == 2
    shown = capsys.readouterr().err
    assert f"{file} exists." in shown and "--overwrite" in shown and shown.count("\n") == 1
    assert Path(file).read_text() == "kept" and len(list(tmp_path.iterdir())) == 2


def test_help_beside_a_method_lists_its_options(capsys):
    assert main(["fuse", "--method", "zipit", "--help"]) == 0
    assert "    reset_norms = True: true or false." in capsys.readouterr().out
    assert main(["fuse", "--method", "zipt", "--help"]) == 2
    assert "Did you mean 'ZipIt'" in " ".join(capsys.readouterr().err.replace("│", "").split())  # in a box


@each_case("name", ["", "train", "fuse", "evaluate", "compare", "landscape", "reproduce", "app", "learn"])
def test_help_teaches(name, capsys):
    assert main([word for word in (name, "--help") if word]) == 0
    shown = capsys.readouterr().out
    assert "Usage: retrofit" in shown
    if name not in ("", "app"):
        assert "Example:" in shown


def test_the_version_is_that_of_the_package(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"{version('retrofit-workbench')}\n"


#: The command, which hears Ctrl-C also where whoever runs the tests ignores it, as shells do for jobs in the background.
HEARING = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "import runpy; runpy.run_module('retrofit_core', run_name='__main__', alter_sys=True)"
)


def begun(*words, cwd):
    return subprocess.Popen(
        [sys.executable, "-c", HEARING, *map(str, words)], cwd=cwd, env=environment(), stderr=subprocess.PIPE, text=True
    )


@pytest.mark.long
def test_a_stopped_training_resumes_to_the_same_checkpoints(tmp_path):
    words = ("train", "--epochs", 12, "--seed", 5, "--out")
    for stop, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        state = tmp_path / "stopped" / "parent-1.unfinished"
        process = begun(*words, "stopped", *(["--resume"] if state.exists() else []), cwd=tmp_path)
        before = state.stat().st_mtime_ns if state.exists() else 0
        deadline = time.time() + 120
        while not state.exists() or state.stat().st_mtime_ns == before:
            assert time.time() < deadline and process.poll() is None
            time.sleep(0.01)
        process.send_signal(stop)
        shown = process.communicate(timeout=60)[1]
        assert process.returncode == code
        assert stop == signal.SIGKILL or ("parent-1.safetensors is not written yet" in shown and "--resume" in shown)
        assert not (tmp_path / "stopped" / "parent-1.safetensors").exists()
    assert (
        "To start again from the beginning, remove that file"
        in retrofit(*words, "stopped", cwd=tmp_path, expect=2).stderr
    )
    other = retrofit(*words, "stopped", "--learning-rate", 0.1, "--resume", cwd=tmp_path, expect=2).stderr
    assert "learning_rate 0.003, this training has 0.1" in other
    retrofit(*words, "stopped", "--resume", cwd=tmp_path)
    retrofit(*words, "straight", cwd=tmp_path)
    for name in ("parent-0.safetensors", "parent-1.safetensors"):
        left, right = (tensors_of(tmp_path / folder / name) for folder in ("stopped", "straight"))
        assert_same_tensors(left[0], right[0])
        assert left[1] == right[1]
    files = {path.name for path in (tmp_path / "stopped").iterdir()}
    assert files == {"parent-0.safetensors", "parent-1.safetensors", "splits.json", "training.json"}


@pytest.mark.long
def test_analyse_makes_again_what_fuse_made(parents, monkeypatch, capsys):
    retrofit(*fuse_words(parents, "--record", "analysed", "--analyse"), cwd=parents)
    kept = json.loads((parents / "analysed" / "analysis.json").read_text())
    monkeypatch.chdir(parents)
    assert main(["fuse", "--record", "analysed", "--analyse", "--json"]) == 0
    added = json.loads(capsys.readouterr().out)
    assert added["accuracy"] == kept["accuracy"] and added["samples"] == kept["samples"] == 359
    assert main(["fuse", "--record", "analysed", "--analyse"]) == 0
    assert f"The analysis of {len(added['levels'])} levels is in analysed" in capsys.readouterr().out
    assert main([*map(str, fuse_words(parents, "--analyse", "--out", "fused-too.safetensors"))]) == 2
    assert "name the record's folder (--record)" in capsys.readouterr().err


# --- lines to go on with, which are pasted into a shell -----------------------------------------------------------------


def test_a_full_disk_is_one_sentence(parents, monkeypatch):
    """The table of a record's levels finds no space; with room, the record is run again."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pandas.DataFrame.to_parquet", full)
    shown = retrofit(*fuse_words(parents, "--samples", 40, "--record", "full"), cwd=parents, expect=2).stderr
    assert "could not write: No space left on device. Make room" in shown
    assert shown.count("\n") == 1 and not list((parents / "full").glob("levels*"))
    monkeypatch.undo()
    retrofit("fuse", "--record", "full", cwd=parents)


def test_names_with_brackets_and_colons_are_printed_as_they_are(tmp_path):
    """rich reads [a] as a style, [/] as its end, and :cat: as a picture."""
    from PIL import Image

    classes = ["[ema]", "dog [big]", "dog [small]", ":cat:"]
    for split in ("train", "test"):
        for k, name in enumerate(classes):
            (tmp_path / "photos [1]" / split / name).mkdir(parents=True)
            for image in range(4):
                Image.new("L", (8, 8), 60 * k + image).save(tmp_path / "photos [1]" / split / name / f"{image}.png")
    files = ["run[a].safetensors", "run[b].safetensors"]
    spec = {"architecture": "mlp", "sizes": [192, 8, 4]}
    for seed, file in enumerate(files):
        save_model(build(spec, seed=seed), tmp_path / file, classes=sorted(classes))
    shown = retrofit("evaluate", *files, "--data", "photos [1]", cwd=tmp_path).stdout
    assert all(name in shown for name in (*files, *classes)), shown
