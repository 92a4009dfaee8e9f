"""The command that is copied from a page gives its numbers: executed in a folder of its own."""

import dataclasses
import shlex

import pytest

from retrofit_core.cli import comparing, fusing, main
from retrofit_core.runs import RunConfig, execute, read_config, read_run
from retrofit_core.runs.config import commands
from retrofit_core.runs.parents import train_parents
from retrofit_core.training.config import TrainConfig
from tests.marks import each_case

TRAINING = TrainConfig(
    arch=('{"architecture": "cnn", "widths": [4, 6, 6]}', "cnn"), split="dirichlet", ratio=0.9, epochs=2, device="cpu"
)
CONFIG = RunConfig(
    models=TRAINING.files(),
    splits=TRAINING.splits(),
    method="KF-Linear",
    samples=60,
    importance="conductance",
    importance_samples=20,
    device="cpu",
    seed=2,
    options={"ridge": "0.2x"},
    evaluate=True,
)


@pytest.mark.slow
def test_the_command_gives_the_same_key_and_numbers(tmp_path, monkeypatch):
    """In an empty folder; the numbers to compare with come from the library called directly."""
    for name in ("direct", "command"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "direct")
    train_parents(TRAINING, TRAINING.folder)
    result, metrics = execute(CONFIG)
    expected = {name: network["accuracy"] for name, network in metrics["networks"].items()}
    monkeypatch.chdir(tmp_path / "command")
    for line in commands([(CONFIG, TRAINING)]).splitlines():
        tool, *words = shlex.split(line)
        assert (tool, main(words)) == ("retrofit", 0)
    record = read_run(CONFIG.key())
    assert record.config == CONFIG == read_config(record.folder)
    assert {name: network["accuracy"] for name, network in record.metrics["networks"].items()} == expected
    for ours, theirs in zip(record.levels, result.levels, strict=True):
        assert ours.grouping_error == pytest.approx(theirs.grouping_error, rel=1e-9)
        assert ours.labels.tolist() == theirs.labels.tolist()


# --- comparisons ----------------------------------------------------------------------------------

PAIR = dataclasses.replace(CONFIG, options=None)


def test_lines_of_a_comparison_train_once_and_make_its_runs():
    configs = [PAIR, dataclasses.replace(PAIR, method="HF-Linear"), dataclasses.replace(PAIR, seed=7)]
    training, *lines = commands([(config, TRAINING) for config in configs]).splitlines()
    assert training.startswith("retrofit train")
    assert lines == [f"{config.command()} --record {config.key()}" for config in configs]


# --- the words of `fuse` and `compare` ----------------------------------------------------------------------------------

PLAIN = RunConfig(models=("a", "b"), method="KF-Linear", splits="s.json", augment=1)
#: Another value for the fields that need one of a kind.
OTHERS = {
    "models": ("c",),
    "method": "HF-Linear",
    "importance": "conductance",
    "fusion_from": "iid",
    "importance_data": "own",
}
OTHERS |= {
    "mean": (0.5, 0.25),
    "std": (0.5, 0.5),
    "size": 16,
    "options": {"head": "mean", "ridge": 0.5},
}


@pytest.mark.slow
@each_case("field", [None, *(field.name for field in dataclasses.fields(RunConfig))])
def test_the_command_of_a_config_makes_that_config(field, monkeypatch, tmp_path):
    """Each field away from its default, by `fuse`, and by `compare` where it is not the method's."""
    usual = {bool: True, int: 7, str: "other"}
    value = OTHERS.get(field) or usual.get(type(getattr(PLAIN, field or "data")), "9")
    config = dataclasses.replace(PLAIN, **({field: value} if field else {}))
    made = []

    def note(config, *_, **__):
        made.extend([config] if isinstance(config, RunConfig) else config)
        raise ValueError("enough")

    monkeypatch.setattr("retrofit_core.runs.execute", note)
    monkeypatch.setattr("retrofit_core.runs.comparison.compare_runs", note)
    for module in (fusing, comparing):
        monkeypatch.setattr(module, "check_checkpoints", lambda _: None)
    assert main([*shlex.split(config.command())[1:], "--record", str(tmp_path / "x")]) == 2
    if field not in ("method", "analyse"):  # KF-Linear has none
        words = shlex.split(config.command())[2:]
        place = words.index("--method")
        words[place : place + 2] = ["--methods", config.method]
        assert main(["compare", *words]) == 2
        assert len(made) == 2
    assert made == [config] * len(made)
