"""How the words of `fuse`, `compare` and `methods` become a config, and what is printed of options; nothing is fused."""

import dataclasses

import pytest

from retrofit_core.catalogue import CATALOGUE
from retrofit_core.cli import comparing, fusing, main
from retrofit_core.fusion.importance import IMPORTANCE, Uniform
from retrofit_core.runs import RunConfig
from retrofit_core.system.settings import Range, setting

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


def test_brackets_in_help_texts_are_printed(monkeypatch, capsys):
    @dataclasses.dataclass(frozen=True, eq=False)
    class Loud(Uniform):
        power: float = setting(1.0, "in [dB], not [bold]", Range(0))

    monkeypatch.setitem(IMPORTANCE, "loud", Loud)
    monkeypatch.setattr(comparing.out, "_width", 300)
    assert main(["methods", "kf-linear"]) == 0
    assert "in [dB], not [bold] (of importance='loud')" in capsys.readouterr().out
    described = dataclasses.replace(CATALOGUE["KD"], sentence="A [student].")
    monkeypatch.setitem(CATALOGUE, "KD", described)
    assert main(["methods"]) == 0
    assert "A [student]" in capsys.readouterr().out
