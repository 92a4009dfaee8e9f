"""Class names in checkpoints, data and other networks. The oracle: the same network with its classes in the order of the data."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image

from retrofit_core import runs
from retrofit_core.cli import main
from retrofit_core.data import load
from retrofit_core.networks.architectures import build
from retrofit_core.networks.checkpoints import load_model, save_model
from retrofit_core.runs.inputs import read_inputs
from retrofit_core.system import refusals
from retrofit_core.training.parents import TrainConfig, train_parents

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


def fused(tmp_path, words, out="fused.safetensors"):
    words = [
        "fuse",
        *map(str, words),
        "--fusion-from",
        "iid",
        "--samples",
        "16",
        "--device",
        "cpu",
        "--out",
        str(tmp_path / out),
        "--overwrite",
    ]
    assert main(words) == 0
    return safetensors.torch.load_file(tmp_path / out)


def test_classes_in_another_order_are_the_same_network(tmp_path, data, files, capsys):
    images = load(data, "test")
    for straight, other in (files[:2], files[2:]):
        expected, facts = load_model(straight, like=images)
        found, other_facts = load_model(other, like=images)
        assert torch.equal(found(images.inputs()), expected(images.inputs()))
        assert other_facts["classes"] == facts["classes"] == list(NAMES)
        assert not torch.equal(
            load_model(other)[0](images.inputs()), expected(images.inputs())
        )  # nothing to compare with
    results = []
    for pair in ((files[0], files[2]), (files[1], files[2]), (files[1], files[3])):
        capsys.readouterr()
        assert main(["evaluate", *map(str, pair), "--data", str(data), "--device", "cpu", "--json"]) == 0
        results.append(list(json.loads(capsys.readouterr().out)["networks"].values()))
    assert results[0] == results[1] == results[2]
    plain = fused(tmp_path, [files[0], files[2], "--data", data])
    mapped = fused(tmp_path, [files[1], files[2], "--data", data])
    assert plain.keys() == mapped.keys() and all(torch.equal(plain[name], mapped[name]) for name in plain)


def test_other_classes_are_refused_with_both_lists_before_any_work(tmp_path, files, capsys):
    strange = image_folder(tmp_path / "strange", ("dog", "fox", "owl", "zebra"))
    words = ["fuse", files[0], files[2], "--fusion-from", "iid", "--samples", "16", "--out", tmp_path / "f.safetensors"]
    assert main([*map(str, words), "--data", str(strange), "--device", "cpu"]) == 2
    said = capsys.readouterr().err
    assert "cat, dog, fox, owl" in said and "dog, fox, owl, zebra" in said and "classes.json" in said
    assert not (tmp_path / "f.safetensors").exists()


def test_the_way_out_of_names_that_differ(tmp_path, files, capsys):
    renamed = image_folder(tmp_path / "renamed", ("Katze", "Hund", "Fuchs", "Eule"))
    assert main(["evaluate", str(files[0]), "--data", str(renamed), "--device", "cpu"]) == 2
    assert "Eule, Fuchs, Hund, Katze" in capsys.readouterr().err
    (renamed / "classes.json").write_text('{"classes": ["owl", "fox", "dog", "cat"]}')
    assert main(["evaluate", str(files[0]), "--data", str(renamed), "--device", "cpu"]) == 0


def test_spelling_is_no_other_class(tmp_path, data, files):
    images = load(data, "test")
    model, _ = load_model(files[0])
    save_model(model, tmp_path / "m.safetensors", classes=["Cat", "DOG", "fox ", "o_wl"])
    assert torch.equal(load_model(tmp_path / "m.safetensors", like=images)[0](images.inputs()), model(images.inputs()))


def test_numbers_for_names_are_not_compared_but_parents_are(tmp_path, data, files):
    """Data whose classes have numbers only: the parents' classes come into the order of the first one's."""
    (data / "classes.json").write_text('{"classes": ["0", "1", "2", "3"]}')
    config = runs.RunConfig(
        (str(files[0]), str(files[3])), str(data), fusion_from="iid", method="KF-Linear", samples=16, device="cpu"
    )
    models, images = read_inputs(config).models, load(data, "train").inputs()
    assert torch.equal(models[0](images), load_model(files[0])[0](images))
    assert torch.equal(models[1](images), load_model(files[2])[0](images))
    turned = dataclasses.replace(config, models=(str(files[3]), str(files[0])))
    assert torch.equal(read_inputs(turned).models[1](images), load_model(files[1])[0](images))


def test_moved_images_and_other_rows_are_noted_before_the_work(tmp_path, data):
    arch = json.dumps({name: SPEC[name] for name in ("architecture", "widths")})
    training = TrainConfig(data=str(data), arch=(arch,), epochs=1, device="cpu")
    train_parents(training, tmp_path / "p")
    splits = training.splits(tmp_path / "p")
    config = runs.RunConfig(training.files(tmp_path / "p"), str(data), splits=splits, method="KF-Linear", samples=8)
    read_inputs(config)  # a warning would be an error
    content = json.loads(Path(splits).read_text())
    content["parts"][0]["train_rows"].pop()
    (tmp_path / "other.json").write_text(json.dumps(content))
    with pytest.warns(refusals.Notice, match=r"parent-0.safetensors was trained on other rows .*--fusion-from iid"):
        read_inputs(dataclasses.replace(config, splits=str(tmp_path / "other.json")))
    shutil.move(data / "train" / "cat" / "0.png", data / "train" / "owl" / "99.png")
    with pytest.warns(
        refusals.Notice, match=r"the training images of animals have changed since .*parent-\d.safetensors"
    ):
        read_inputs(config)
    read_inputs(dataclasses.replace(config, splits=None, fusion_from="iid"))  # the way out, without a warning
