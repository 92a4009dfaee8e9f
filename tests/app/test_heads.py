"""What the heads of an attention attend to: against the networks' own maps, and on the page."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from retrofit_app import runs
from retrofit_app.models import activity
from retrofit_app.models.activity import attended, on_patches
from retrofit_core.data import load
from retrofit_core.networks.architectures import build
from retrofit_core.networks.checkpoints import load_model, save_model
from retrofit_core.runs import RunConfig, read_run
from retrofit_core.runs.execute import execute

from .pages import clean, page_at, words

pytestmark = pytest.mark.slow

VIT = {"architecture": "vit", "patch": 4, "resize": 8, "hidden": 12, "depth": 1, "heads": 2, "mlp_width": 12}
SHAPE = {"classes": 10, "channels": 1, "size": 8}


@pytest.fixture
def record(runs_folder, monkeypatch) -> Path:
    """Two tiny ViTs, fused inside their block."""
    runs_folder.mkdir()
    monkeypatch.chdir(runs_folder)
    for seed in range(2):
        save_model(build(VIT | SHAPE, seed=seed), runs_folder / f"{seed}.safetensors")
    models = ("0.safetensors", "1.safetensors")
    config = RunConfig(
        models=models, method="KF-Linear", fusion_from="iid", importance="uniform", samples=60, device="cpu"
    )
    execute(config, runs_folder / "vit")
    return runs_folder / "vit"


def test_no_relu_stops_neurons_of_a_vit_whose_levels_hand_on_a_stream_too(record):
    entry = runs.read_entry(record)
    assert not any(activity.answering(entry, level) for level in range(len(read_run(record).levels)))


def test_a_head_attends_where_its_network_s_softmax_does_and_stands_beside_its_fused_head(record):
    entry, row = runs.read_entry(record), 3
    found = attended(entry, 1, row)  # the level of the queries
    for heads, name in zip(found, ("0.safetensors", "1.safetensors", "vit/fused.safetensors"), strict=True):
        network: Any = load_model(record.parent / name)[0]
        layers, seen = network.blocks[0].attention, []
        layers.register_forward_pre_hook(lambda module, x, seen=seen: seen.append(x[0]))
        with torch.no_grad():
            network(load("digits", "test").inputs([row]))
            q, k = (layer(seen[0])[0].unflatten(1, (2, 6)).transpose(0, 1) for layer in (layers.q, layers.k))
            maps = (q @ k.transpose(1, 2) / 12**0.5).softmax(-1)
        assert heads.numpy() == pytest.approx(maps[:, 0].numpy(), abs=1e-4)
    assert on_patches(found[0][1]).shape == (2, 2) and on_patches(torch.ones(9)).shape == (3, 3)
    assert on_patches(torch.ones(7)).shape == (1, 7)
    for step in ("grouping", "targets"):
        page = page_at("levels", run="vit", level="blocks.0.attention.q", step=step)
        assert clean(page) and "What do the heads attend to" in words(page) and "**Target** =" not in words(page)
        html = next(body for element in page.get("html") if "class='retrofit-heads'" in (body := element.proto.body))
        names = re.findall(r"<figcaption>([^<]*)", html)
        assert sorted(names) == sorted(
            ["the image", "fused head 1", "fused head 2"] + [f"{network}, head {n}" for network in "AB" for n in (1, 2)]
        )
        assert all(0 <= int(share) <= 100 for share in re.findall(r"(\d+) % shared", html))
