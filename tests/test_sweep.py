"""One setting at several values: the command's numbers are those of single runs, and nothing is made twice."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from retrofit_core.cli import main
from retrofit_core.runs import RunConfig, execute, read_config, read_run
from retrofit_core.runs.answers import difference, from_bits
from retrofit_core.runs.comparison import compare_runs, swept
from retrofit_core.system.monitor import Cancelled, Monitor
from tests.marks import each_case

pytestmark = pytest.mark.slow

execution = sys.modules["retrofit_core.runs.execute"]  # the name in the package is the function
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
    board = seen(capsys)
    assert board == json.loads((tmp_path / "sweep" / "leaderboard.json").read_text())
    rows = {row["name"]: row for row in board["rows"]}
    configs = swept(BASE, "ridge=0.01x,0.1x,1x")
    assert rows.keys() == configs.keys() == {"ridge 0.01x", "ridge 0.1x", "ridge 1x"}
    alone = {name: execute(config)[1]["networks"]["fused"] for name, config in configs.items()}
    best = max(alone.values(), key=lambda facts: facts["accuracy"])
    for name, facts in alone.items():
        both = [from_bits(each["knows"], each["samples"]) for each in (facts, best)]
        assert rows[name]["accuracy"] == facts["accuracy"] and rows[name]["runs"] == [configs[name].key()]
        assert [rows[name]["difference"], rows[name]["interval"]] == json.loads(json.dumps(difference(*both)))
    monkeypatch.setattr(execution, "read_inputs", None)  # nothing is made again
    assert main([*words[:-1], "--jobs", "2"]) == 0
    assert f"{best['accuracy']:.2f}" in capsys.readouterr().out


def test_what_was_stopped_goes_on_after_its_finished_runs(tmp_path):
    def stop() -> bool:
        return len(list(tmp_path.glob("*/fused.safetensors"))) >= 3

    configs = swept(BASE, "samples=20,40,60", 2)
    with pytest.raises(Cancelled):
        compare_runs(configs, records=tmp_path, seeds=2, with_parents=False, monitor=Monitor(None, stop))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/fused.safetensors")}
    board = compare_runs(configs, records=tmp_path, seeds=2, with_parents=False)
    assert all(path.stat().st_mtime_ns == time for path, time in before.items()) and len(before) == 3
    assert [len(row["runs"]) for row in board.rows] == [2, 2, 2]
    for row in board.rows:
        accuracies = [read_run(tmp_path / run).metrics["networks"]["fused"]["accuracy"] for run in row["runs"]]
        assert row["accuracy"] == np.mean(accuracies)
        assert [read_config(tmp_path / run).seed for run in row["runs"]] == [0, 1]


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
    words = [*WORDS, "--methods", "kf-linear", "--over", "samples=20,40,5000", "--records", str(tmp_path), "--json"]
    assert main(words) == 0
    rows = {row["name"]: row for row in seen(capsys)["rows"]}
    assert [name for name, row in rows.items() if row["reason"]] == ["samples 5000"]
    assert "5000 samples cannot be drawn" in rows["samples 5000"]["reason"]


@each_case(
    ("over", "sentence"),
    [
        ("ridge", "write a setting and its values"),
        ("wool=1,2,3", "unknown keyword of HF-Linear: 'wool'"),
        ("restarts=1,2,3", "restarts is a setting of grouping='kmeans', which is not chosen"),
        ("samples=0,1,2", "samples is 0. Use a whole number from 1"),
        ("ridge=1,x", "ridge is 'x'"),
        ("seed=0,1,2", "Take one seed"),
    ],
)
def test_what_is_no_sweep_is_refused_before_any_work(over, sentence, tmp_path, capsys):
    assert main([*WORDS, "--over", over, "--seeds", "2", "--records", str(tmp_path / "runs")]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split()) and not list(tmp_path.iterdir())
