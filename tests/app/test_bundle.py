"""The committed command reproduces the shipped example."""

import json

import pytest

from retrofit_app import bundle, runs
from retrofit_core import load_model
from retrofit_core.runs import read_run
from retrofit_core.runs.store import LANDSCAPE

#: The run whose landscape is measured again: one is enough, and each takes seconds.
FIRST = "kf-linear"


@pytest.mark.long
def test_the_command_reproduces_the_shipped_example(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "SEEDS", (bundle.SEED,))
    survey = bundle.survey
    monkeypatch.setattr(bundle, "survey", lambda record: survey(record) if record.name == FIRST else None)
    facts = bundle.build(tmp_path)
    committed = json.loads((runs.BUNDLED / "bundle.json").read_text())
    assert facts["runs"] == committed["runs"]
    for name in ("splits.json", "training.json"):
        assert (tmp_path / name).read_text() == (runs.BUNDLED / name).read_text()
    written, shipped = (list((folder / FIRST / LANDSCAPE.folder).iterdir()) for folder in (tmp_path, runs.BUNDLED))
    assert len(written) == len(shipped) == 1
    for name in bundle.PARENTS:
        new, old = load_model(tmp_path / name)[1], load_model(runs.BUNDLED / name)[1]
        assert new["class_counts"] == old["class_counts"]
    for name in committed["runs"]:
        new, old = read_run(tmp_path / name), read_run(runs.BUNDLED / name)
        assert new.config == old.config
        # Another processor rounds otherwise and twenty epochs amplify that: a few test images may flip.
        for network, measured in old.metrics["networks"].items():
            slack = 10 if network == "average" else 2.5
            assert new.metrics["networks"][network]["accuracy"] == pytest.approx(measured["accuracy"], abs=slack)
        for ours, theirs in zip(new.levels, old.levels, strict=True):
            assert (ours.name, ours.widths, ours.width) == (theirs.name, theirs.widths, theirs.width)
            assert ours.grouping_error / ours.energy == pytest.approx(theirs.grouping_error / theirs.energy, abs=0.05)
        assert new.analysis is not None and old.analysis is not None
        assert new.analysis.accuracy[0] == new.metrics["networks"]["ensemble"]["accuracy"]
        assert new.analysis.accuracy == pytest.approx(old.analysis.accuracy, abs=4)
        for ours, theirs in zip(new.analysis.levels, old.analysis.levels, strict=True):
            assert ours.kept.mean().item() == pytest.approx(theirs.kept.mean().item(), abs=0.05)
