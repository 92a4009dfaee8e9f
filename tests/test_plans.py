"""Plans, which print as lines that fit on a screen."""

import copy

import pytest
import torch

from retrofit_core import METHODS
from tests.networks import mlp, normal


def plan_of(name, models, **keywords):
    takes = METHODS[name].takes
    if takes.base:
        keywords["base"] = models[0]
    if takes.class_shares and "Shares" in name:
        keywords["class_shares"] = torch.ones(2, 4)
    if name == "FedAvg":
        keywords["sample_counts"] = [1, 2]
    return METHODS[name].plan(models, (normal(40, 6), torch.arange(40) % 4), **keywords)


@pytest.mark.parametrize("name", METHODS)
def test_every_plan_fits_on_a_screen(name):
    """Also of a network with more levels than a screen has lines."""
    for sizes in ((6, 8, 4), (6, *[8] * 60, 4)):
        models = [copy.deepcopy(mlp(sizes, seed=seed)) for seed in (1, 2)]
        plan = plan_of(name, models)
        lines = str(plan).splitlines()
        assert lines == repr(plan).splitlines() and 1 <= len(lines) <= 30 and max(map(len, lines)) <= 120
        assert lines[0].startswith("2 parents (") and lines[0].endswith("40 samples of 6")


def test_a_plan_names_the_neurons_of_its_levels():
    shown = str(plan_of("KF-Linear", [mlp((6, 8, 4)), mlp((6, 9, 4), seed=2)], target=mlp((6, 5, 4), seed=3)))
    assert "8 + 9 -> 5" in shown and "4 + 4 -> 4" in shown
    deep = str(plan_of("ZipIt", [mlp((6, *[8] * 60, 4), seed=seed) for seed in (1, 2)])).splitlines()
    assert "more" in deep[15] and deep[-1].endswith("4 + 4 -> 4")
