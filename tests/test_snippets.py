"""What is copied from a page gives the numbers of the page: executed in a folder of its own."""

import ast
import dataclasses
import shlex
from typing import Any

import pytest

from retrofit_core.cli import comparing, fusing, main
from retrofit_core.runs import RunConfig, execute, read_config, read_run, snippets
from retrofit_core.training.parents import TrainConfig, train_parents
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


@each_case(
    "config",
    [
        CONFIG,
        RunConfig(
            models=("it's a model.safetensors",), fusion_from="iid", mean=(0.5,), std=(0.25,), size=8, memory=10**9
        ),
        RunConfig(
            models=("a.pt", "b.pt"),
            target='{"architecture": "cnn"}',
            augment=2,
            auto_augment="cifar10",
            options={"ridge": 0.5},
        ),
    ],
)
def test_python_builds_the_same_config(config):
    """Every assignment in the text, evaluated, is the configuration itself."""
    tree = ast.parse(snippets.python(config, TRAINING))
    names = {"RunConfig": RunConfig, "TrainConfig": TrainConfig}
    built = [
        eval(ast.unparse(node.value), names)
        for node in tree.body  # noqa: S307 - our own text
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("config", "training")
    ]
    assert built == [TRAINING, config]
    assert "TrainConfig" not in snippets.python(config)


@pytest.mark.slow
def test_command_and_script_give_the_same_key_and_numbers(tmp_path, monkeypatch, capsys):
    """Each in an empty folder; the numbers to compare with come from the library called directly."""
    for name in ("direct", "command", "script"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "direct")
    train_parents(TRAINING, TRAINING.folder)
    result, metrics = execute(CONFIG)
    expected = {name: network["accuracy"] for name, network in metrics["networks"].items()}
    monkeypatch.chdir(tmp_path / "command")
    for line in snippets.command(CONFIG, TRAINING).splitlines():
        tool, *words = shlex.split(line)
        assert (tool, main(words)) == ("retrofit", 0)
    monkeypatch.chdir(tmp_path / "script")
    exec(snippets.python(CONFIG, TRAINING), {})  # noqa: S102 - our own text
    assert f"{expected['fused']:.2f} %" in capsys.readouterr().out
    for folder in ("command", "script"):
        record = read_run(tmp_path / folder / CONFIG.key())
        assert record.config == CONFIG == read_config(record.folder)
        assert {name: network["accuracy"] for name, network in record.metrics["networks"].items()} == expected
        for ours, theirs in zip(record.levels, result.levels, strict=True):
            assert ours.grouping_error == pytest.approx(theirs.grouping_error, rel=1e-9)
            assert ours.labels.tolist() == theirs.labels.tolist()


@each_case("field", [field.name for field in dataclasses.fields(RunConfig)])
def test_no_field_is_forgotten_by_the_command(field):
    """Each field away from its default shows in the command line."""
    values = {bool: True, int: 7, float: 0.7, str: "other"}
    default = getattr(RunConfig(models=("a",)), field)
    others: dict[str, Any] = {"models": ("b",), "mean": (0.5,), "std": (0.5,), "options": {"epochs": 3}}
    changed = others.get(field, values.get(type(default), "9"))
    config = dataclasses.replace(RunConfig(models=("a",)), **{field: changed})
    assert (
        snippets.command(config).split(" --record")[0]
        != snippets.command(RunConfig(models=("a",))).split(" --record")[0]
    )


# --- comparisons ----------------------------------------------------------------------------------

PAIR = dataclasses.replace(CONFIG, options=None)


def test_lines_of_a_comparison_train_once_and_make_its_runs():
    configs = [PAIR, dataclasses.replace(PAIR, method="HF-Linear"), dataclasses.replace(PAIR, seed=7)]
    training, *lines = snippets.comparison_command([(config, TRAINING) for config in configs]).splitlines()
    assert training.startswith("retrofit train")
    assert lines == [f"{config.command()} --record {config.key()}" for config in configs]


def test_python_of_a_comparison_builds_the_same_configs():
    configs = [PAIR, dataclasses.replace(PAIR, method="HF-Linear"), dataclasses.replace(PAIR, data="other")]
    tree = ast.parse(snippets.comparison_python([(config, TRAINING) for config in configs]))
    built = [
        eval(ast.unparse(node.value), {"RunConfig": RunConfig})
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "configs"
    ]
    assert built == [configs[:2], configs[2:]]


# --- how the words of `fuse` and `compare` become a config --------------------------------------------


#: Flags that `fuse` and `compare` share, and the fields of a config that they make.
SHARED = {
    "--data": ("d", {"data": "d"}),
    "--importance-data": ("fusion", {"importance_data": "fusion"}),
    "--fusion-from": ("iid", {"fusion_from": "iid"}),
    "--splits": ("s.json", {"splits": "s.json"}),
    "--samples": ("7", {"samples": 7}),
    "--importance-samples": ("8", {"importance_samples": 8}),
    "--seed": ("9", {"seed": 9}),
    "--augment": ("2", {"augment": 2}),
    "--auto-augment": ("cifar10", {"auto_augment": "cifar10"}),
    "--preset": ("paper", {"preset": "paper"}),
    "--ridge": ("0.5", {"ridge": 0.5}),
    "--toward": ("parents", {"toward": "parents"}),
    "--memory": ("2MB", {"memory": 2_000_000}),
    "--target": ("vgg11", {"target": "vgg11"}),
    "--arch": ("cnn", {"arch": "cnn"}),
    "--mean": ("0.5 0.25", {"mean": (0.5, 0.25)}),
    "--std": ("0.1,0.2", {"std": (0.1, 0.2)}),
    "--size": ("16", {"size": 16}),
    "--device": ("cpu", {"device": "cpu"}),
}
FUSE_ONLY = {
    "--importance": ("conductance", {"importance": "conductance"}),
    "--grouping": ("random", {"grouping": "random"}),
    "--head": ("mean", {"head": "mean"}),
    "--boundaries": ("blocks", {"boundaries": "blocks"}),
    "--method": ("hf-linear", {"method": "HF-Linear"}),
}


@pytest.mark.parametrize("command", ["fuse", "compare"])
def test_every_flag_reaches_the_config(command, monkeypatch, tmp_path):
    configs = []

    def kept(config, *rest, **more):
        configs.extend([config] if isinstance(config, RunConfig) else config)
        raise ValueError("enough")

    monkeypatch.setattr("retrofit_core.runs.execute", kept)
    monkeypatch.setattr("retrofit_core.runs.comparison.compare_runs", kept)
    for commands in (fusing, comparing):
        monkeypatch.setattr(commands, "check_checkpoints", lambda _: None)
    more = {"fuse": FUSE_ONLY, "compare": {"--importance": ("uniform,deeplift", {})}}[command]
    switches = {"fuse": ["--evaluate", "--analyse", "--out", str(tmp_path / "x.safetensors")]}.get(command, [])
    flags = [word for flag, (text, _) in {**SHARED, **more}.items() for word in (flag, text)]
    methods = ["--methods", "kf-linear"] if command == "compare" else []
    assert main([command, "a", "b", *flags, *switches, *methods]) == 2
    expected = {"models": ("a", "b"), **{k: v for _, made in {**SHARED, **more}.values() for k, v in made.items()}}
    expected |= {"evaluate": command == "fuse", "analyse": command == "fuse"}
    assert [config.importance for config in configs] == (
        ["conductance"] if command == "fuse" else ["uniform", "deeplift"]
    )
    for config in configs:
        told = {**vars(config), **config.options}
        assert {name: told[name] for name in expected} == expected


def test_what_is_not_given_has_the_default_of_the_config(monkeypatch, tmp_path):
    configs = []
    monkeypatch.setattr(
        "retrofit_core.runs.execute", lambda config, *rest, **others: configs.append(config) or {}["enough"]
    )
    monkeypatch.setattr(fusing, "check_checkpoints", lambda _: None)
    with pytest.raises(KeyError):
        main(["fuse", "a", "--out", str(tmp_path / "x.safetensors")])
    assert configs == [RunConfig(("a",))]
