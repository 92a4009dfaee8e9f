"""One setting at several values: the command's numbers are those of single runs, and nothing is made twice."""

import json
from pathlib import Path

import numpy as np
import pytest

from retrofit_core.cli import main
from retrofit_core.networks.architectures import scaled_spec
from retrofit_core.runs import RunConfig, execute
from retrofit_core.runs import sweep as sweeping
from retrofit_core.runs.answers import difference, from_bits
from retrofit_core.runs.sweep import Sweep, numeric_settings, sweep
from retrofit_core.system.monitor import Cancelled, Monitor
from tests.marks import each_case

SHIPPED = Path(__file__).parents[1] / "app" / "retrofit_app" / "bundled"
PARENTS = [str(SHIPPED / f"parent-{index}.safetensors") for index in range(2)]
SPLITS = str(SHIPPED / "splits.json")
BASE = RunConfig(tuple(PARENTS), method="HF-Linear", splits=SPLITS, samples=60, device="cpu")
WORDS = ["compare", *PARENTS, "--splits", SPLITS, "--methods", "hf-linear", "--samples", "60", "--device", "cpu"]


def seen(capsys) -> dict:
    return json.loads(capsys.readouterr().out)


def test_the_command_gives_the_numbers_of_single_runs_and_repeats_none(tmp_path, capsys, monkeypatch):
    words = [*WORDS, "--over", "ridge=1x,0.01x,0.1x", "--records", str(tmp_path / "runs"), "--json"]
    assert main([*words, "--out", str(tmp_path / "sweep")]) == 0
    curve = seen(capsys)
    assert curve == json.loads((tmp_path / "sweep" / "sweep.json").read_text())
    assert curve["values"] == [row["value"] for row in curve["rows"]] == ["0.01x", "0.1x", "1x"]
    alone = []
    for row in curve["rows"]:
        config = Sweep(BASE, "ridge", tuple(curve["values"])).runs()[curve["rows"].index(row)][0]
        assert config.options == {"ridge": row["value"]}
        _, metrics = execute(config)
        alone.append(metrics["networks"]["fused"])
        assert row["accuracy"] == alone[-1]["accuracy"] and row["runs"] == [config.key()]
    best = max(alone, key=lambda facts: facts["accuracy"])
    for row, facts in zip(curve["rows"], alone, strict=True):
        both = [from_bits(each["knows"], each["samples"]) for each in (facts, best)]
        assert [row["difference"], row["interval"]] == json.loads(json.dumps(difference(*both)))
    assert set(curve["networks"]) == {"parent 0", "parent 1", "ensemble", "average"}
    monkeypatch.setattr(sweeping, "execute", None)  # nothing is made again
    assert main([*words[:-1], "--jobs", "2"]) == 0
    shown = capsys.readouterr().out
    assert (
        "Next: retrofit app --runs" in shown
        and "ensemble" in shown
        and f"{max(row['accuracy'] for row in curve['rows']):.2f}" in shown
    )


def test_what_was_stopped_goes_on_after_its_finished_runs(tmp_path):
    asked, made = Sweep(BASE, "samples", (20, 40, 60), seeds=2), []

    def stop() -> bool:
        return len(list(tmp_path.glob("*/fused.safetensors"))) >= 3

    with pytest.raises(Cancelled):
        sweep(asked, tmp_path, monitor=Monitor(None, stop))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/fused.safetensors")}
    curve = sweep(asked, tmp_path, monitor=Monitor(made.append))
    assert all(path.stat().st_mtime_ns == time for path, time in before.items()) and len(before) == 3
    assert [len(row["runs"]) for row in curve["rows"]] == [2, 2, 2]
    assert curve["rows"][0]["accuracy"] == np.mean(curve["rows"][0]["per_seed"])
    assert [
        json.loads((tmp_path / run / "config.json").read_text())["config"]["seed"] for run in curve["rows"][0]["runs"]
    ] == [0, 1]


@pytest.mark.slow
def test_several_processes_make_the_same_records(tmp_path, capsys):
    words = [*WORDS, "--over", "samples=20,40,60", "--json", "--records"]
    assert main([*words, str(tmp_path / "one")]) == 0
    one = seen(capsys)
    assert main([*words, str(tmp_path / "two"), "--jobs", "2"]) == 0
    two = seen(capsys)
    for row in (*one["rows"], *two["rows"]):
        assert row.pop("seconds") > 0
    assert one == two


def test_a_value_that_cannot_be_is_a_row_with_the_reason(tmp_path, capsys):
    assert (
        main([*WORDS, "--methods", "kf-linear", "--over", "width=0.5,1,3", "--records", str(tmp_path), "--json"]) == 0
    )
    rows = seen(capsys)["rows"]
    assert [row["reason"] is None for row in rows] == [True, True, False] and "some would represent nothing" in rows[2][
        "reason"
    ]
    target = json.loads((tmp_path / rows[0]["runs"][0] / "config.json").read_text())["config"]["target"]
    assert json.loads(target)["widths"] == [8, 16, 16]


@each_case(
    ("over", "sentence"),
    [
        ("ridge=1,2", "3 to 9 different values. Found 2"),
        ("ridge=1,2,2", "3 to 9 different values"),
        ("ridge", "write a setting and its values"),
        ("wool=1,2,3", "unknown numeric setting 'wool'"),
        ("restarts=1,2,3", "unknown numeric setting 'restarts'"),  # of another grouping
        ("samples=0,1,2", "samples is 0. Use numbers: a whole number from 1"),
        ("ridge=1,2,auto", "ridge is 'auto'"),
        ("ridge=1,2,3x", "Write all in one way"),
    ],
)
def test_what_is_no_sweep_is_refused_before_any_work(over, sentence, tmp_path, capsys):
    assert main([*WORDS, "--over", over, "--records", str(tmp_path / "runs")]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split()) and not list(tmp_path.iterdir())


def test_settings_that_the_method_does_not_use_cannot_be_swept():
    plain = numeric_settings(RunConfig(tuple(PARENTS), method="Average"))
    assert not {"samples", "importance_samples", "ridge", "width"} & plain.keys()
    with pytest.raises(ValueError, match="Take one seed"):
        Sweep(BASE, "seed", (0, 1, 2), seeds=2)


@each_case(
    ("spec", "scaled"),
    [
        ({"architecture": "mlp", "sizes": [64, 48, 10]}, {"sizes": [64, 24, 10]}),
        ({"architecture": "cnn", "widths": [16, 32, 32]}, {"widths": [8, 16, 16]}),
        ("vgg11", {"plan": [64, "M", 64, "M", 128, 128, "M", 256, 256, "M", 256, 512, "M"]}),
        ({"architecture": "resnet", "layers": [1, 1]}, {"width": 32}),
    ],
)
def test_hidden_widths_are_scaled_and_inputs_and_classes_stay(spec, scaled):
    assert scaled_spec(spec, 0.5).items() >= scaled.items()
    with pytest.raises(ValueError, match="cannot be scaled"):
        scaled_spec({"architecture": "vit", "depth": 2}, 0.5)
