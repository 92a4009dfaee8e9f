"""--size and --augment on their way through configs, records and checkpoints."""

import dataclasses
import json

import pytest
import torch

from retrofit_core import runs
from retrofit_core.cli import main
from retrofit_core.networks.checkpoints import load_model
from tests.networks import digits_parents


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Two untrained networks for digits of 12 x 12 pixels, with the splits of a sharded pair."""
    spec = {"channels": 1, "size": 12, "classes": 10}
    return runs.RunConfig(
        **digits_parents(tmp_path_factory.mktemp("parents"), **spec), method="KF-Linear", samples=40, size=12
    )


def test_the_fusion_set_is_the_samples_and_their_copies(config):
    plain = runs.read_inputs(config)
    more = runs.read_inputs(dataclasses.replace(config, augment=2))
    assert plain.fusion[0].shape == (40, 1, 12, 12) and more.fusion[0].shape == (120, 1, 12, 12)
    assert torch.equal(more.fusion[0][:40], plain.fusion[0]) and torch.equal(more.fusion[1], plain.fusion[1].repeat(3))
    again = runs.read_inputs(dataclasses.replace(config, augment=2))
    assert torch.equal(more.fusion[0], again.fusion[0])


@pytest.mark.slow
def test_the_size_travels_in_the_checkpoint(config, tmp_path, capsys):
    fused = tmp_path / "fused.safetensors"
    words = ["fuse", *config.models, "--splits", config.splits, "--samples", "40", "--size", "12", "--augment", "1"]
    assert main([*words, "--out", str(fused), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["config"]["augment"] == 1
    assert load_model(fused)[1]["size"] == 12
    assert main(["evaluate", str(fused), "--json"]) == 0  # reads the size where it was kept
    assert 0 <= json.loads(capsys.readouterr().out)["accuracy"] <= 100
