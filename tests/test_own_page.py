"""The code of docs/own_networks.md, run as a reader would: in an empty folder, from the first block to the last."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from retrofit_core.cli import main

PAGE = (Path(__file__).parents[1] / "docs" / "own_networks.md").read_text()


@pytest.mark.slow
def test_every_block_runs(tmp_path, monkeypatch, nobody_trusts, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mynet", raising=False)
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "sh", "text", "python"]
    (tmp_path / "mynet.py").write_text(blocks[0][1])
    for line in blocks[1][1].splitlines():
        _, *words = shlex.split(line)
        assert main(words) == 0, capsys.readouterr().err
    assert "Ensemble" in (tmp_path / "board" / "leaderboard.csv").read_text()
    exec(compile(blocks[3][1], "own_networks.md", "exec"), {"__name__": "page"})
    table = capsys.readouterr().out
    assert "ZipIt" in table and "Ensemble" in table and "accuracy" in table
    sys.modules.pop("mynet", None)
