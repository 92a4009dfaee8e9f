"""Long work where standard error is no terminal: a line now and then says where it is."""

import re

from retrofit_core.cli import main, progress
from retrofit_core.fusion.algorithm import fuse
from retrofit_core.system.monitor import Monitor
from retrofit_core.system.runtime import Runtime
from tests.networks import mlp, normal

LINE = re.compile(r"\d\d:\d\d ")


def lines(capsys):
    """What standard error says, without the time of day."""
    written = capsys.readouterr().err.splitlines()
    assert all(LINE.match(line) for line in written), written
    return [LINE.sub("", line) for line in written]


def test_a_line_says_unit_level_phase_and_position(capsys, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    log = progress.Log()
    for event in (
        {"kind": "phase", "name": "KF-Linear, seed 0", "unit": "1f"},
        {"kind": "phase", "name": "conductance", "network": "parent 1"},
        {"kind": "step", "name": "conductance", "index": 1, "total": 4},
        {"kind": "level", "name": "features.3", "index": 2, "total": 9},
        {"kind": "phase", "name": "fit"},
        {"kind": "epoch", "index": 7, "total": 100, "loss": 0.5},
        {"kind": "phase", "name": "[b]", "unit": "2a"},
        {"kind": "phase", "name": "training", "parent": 0, "parents": 2},
        {"kind": "batch", "index": 5, "total": 10, "epoch": 3, "epochs": 30},
    ):
        log.note(event)
    assert lines(capsys) == [
        "KF-Linear, seed 0",
        "KF-Linear, seed 0: parent 1 conductance",
        "KF-Linear, seed 0: parent 1 conductance, 25 %",
        "KF-Linear, seed 0: level 3 of 9",
        "KF-Linear, seed 0: level 3 of 9, fit",
        "KF-Linear, seed 0: level 3 of 9, fit, epoch 7 of 100",
        "[b]",
        "[b]: training, parent 0 of 2",
        "[b]: training, parent 0 of 2, epoch 3 of 30",
    ]


def test_every_event_of_a_fusion_and_of_a_training_can_be_said(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    for fit in ("ridge", "gradient"):
        monitor = Monitor(progress.Log().note)
        fuse([mlp(), mlp(seed=1)], normal(30, 6), fit=fit, runtime=Runtime(monitor=monitor))
    assert any("level 2 of 3" in line for line in lines(capsys))
    words = ["train", "--arch", "mlp", "--epochs", "2", "--out", str(tmp_path / "parents")]
    assert main(words) == 0
    assert "training, parent 1 of 2, epoch 2 of 2" in lines(capsys)
