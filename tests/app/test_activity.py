"""The images that excite neurons most: against forward hooks, in words, and where there are none."""

import json
import re
import shutil
from types import SimpleNamespace as Made
from typing import Any, cast
from urllib.parse import unquote

import numpy as np
import pytest
import torch

from retrofit_app import runs
from retrofit_app.figures import LIGHT
from retrofit_app.figures.exciting import Excited, exciting, kernel
from retrofit_app.models import activity
from retrofit_app.pages.levels.steps import answering_words
from retrofit_core.data import load
from retrofit_core.networks.checkpoints import load_model
from retrofit_core.runs import read_run

pytestmark = pytest.mark.slow

NETWORKS = ("parent-0.safetensors", "parent-1.safetensors", "kf-linear/fused.safetensors")


@pytest.fixture(scope="module")
def entry() -> runs.Entry:
    return runs.read_entry(runs.BUNDLED / "kf-linear", shipped=True)


@pytest.mark.parametrize("level,layer", [(0, "features.0"), (3, "classifier")])
def test_activity_is_the_largest_output_over_the_positions_of_the_named_layer(entry, level, layer):
    found, images = activity.activity(entry, level), load("digits", "test")
    assert found.rows.tolist() == list(range(len(images))) and (found.split, found.of) == ("test", 359)
    assert found.classes == [images.classes[label] for label in images.labels]
    for values, name in zip(found.values, NETWORKS, strict=True):
        model, seen = load_model(runs.BUNDLED / name)[0], []
        model.get_submodule(layer).register_forward_hook(lambda module, x, y, seen=seen: seen.append(y))
        with torch.no_grad():
            model(images.inputs())
        outputs = seen[0].flatten(2).amax(2) if seen[0].ndim == 4 else seen[0]
        assert values == pytest.approx(outputs.numpy(), abs=1e-4)


def test_incoming_weights_are_added_up_over_the_groups_of_the_level_below(entry):
    levels = read_run(entry.folder).levels
    models: list[Any] = [load_model(runs.BUNDLED / name)[0] for name in NETWORKS]
    first, second = activity.kernels(entry, 0, None), activity.kernels(entry, 1, levels[0])
    *parents, fused = [model.get_submodule("features.2").weight.detach() for model in models]
    assert torch.equal(first[1], models[1].get_submodule("features.0").weight) and torch.equal(second[2], fused)
    for found, weight, groups in zip(second, parents, levels[0].labels.split(16), strict=False):
        assert found.shape == (32, 16, 3, 3)
        for group in range(16):
            assert found[:, group] == pytest.approx(weight[:, groups == group].sum(1), abs=1e-6)
    head = activity.kernels(entry, 3, levels[2])
    assert head[2].flatten(1).numpy() == pytest.approx(models[2].get_submodule("classifier").weight.detach().numpy())


def test_neurons_that_ever_answer_are_those_that_a_relu_lets_pass(entry):
    inputs = load("digits", "test").inputs()
    for network, found in zip(NETWORKS, activity.answering(entry, 1), strict=True):
        with torch.no_grad():
            outputs = cast(Any, load_model(runs.BUNDLED / network)[0]).features[:3](inputs)
        assert found == int((outputs.amax((0, 2, 3)) > 0).sum())
    assert activity.answering(entry, 3) == []  # the classes


@pytest.mark.parametrize("dead", [0, 2])
def test_a_relu_stops_others_only_where_there_are_some(entry, monkeypatch, dead):
    monkeypatch.setattr(activity, "answering", lambda *_: [16, 16, 16 - dead])
    words = answering_words(Made(entry=entry, index=0, report=Made(widths=[16, 16], width=16)))
    assert ("stops the others" in words) == (dead > 0) and f"{16 - dead} of 16 of the fused network" in words


def test_weights_are_coloured_by_sign_and_size():
    picture = unquote(kernel(np.array([[[2.0, 0.0]], [[-2.0, 1.0]]]), 2.0, LIGHT))
    fills = re.findall(r"x='(\d+)'[^>]* fill='(#\w+)'", picture)
    assert [x for x, _ in fills] == ["0", "1", "3", "4"]  # two inputs of two weights, a gap between them
    assert [fill for _, fill in fills][:3] == [LIGHT.accent, LIGHT.paper, LIGHT.grouping]
    assert "viewBox='0 0 2 2'" in unquote(kernel(np.ones((3, 1, 1)), 1.0, LIGHT))


def test_a_network_that_has_changed_since_is_refused(entry, tmp_path):
    folder = tmp_path / "runs" / "copy"
    shutil.copytree(entry.folder, folder)
    for name in ("parent-0.safetensors", "parent-1.safetensors"):
        shutil.copy(runs.BUNDLED / "parent-1.safetensors", folder.parent / f"own-{name}")
    config = json.loads((folder / "config.json").read_text())
    own = [f"own-{name}" for name in config["config"]["models"]]
    config["inputs"] |= {new: config["inputs"][old] for new, old in zip(own, config["config"]["models"], strict=True)}
    config["config"]["models"] = own
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="own-parent-0.safetensors is not the network that this run fused"):
        activity.activity(runs.read_entry(folder), 0)


def test_a_row_says_what_it_shows_and_escapes_names():
    row = Excited("A3", "<b>", (4.0, 3.0, 1.0), 0.0, 4.0, ("cat", "cat", "<dog>"), "data:image/png;base64,x")
    assert row.shares == [1.0, 0.75, 0.25]
    html = exciting([row], LIGHT)
    assert (
        "3 images on which A3 is most active: 2 of class cat and 1 of class &lt;dog&gt;; activity 4 down to 1." in html
    )
    assert "<b><" not in html and "<dog>" not in html and "width:75%" in html
    assert "<img" not in exciting([Excited("A3", "", (1.0,), 1.0, 1.0, ("cat",))], LIGHT)  # a constant neuron, too
