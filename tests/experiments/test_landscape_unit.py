"""The landscape of an experiment: made once, known by what went in, and read by its cells."""

import pytest

from retrofit_core.data import load
from retrofit_core.experiments.results import measured_in, share_below
from retrofit_core.experiments.units import LossLandscape
from retrofit_core.inspection.landscape import Landscape, Survey
from retrofit_core.networks.checkpoints import load_model
from retrofit_core.training.evaluation import evaluate
from tests.experiments.tiny import SOURCE, carry_out, fusion

#: All test images of the digits, so that losses are those of `evaluate`.
ALL = len(load("digits", "test"))
UNIT = LossLandscape(fusion("HF-Linear"), Landscape(resolution=3, images=ALL, path_points=5, directions=4, clip=4.6))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("landscape")
    outcome = carry_out(root, [UNIT])
    assert outcome.done == 4 and not outcome.failed  # two parents, the fusion, the landscape
    return root


@pytest.mark.slow
def test_its_numbers_are_those_of_its_networks(root):
    result = measured_in(root).results[UNIT.key()]
    survey = Survey.from_json(result.metrics["landscape"])
    assert (
        survey.through == ("parent 0", "parent 1", "fused")
        and survey.facts["clip"] == 4.6
        and survey.done == survey.total
    )
    files = [*SOURCE.files(root), UNIT.fusion.network(root)]
    for name, file in zip(survey.through, files, strict=True):
        expected = evaluate(load_model(file)[0], load("digits", "test"))
        assert result.metric(("loss", name)) == pytest.approx(expected["loss"], rel=1e-5)
        assert result.metric(("accuracy", name)) == pytest.approx(expected["accuracy"])
    path = survey.paths[0]
    assert result.metric(("barrier", "parent 0", "parent 1")) == path.barrier == max(path.rises)
    assert result.metric(("rise", "fused")) == next(rise.mean for rise in survey.rises if rise.name == "fused")


@pytest.mark.slow
def test_it_is_made_once(root):
    assert carry_out(root, [UNIT]).done == 0


def test_neurons_near_zero_are_read_off_the_histogram():
    histogram = {"counts": [4, 2, 0, 2], "edges": [0.0, 0.2, 0.4, 0.6, 0.8]}
    assert share_below(histogram, 0.1) == pytest.approx(25)
    assert share_below(histogram, 0.4) == pytest.approx(75)
    assert share_below(histogram, 5) == pytest.approx(100) and share_below(histogram, -1) == 0
