"""Class names in checkpoints, data and other networks. The oracle: the same network with its classes in the order of the data."""

import dataclasses

import numpy as np
import pytest
import torch
from PIL import Image

from retrofit_core import runs
from retrofit_core.cli import main
from retrofit_core.data import load
from retrofit_core.networks.architectures import build
from retrofit_core.networks.checkpoints import load_model, save_model
from retrofit_core.runs.inputs import read_inputs

NAMES = ("cat", "dog", "fox", "owl")
SPEC = {"architecture": "cnn", "widths": [6, 6, 6], "size": 8, "channels": 3, "classes": 4}
ORDER = [2, 0, 3, 1]


def image_folder(folder, names=NAMES):
    draw = np.random.default_rng(0)
    for split, count in (("train", 8), ("val", 4)):
        for number, name in enumerate(names):
            (folder / split / name).mkdir(parents=True)
            for index in range(count):
                pixels = draw.integers(0, 80, (8, 8, 3)) + 40 * number * np.eye(3, dtype=int)[number % 3]
                Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / split / name / f"{index}.png")
    return folder


@pytest.fixture
def data(tmp_path):
    return image_folder(tmp_path / "animals")


def in_order(model, order):
    """The network whose output c is output order[c] of the model."""
    other = build(SPEC, seed=0)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    last = list(dict(model.named_modules()))[-1]
    for name in (f"{last}.weight", f"{last}.bias"):
        state[name] = state[name][order]
    other.load_state_dict(state)
    return other


@pytest.fixture
def files(tmp_path, data):
    """(a network, it again with its classes in another order), twice, as checkpoints."""
    made = []
    for seed in (1, 2):
        model = build(SPEC, seed=seed)
        save_model(model, tmp_path / f"{seed}.safetensors", classes=list(NAMES))
        save_model(in_order(model, ORDER), tmp_path / f"{seed}-other.safetensors", classes=[NAMES[c] for c in ORDER])
        made += [tmp_path / f"{seed}.safetensors", tmp_path / f"{seed}-other.safetensors"]
    return made


def test_classes_in_another_order_are_refused(tmp_path, data, files):
    images = load(data, "test")
    load_model(files[0], like=images)
    with pytest.raises(
        ValueError, match="fox, cat, owl, dog apart, and .* has cat, dog, fox, owl.*rows of its last layer"
    ):
        load_model(files[1], like=images)


@pytest.mark.slow
def test_other_classes_are_refused_with_both_lists_before_any_work(tmp_path, files, capsys):
    strange = image_folder(tmp_path / "strange", ("dog", "fox", "owl", "zebra"))
    words = ["fuse", files[0], files[2], "--fusion-from", "iid", "--samples", "16", "--out", tmp_path / "f.safetensors"]
    assert main([*map(str, words), "--data", str(strange), "--device", "cpu"]) == 2
    said = capsys.readouterr().err
    assert "cat, dog, fox, owl" in said and "dog, fox, owl, zebra" in said and "classes.json" in said
    assert not (tmp_path / "f.safetensors").exists()


def test_the_way_out_of_names_that_differ(tmp_path, files, capsys):
    renamed = image_folder(tmp_path / "renamed", ("Dachs", "Eule", "Fuchs", "Hund"))
    assert main(["evaluate", str(files[0]), "--data", str(renamed), "--device", "cpu"]) == 2
    assert "Dachs, Eule, Fuchs, Hund" in capsys.readouterr().err
    (renamed / "classes.json").write_text('{"classes": ["cat", "dog", "fox", "owl"]}')
    assert main(["evaluate", str(files[0]), "--data", str(renamed), "--device", "cpu"]) == 0


def test_spelling_is_no_other_class(tmp_path, data, files):
    images = load(data, "test")
    model, _ = load_model(files[0])
    save_model(model, tmp_path / "m.safetensors", classes=["Cat", "DOG", "fox ", "o_wl"])
    assert torch.equal(load_model(tmp_path / "m.safetensors", like=images)[0](images.inputs()), model(images.inputs()))


def test_numbers_for_names_are_not_compared_but_parents_are(data, files):
    """Data whose classes have numbers only."""
    (data / "classes.json").write_text('{"classes": ["0", "1", "2", "3"]}')
    config = runs.RunConfig(
        (str(files[0]), str(files[2])), str(data), fusion_from="iid", method="KF-Linear", samples=16
    )
    assert len(read_inputs(config).models) == 2
    with pytest.raises(ValueError, match="class c would be fused with another class"):
        read_inputs(dataclasses.replace(config, models=(str(files[0]), str(files[3]))))
