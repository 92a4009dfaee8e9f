"""The images that excite neurons most: against forward hooks, in words, and where there are none."""

import json
import shutil

import pytest
import torch

from retrofit_app import runs
from retrofit_app.figures import LIGHT
from retrofit_app.figures.exciting import Excited, exciting
from retrofit_app.models import activity
from retrofit_core.data import load
from retrofit_core.networks.checkpoints import load_model

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
