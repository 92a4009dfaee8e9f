"""benchmarks/gpu.py, which measures on a GPU in a quarter of an hour, runs on a CPU at the scale `smoke`."""

import os
import subprocess
import sys

import pytest

from retrofit_core.experiments.bundles import read_bundle
from tests.marks import ROOT, skip_without

skip_without("benchmarks")


@pytest.mark.long
def test_a_stage_goes_on_after_a_call_that_ended(tmp_path):
    """The parents of split 1: the first call ends at once, the second measures every row."""
    words = ["--stage", "4", "--scale", "smoke", "--seeds", "1", "--parents", "1", "--out", str(tmp_path / "out")]
    for seconds in ("1", "500"):
        ended = subprocess.run(
            [sys.executable, "benchmarks/gpu.py", *words, "--work", str(tmp_path / "work"), "--seconds", seconds],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
    assert "nothing is left to do" in ended.stdout
    results = read_bundle(tmp_path / "out" / "gpu-stage-4.json").results.values()
    assert len(results) > 40 and all("seed 1" in result.title for result in results)
