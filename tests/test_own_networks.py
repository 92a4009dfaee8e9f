"""Networks of others: a user's own functions, timm's and torchvision's; who may import what, and how they are read again."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from retrofit_core.cli import main
from retrofit_core.data import load
from retrofit_core.networks import user_code
from retrofit_core.networks.architectures import build, fitted, input_shape, parse
from retrofit_core.networks.checkpoints import load_model, read_metadata, save_model
from retrofit_core.runs import RunConfig, analyse_record, execute
from retrofit_core.runs.finished import read_finished
from retrofit_core.runs.parents import train_parents, write_training
from retrofit_core.runs.store import FUSION, Work
from retrofit_core.runs.worker import Job, command_of
from retrofit_core.training.config import TrainConfig
from tests.own_networks import MYNET

pytestmark = pytest.mark.slow

DIGITS = (1, 8, 8)


def made(name="mynet:small", **keywords):
    user_code.allow(name)
    return build({**fitted(parse(name), DIGITS, 10), **keywords}, seed=0)


# --- names and what data decide -------------------------------------------------------------------


def test_a_factory_gets_what_its_signature_asks_for(mynet):
    model = made(width=5)
    assert model.conv.weight.shape == (5, 1, 3, 3) and model.out.out_features == 10
    assert model.spec == {
        "architecture": "mynet:small",
        "channels": 1,
        "num_classes": 10,
        "input": [1, 8, 8],
        "width": 5,
    }
    assert input_shape(model.spec) == DIGITS


def test_a_file_and_its_module_are_the_same_network(mynet, tmp_path, monkeypatch):
    (tmp_path / "nets").mkdir()
    mynet.rename(tmp_path / "nets" / "mynet.py")
    assert parse("nets/mynet.py:small") == {"architecture": "mynet:small"} == parse("mynet:small")
    assert torch.equal(made("nets/mynet.py:small").conv.weight, made(str(tmp_path / "nets/mynet.py:small")).conv.weight)
    (tmp_path / "nets" / "inner.py").write_text("from .mynet import small as make")
    (tmp_path / "nets" / "__init__.py").write_text("")
    assert made("nets.inner:make").spec["architecture"] == "nets.inner:make"


def test_modules_of_one_name_are_told_apart(mynet, tmp_path):
    made()
    (tmp_path / "other").mkdir()
    mynet.rename(tmp_path / "other" / "mynet.py")
    with pytest.raises(
        ValueError, match="other/mynet.py, but the module of that name is .*mynet.py.* Rename the module"
    ):
        made("other/mynet.py:small")
    Path("json.py").write_text(MYNET)
    with pytest.raises(ValueError, match="Rename the module"):
        made("json.py:small")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mynet:smal", "defines no function or class 'smal'"),
        ("mynet:number", "gives int. Let it return a torch.nn.Module"),
        ("gone_module:make", "neither in the current folder nor installed"),
        ("broken:make", r"broken.py cannot be imported \(ZeroDivisionError: division by zero\)"),
        ("mynet:Small", r"cannot be built with \(num_classes=10, channels=1\): TypeError: .*missing 1 required"),
    ],
)
def test_what_cannot_be_built_is_said_in_a_sentence(mynet, name, message):
    mynet.with_name("broken.py").write_text("1 / 0")
    with pytest.raises(ValueError, match=message):
        made(name)


def test_a_network_with_a_spec_of_its_own_is_refused(mynet):
    mynet.write_text(
        "from torch import nn\ndef make():\n    net = nn.Linear(2, 2)\n    net.spec = {}\n    return net\n"
    )
    with pytest.raises(ValueError, match="has an attribute 'spec'"):
        made("mynet:make")


# --- trust ----------------------------------------------------------------------------------------


@pytest.fixture
def stranger(mynet):
    """A checkpoint and a record of a module that leaves a mark when it runs; nobody has named it."""
    mynet.write_text(MYNET + "\nfrom pathlib import Path\nPath('ran').touch()\n")
    for index in range(2):
        save_model(build(made().spec, seed=index), f"net-{index}.safetensors")
    models = ("net-0.safetensors", "net-1.safetensors")
    config = RunConfig(models, arch="mynet:small", method="HF-Linear", fusion_from="iid", samples=20, device="cpu")
    execute(config, "run")
    forget(mynet)
    return config


def forget(mynet):
    user_code._files.clear()
    sys.modules.pop("mynet")
    sys.path.remove(str(mynet.parent))
    Path("ran").unlink(missing_ok=True)


def test_files_import_nothing_that_nobody_named(stranger, mynet):
    spec = {"architecture": "mynet:small", "channels": 1, "num_classes": 10, "input": [1, 8, 8]}
    for read in (
        lambda: load_model("net-0.safetensors"),
        lambda: build(spec),
        lambda: fitted(spec, DIGITS, 10),
        lambda: read_finished("run"),
        lambda: analyse_record("run"),
    ):
        with pytest.raises(
            user_code.NotAllowed, match=r"importing a module runs its code. .*name it: --arch mynet:small"
        ):
            read()
    assert not Path("ran").exists()
    user_code.allow("mynet:small")
    read, facts = load_model("net-0.safetensors", "mynet:small")
    assert Path("ran").exists() and facts["architecture"] == spec
    x = torch.randn(3, 1, 8, 8)
    assert torch.equal(load_model("net-0.safetensors")[0](x), read(x))  # it was named now
    assert read_finished("run").parents


def test_a_record_gets_the_users_module_not_its_own(stranger, mynet, tmp_path):
    evil = tmp_path / "evil" / "mynet.py"
    evil.parent.mkdir()
    evil.write_text(MYNET)
    user_code.allow("evil/mynet.py:small")
    execute(dataclasses.replace(stranger, arch="evil/mynet.py:small"), "theirs")
    forget(evil)
    evil.write_text("open('evil-ran', 'w')")
    user_code.allow("mynet:small")
    assert read_finished("theirs").parents and Path("ran").exists() and not Path("evil-ran").exists()


@pytest.mark.parametrize(
    "words",
    [
        "fuse --record run",
        "fuse --record run --analyse",
        "landscape --record run --resolution 3 --images 20",
        "train --record run --epochs 1",
        "compare net-0.safetensors net-1.safetensors --methods average --fusion-from iid --samples 20",
    ],
)
def test_commands_import_what_was_typed_and_nothing_else(stranger, mynet, words, capsys):
    assert main(words.split()) != 0
    said = capsys.readouterr()
    assert "name it: --arch mynet:small" in " ".join((said.err + said.out).split()) and not Path("ran").exists()
    assert main([*words.split(), "--arch", "other:small"]) != 0 and not Path("ran").exists()
    assert main([*words.split(), "--arch", "mynet.py:small"]) == 0 and Path("ran").exists()


def test_a_file_names_only_what_its_user_named(mynet):
    model = made()
    for name in ("mynet:run", "mynet:rows", "os:system"):
        save_model(model, "net.safetensors", architecture={"architecture": name, "command": "true"})
        with pytest.raises(user_code.NotAllowed, match=f"name it: --arch {name}"):
            load_model("net.safetensors")


def test_a_training_that_only_a_file_asks_for_imports_nothing(mynet):
    config = TrainConfig(arch=("mynet:small",), epochs=1, device="cpu")
    Path("stranger").mkdir()
    write_training(config, "stranger")
    run = RunConfig(models=config.files("stranger"), splits=config.splits("stranger"), device="cpu")
    with pytest.raises(user_code.NotAllowed, match="name it: --arch mynet:small"):
        execute(run)


def test_a_server_takes_what_its_start_named_and_nothing_else(mynet, monkeypatch):
    monkeypatch.setenv(user_code.VARIABLE, f"{mynet}:small")
    for name in ("mynet:small", "elsewhere/mynet.py:small"):  # both are the one that was named
        assert build(fitted(parse(name), DIGITS, 10)).conv.out_channels == 6
    with pytest.raises(user_code.NotAllowed, match="also of `retrofit app`"):
        build(fitted(parse("mynet:rows"), DIGITS, 10))


def test_a_worker_takes_code_from_where_the_user_named_it_not_from_the_records_folder(mynet, monkeypatch, tmp_path):
    """Neither as an architecture, nor because a module there has the name of one that it imports."""
    monkeypatch.setenv(user_code.VARIABLE, f"{mynet}:small")
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    for name in ("mynet.py", "typer.py"):
        (stranger / name).write_text("raise SystemExit('a stranger ran')")
    monkeypatch.chdir(stranger)
    assert main(["evaluate", "missing.pt", "--arch", "mynet:small"]) and user_code._files["mynet:small"] == mynet
    job = Job(Work(FUSION, stranger), ("--help",), stranger, tmp_path)
    done = subprocess.run(command_of(job), cwd=stranger, capture_output=True, text=True)
    assert "a stranger ran" not in done.stdout + done.stderr


@pytest.mark.parametrize("named", ["mynet.py:small", "mynet:small"])
def test_the_environment_names_files_of_the_folder_in_which_it_was_typed(mynet, named, monkeypatch, tmp_path):
    monkeypatch.chdir(mynet.parent)
    monkeypatch.setenv(user_code.VARIABLE, named)
    user_code.allowed()
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path / "runs")  # as a worker, which inherits the environment
    user_code._files.clear()
    assert user_code.allowed() == ["mynet:small"] and user_code._files["mynet:small"] == mynet


# --- checkpoints ----------------------------------------------------------------------------------


def test_a_bare_checkpoint_takes_what_the_images_tell(mynet):
    model = made("mynet:rows")
    torch.save(model.state_dict(), "net.pt")
    read, facts = load_model("net.pt", "mynet:rows", like=load("digits"))
    assert facts["architecture"] == model.spec and torch.equal(read.out.weight, model.out.weight)
    with pytest.raises(ValueError, match="missing 3 required"):
        load_model("net.pt", "mynet:rows")


# --- runs -----------------------------------------------------------------------------------------


@pytest.fixture
def parents(mynet):
    """Two trained for an epoch."""
    config = TrainConfig(arch=("mynet:rows",), epochs=1, device="cpu")
    user_code.allow("mynet:rows")
    train_parents(config, "parents")
    return RunConfig(
        models=config.files("parents"),
        splits=config.splits("parents"),
        arch="mynet:rows",
        method="KF-Linear",
        samples=60,
        device="cpu",
    )


def test_every_command_takes_it(parents, capsys):
    models, arch = list(parents.models), ["--arch", "mynet:rows"]
    fused = ["--splits", parents.splits, "--samples", "60", "--device", "cpu"]
    comparing = ["compare", *models, *arch, *fused, "--methods", "average,ensemble,zipit", "--records", "r", "--json"]
    assert main(comparing) == 0
    board = json.loads(capsys.readouterr().out)
    assert all(row["reason"] is None and row["interval"] for row in board["rows"])
    user_code._files.clear()  # the records are read again, ensembles of own networks among them
    assert main(comparing) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == board["rows"]
    few = ["--resolution", "3", "--images", "20", "--path-points", "3", "--directions", "1", "--json"]
    assert main(["fuse", *models, *arch, *fused, "--method", "kf-linear", "--record", "run"]) == 0
    assert json.loads(Path("run/config.json").read_text())["config"]["arch"] == "mynet:rows"
    assert main(["landscape", "--record", "run", *arch, *few]) == 0
    user_code._files.clear()
    capsys.readouterr()
    assert main(["evaluate", *models]) == 2 and "name it: --arch mynet:rows" in capsys.readouterr().err


# --- which output is the logits -------------------------------------------------------------------


def test_the_logits_of_a_command_are_noted(mynet, capsys):
    mynet.write_text(MYNET.replace('"logits":', '"scores":'))
    words = ["train", "--arch", "mynet:rows", "--epochs", "1", "--parts", "1", "--split", "full", "--out", "p"]
    assert main(words) == 2
    assert "(scores, features) holds the logits is not known" in capsys.readouterr().err
    words[2] = '{"architecture": "mynet:rows", "logits": "scores"}'
    assert main(words) == 0
    assert read_metadata("p/parent-0.safetensors")["architecture"]["logits"] == "scores"
    assert main(["evaluate", "p/parent-0.safetensors", "--arch", "mynet:rows"]) == 0
