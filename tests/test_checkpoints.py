"""Checkpoints: round trips, strangers' files, and every way a file can be wrong."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import safetensors.torch
import torch

from retrofit_core.networks.architectures import build
from retrofit_core.networks.checkpoints import load_model, read_metadata, save_model
from tests.marks import each_case

SPEC = {"architecture": "mlp", "sizes": [4, 3, 2], "bias": True}
INPUT = torch.linspace(-1, 1, 8).view(2, 1, 2, 2)


@pytest.fixture
def model():
    return build(SPEC, seed=0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def state(model, **changes):
    return {**{name: tensor.clone() for name, tensor in model.state_dict().items()}, **changes}


def test_round_trip_with_metadata(model, path, tmp_path):
    facts = {"classes": ["a", "b"], "mean": [0.1], "recipe": {"epochs": 3}, "note": 'ü "x"', "none": None}
    save_model(model, path, **facts)
    loaded, metadata = load_model(path)
    assert torch.equal(loaded(INPUT), model(INPUT))
    assert metadata == {"architecture": SPEC, **facts} == read_metadata(path)
    assert not loaded.training and all(p.requires_grad for p in loaded.parameters())
    assert list(tmp_path.iterdir()) == [path]


def test_equal_networks_are_equal_files(model, path):
    """A parent that is trained again to the same weights is the same parent."""
    facts = {name: index for index, name in enumerate("qwertyuiop")}
    contents = set()
    for names in ("qwertyuiop", "poiuytrewq", "qwertyuiop"):
        save_model(model, path, **{name: facts[name] for name in names})
        contents.add(path.read_bytes())
    assert len(contents) == 1
    assert {name: read_metadata(path)[name] for name in facts} == facts


@each_case("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@each_case("suffix", ["safetensors", "pt"])
def test_dtypes_become_float32(model, tmp_path, dtype, suffix):
    path = tmp_path / f"m.{suffix}"
    tensors = {name: tensor.to(dtype) for name, tensor in state(model).items()}
    (safetensors.torch.save_file if suffix == "safetensors" else torch.save)(tensors, path)
    loaded, metadata = load_model(path)
    assert metadata["architecture"] == SPEC
    for name, tensor in loaded.state_dict().items():
        assert tensor.dtype == torch.float32 and torch.equal(tensor, tensors[name].float())


@pytest.mark.parametrize(
    "arch", [SPEC, json.dumps(SPEC), "mlp", lambda: build(SPEC), None], ids=["spec", "json", "name", "fn", "none"]
)
def test_the_architecture_can_be_named(model, path, arch):
    safetensors.torch.save_file(state(model), path)
    rng = torch.get_rng_state()
    assert torch.equal(load_model(path, arch)[0](INPUT), model(INPUT))
    assert torch.equal(torch.get_rng_state(), rng)


def test_a_preset_takes_classes_from_the_tensors(path):
    model = build({"architecture": "vgg", "plan": [8, "M"] * 5, "classes": 3}, seed=0)
    save_model(model, path)
    assert load_model(path, "vgg")[0].spec["classes"] == 3
    with pytest.raises(ValueError, match="does not fit its architecture: it lacks the key"):
        load_model(path, "vgg11")


def test_foreign_metadata_stays_text(model, path):
    safetensors.torch.save_file(state(model), path, {"architecture": "MLP 4-3-2, ReLU", "epochs": "10"})
    assert read_metadata(path) == {"architecture": "MLP 4-3-2, ReLU", "epochs": 10}
    assert load_model(path)[1]["architecture"] == SPEC


@each_case(
    ("changes", "message"),
    [
        ({"fc1.weight": torch.full((3, 4), torch.nan)}, "tensor 'fc1.weight' has 12 values that are NaN"),
        ({"fc2.bias": torch.tensor([1.0, torch.inf])}, "tensor 'fc2.bias' has 1 values that are NaN or inf"),
        ({"fc1.bias": torch.tensor([True, False, True])}, "tensor 'fc1.bias' has dtype bool"),
        ({"fc1.bias": torch.zeros(4)}, r"'fc1.bias' has shape \(4,\), wanted \(3,\)"),
    ],
)
@each_case("suffix", ["safetensors", "pth"])
def test_unusable_tensors(model, tmp_path, changes, message, suffix):
    path = tmp_path / f"m.{suffix}"
    (safetensors.torch.save_file if suffix == "safetensors" else torch.save)(state(model, **changes), path)
    with pytest.raises(ValueError, match=message) as caught:
        load_model(path, SPEC)
    assert str(path) in str(caught.value)


def test_a_file_that_is_cut_off_says_so(model, path):
    save_model(model, path)
    whole = path.read_bytes()
    for count in (0, 5, 40, len(whole) - 3):
        path.write_bytes(whole[:count])
        with pytest.raises(ValueError, match=r"model\.safetensors is cut off"):
            load_model(path)


@pytest.mark.long
def test_a_network_outlives_its_file(model, path):
    """Weights that are mapped to a file kill the process once it is shortened in place."""
    save_model(model, path)
    code = (
        f"import os; from retrofit_core import load_model; path = {str(path)!r}; model = load_model(path)[0];"
        "os.truncate(path, 0); print(sum(p.sum() for p in model.parameters()).isfinite().item())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "True")


def test_noise_gives_an_error_of_ours_or_a_model(model, path):
    save_model(model, path)
    whole, draw = path.read_bytes(), np.random.default_rng(0)
    for _ in range(200):
        noisy = bytearray(whole)
        noisy[draw.integers(len(whole))] = draw.integers(256)
        path.write_bytes(noisy)
        try:
            load_model(path)
        except ValueError as error:
            assert str(path) in str(error)


@pytest.mark.parametrize(
    "spec",
    [
        {"architecture": "mlp", "sizes": [2**20] * 900},
        {"architecture": "nn"},
        {"architecture": ["mlp"]},
        {"architecture": "mlp", "sizes": {"a": 1}},
    ],
)
def test_hostile_specs_cost_nothing(model, path, spec):
    texts = {"architecture": json.dumps(spec)}
    safetensors.torch.save_file(state(model), path, texts)
    with pytest.raises(ValueError, match=str(path)):
        load_model(path)


class Payload:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (self.marker,)


def test_pickles_are_refused_and_never_run(tmp_path, model):
    marker = str(tmp_path / "ran")
    torch.save({"fc1.weight": Payload(marker)}, tmp_path / "m.pt")
    torch.save(model, tmp_path / "whole.pt")
    (tmp_path / "noise.pt").write_bytes(b"noise")
    for name, words in (("m.pt", r"of \S*mkdir"), ("whole.pt", r"of \S*mlp.MLP"), ("noise.pt", "damaged")):
        with pytest.raises(ValueError, match=words):
            load_model(tmp_path / name)
    assert not os.path.exists(marker)


def test_missing_files_and_unknown_suffixes(tmp_path):
    with pytest.raises(ValueError, match="there is no checkpoint at"):
        load_model(tmp_path / "none.safetensors")
    (tmp_path / "m.onnx").write_bytes(b"x")
    with pytest.raises(ValueError, match="no checkpoint: safetensors are read, and .pt, .pth or .ckpt"):
        load_model(tmp_path / "m.onnx")
    with pytest.raises(ValueError, match=r"is a folder\. Name the checkpoint in it\."):
        load_model(tmp_path)


def test_names_that_cannot_be_written(model, tmp_path):
    with pytest.raises(ValueError, match=r"end in \.safetensors"):
        save_model(model, tmp_path / "m.pt")
    (tmp_path / "d.safetensors").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        save_model(model, tmp_path / "d.safetensors")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ValueError, match="cannot be written"):
        save_model(model, tmp_path / "file" / "m.safetensors")
    save_model(model, tmp_path / "new" / "m.safetensors")
    assert (tmp_path / "new" / "m.safetensors").is_file()
