"""Long work where standard error is no terminal: a line now and then says where it is."""

import re

import pytest

from retrofit_core.cli import main, terminal
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


@pytest.mark.slow
def test_every_event_of_a_fusion_and_of_a_training_can_be_said(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(terminal, "EVERY", 0.0)
    for fit in ("ridge", "gradient"):
        monitor = Monitor(terminal.Log().note)
        fuse([mlp(), mlp(seed=1)], normal(30, 6), fit=fit, runtime=Runtime(monitor=monitor))
    assert any("level 2 of 3" in line for line in lines(capsys))
    words = ["train", "--arch", "mlp", "--epochs", "2", "--out", str(tmp_path / "parents")]
    assert main(words) == 0
    assert "training, parent 1 of 2, epoch 2 of 2" in lines(capsys)
