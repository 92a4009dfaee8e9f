"""`torchrun ... -m retrofit_core fuse`: two processes with half of the samples each end with the network of one."""

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from retrofit_core import load_model, runs
from retrofit_core.cli import main
from retrofit_core.data import load
from retrofit_core.networks import user_code
from retrofit_core.networks.checkpoints import read_tensors
from retrofit_core.runs.config import RunConfig
from retrofit_core.system.monitor import Cancelled, Monitor
from retrofit_core.training.parents import TrainConfig, train_parents

#: Process 1 of this user's network ends once it is asked for a level's sums, or for a step of a gradient fit.
DYING = """
import os
import shlex
from torch import nn

def make(size, classes):
    if os.environ.get("RANK") == "1" and "DIE" in os.environ:
        from retrofit_core.fusion.walk import Step
        from retrofit_core.training.descent import Share
        setattr({"moments": Step, "part": Share}[os.environ["DIE"]], os.environ["DIE"], lambda *_, **__: os._exit(9))
    return nn.Sequential(nn.Flatten(), nn.Linear(size * size, 12), nn.ReLU(), nn.Linear(12, classes))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two networks of a user's own code, trained for an epoch."""
    folder = tmp_path_factory.mktemp("team")
    (folder / "dying.py").write_text(DYING)
    training = TrainConfig("digits", (f"{folder}/dying.py:make",), epochs=1, device="cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(user_code, "_closed", False)  # as in the workbench, which another test may have started
        train_parents(training, folder / "parents", resume=True, test=False)
        yield folder


@pytest.fixture
def config(folder):
    parents = [str(folder / "parents" / f"parent-{index}.safetensors") for index in (0, 1)]
    return RunConfig(
        tuple(parents),
        "digits",
        splits=str(folder / "parents" / "splits.json"),
        arch=f"{folder}/dying.py:make",
        method="KF-Linear",
        importance="conductance",
        samples=101,
        importance_samples=60,
        device="cpu",
    )


def torchrun(*words, **environment):
    """Two processes; standard output and error, and whether they ended well."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "retrofit_core", *words]
    done = subprocess.run(
        [*map(str, command)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stdout + done.stderr, done.returncode == 0


def words(config, *others):
    return [*shlex.split(config.command())[1:], *others]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["KF-Linear", pytest.param("KF-Gradient", marks=pytest.mark.long)])
def test_two_processes_make_the_network_of_one(method, config, tmp_path):
    config = replace(config, method=method)
    alone, _ = runs.execute(config, tmp_path / "alone")
    said, well = torchrun(
        *words(config), "--evaluate", "--record", tmp_path / "run", "--out", tmp_path / "two.safetensors"
    )
    assert well and said.count("Fused 2 parents") == 1, said
    images = load("digits", "test").inputs()
    with torch.no_grad():
        together, expected = load_model(tmp_path / "two.safetensors", config.arch)[0](images), alone.model(images)
    torch.testing.assert_close(together, expected, rtol=0, atol=1e-4 * expected.abs().max().item())
    run = runs.read_run(tmp_path / "run")
    assert run.state == "done" and run.metrics["networks"]["fused"]["samples"] == len(images)
    assert [level.rows for level in run.levels] == [level.rows for level in alone.levels] == [101, 101]


@pytest.mark.long
def test_they_take_over_the_levels_of_an_interrupted_run(config, tmp_path):
    def stop(event):
        if event["kind"] == "level" and event["index"] == 1:
            raise Cancelled

    with pytest.raises(Cancelled):
        runs.execute(config, tmp_path / "run", Monitor(stop))
    kept = runs.read_run(tmp_path / "run").levels
    said, well = torchrun("fuse", "--resume", tmp_path / "run")
    assert well, said
    run = runs.read_run(tmp_path / "run")
    assert run.state == "done" and len(kept) == 1 and run.levels[0].seconds == kept[0].seconds


@pytest.mark.long
@pytest.mark.parametrize(
    ("others", "why"),
    [
        (
            ["--method", "average", "--importance", "uniform"],
            "Average needs all samples in one process. Use one of",
        ),
        (
            ["--method", "auto", "--importance", "uniform"],
            "Auto needs all samples in one process. Use one of",
        ),
        (["--samples", "1"], "2 processes cannot share 1 samples"),
        (
            ["--method", "KF-Gradient", "--samples", "9"],
            "the fusion set holds 9 samples; fit='gradient' needs at least 10",
        ),
    ],
)
def test_what_cannot_be_shared_is_refused_with_one_sentence(others, why, config, tmp_path):
    said, well = torchrun(*words(config), *others, "--record", tmp_path / "run", "--out", tmp_path / "out.safetensors")
    assert not well and said.count(f"Error: {why}") == 1, said
    assert not (tmp_path / "out.safetensors").exists()


@pytest.mark.long
@pytest.mark.parametrize(("method", "place"), [("KF-Linear", "moments"), ("KF-Gradient", "part")])
def test_a_process_that_dies_ends_the_run(method, place, config, tmp_path):
    out = tmp_path / "out.safetensors"
    command = words(config, "--method", method, "--record", tmp_path / "run", "--out", out)
    said, well = torchrun(*command, DIE=place)
    assert not well and said.count("Error: another process of this run ended, so the run ended too.") == 1, said
    assert json.loads((tmp_path / "run" / "status.json").read_text())["state"] == "failed" and not out.exists()


@pytest.mark.long
def test_parties_end_with_one_network(config, tmp_path):
    """Each on its own samples; the command says what is wrong with a party's words."""
    shared = [*words(config), "--importance-data", "fusion", "--shared", str(tmp_path / "exchange")]
    commands = [
        [
            *shared,
            "--party",
            f"{number}/2",
            "--seed",
            "0",
            "--samples",
            samples,
            "--out",
            str(tmp_path / f"{number}.safetensors"),
        ]
        for number, samples in ((0, "40"), (1, "60"))
    ]
    started = [subprocess.Popen([sys.executable, "-m", "retrofit_core", *command]) for command in commands]
    assert [process.wait(timeout=300) for process in started] == [0, 0]
    first, second = (read_tensors(tmp_path / f"{number}.safetensors") for number in (0, 1))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("others", "why"),
    [
        (["--party", "0/2"], "--party K/N and --shared FOLDER belong together"),
        (["--party", "2", "--shared", "x"], "--party K/N and --shared FOLDER belong together"),
        (["--party", "0/2", "--shared", "x"], "Add --importance-data fusion"),
    ],
)
def test_words_of_a_party(others, why, config, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*words(config), *others, "--out", "x.safetensors"]) == 2
    assert why in capsys.readouterr().err and not list(tmp_path.iterdir())
