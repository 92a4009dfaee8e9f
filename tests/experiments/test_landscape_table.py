"""The landscape of an experiment: made once, and its cells are those of its networks."""

from pathlib import Path

import pytest

from retrofit_core.data import load
from retrofit_core.experiments import work as working
from retrofit_core.experiments.configs import cells_of
from retrofit_core.experiments.results import FOLDER, results_of
from retrofit_core.experiments.tables import LANDSCAPE_FUSED, TABLES
from retrofit_core.experiments.work import missing, run
from retrofit_core.inspection.landscape import Landscape, Survey
from retrofit_core.networks.checkpoints import load_model
from retrofit_core.training.evaluation import evaluate

#: All test images of the digits, so that losses are those of `evaluate`.
ALL = len(load("digits", "test"))


@pytest.mark.slow
def test_its_numbers_are_those_of_its_networks(tmp_path, monkeypatch):
    def small(images, clip):
        return Landscape(resolution=3, images=ALL, path_points=5, directions=4, clip=clip)

    monkeypatch.setattr(small, "images", ALL, raising=False)
    monkeypatch.setattr(working, "Landscape", small)
    cells = list(cells_of(TABLES["landscape"], "smoke"))
    assert run(cells, tmp_path, device="cpu") == [] and not missing(cells, tmp_path)
    results = results_of("landscape", tmp_path)
    values = {(result.column, result.row): result.value for result in results}
    (drawn,) = (result.metrics["landscape"] for result in results if result.metrics)
    survey = Survey.from_json(drawn)
    assert survey.through == ("parent 0", "parent 1", "fused") and survey.facts["clip"] == 4.6
    assert survey.done == survey.total
    training = cells[0].training
    (fused,) = tmp_path.glob(f"{FOLDER}/*/fused.safetensors")
    files = {"Parent 0": training.files(tmp_path / training.folder)[0], LANDSCAPE_FUSED: fused}
    for row, file in files.items():
        expected = evaluate(load_model(Path(file))[0], load("digits", "test"))
        assert values["loss", row] == pytest.approx(expected["loss"], rel=1e-4)
        assert values["accuracy", row] == pytest.approx(expected["accuracy"])
    path = survey.paths[0]
    assert values["barrier", "Parent 0 to Parent 1"] == path.barrier == max(path.rises)
    assert values["rise", LANDSCAPE_FUSED] == next(rise.mean for rise in survey.rises if rise.name == "fused")
