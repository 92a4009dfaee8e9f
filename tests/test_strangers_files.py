"""Files that load elsewhere: what torch itself loads into the network is the oracle."""

import argparse
import gzip
import pickle
import re

import pytest
import safetensors.torch
import torch
from torch import nn

from retrofit_core.networks.checkpoints import load_model, read_metadata
from tests.marks import each_case

MLP = {"architecture": "mlp", "sizes": [64, 6, 10]}

INPUT = torch.linspace(-1, 1, 3 * 3 * 8 * 8).view(3, 3, 8, 8)


class Net(nn.Module):
    """With the BatchNorm, and, if `tied`, a tensor under two names."""

    def __init__(self, tied=False):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3)
        self.bn1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3)
        self.fc = nn.Linear(4, 4)
        self.last = nn.Linear(4, 4)
        if tied:
            self.last.weight = self.fc.weight

    def forward(self, x):
        x = self.conv2(self.bn1(self.conv1(x)).relu()).relu().mean((2, 3))
        return self.last(self.fc(x))


def network(seed, tied=False):
    torch.manual_seed(seed)
    model = Net(tied)
    model(torch.randn(8, 3, 8, 8))
    return model.eval()


def prefixed(state, prefix):
    return {prefix + name: tensor for name, tensor in state.items()}


def renamed(state, old, new):
    return {name.replace(old, new): tensor for name, tensor in state.items()}


def loads(path, model, make=Net, **options):
    loaded, metadata = load_model(path, make, **options)
    torch.testing.assert_close(loaded(INPUT), model(INPUT), rtol=0, atol=0)
    return metadata


PREFIXES = ("", "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.")


@each_case("prefix", PREFIXES)
@each_case("key", [(), ("state_dict",), ("model",)])
def test_a_state_dict_behind_a_key_and_prefixes(prefix, key, tmp_path):
    model = network(0)
    content = prefixed(model.state_dict(), prefix)
    for name in reversed(key):
        content = {"step": torch.tensor(3), name: content, "args": argparse.Namespace(lr=0.1)}
    torch.save(content, tmp_path / "m.pth")
    loads(tmp_path / "m.pth", model)


def test_batch_norms_counter_may_be_missing(tmp_path):
    model = network(0)
    state = model.state_dict()
    del state["bn1.num_batches_tracked"]
    for prefix in ("", "module."):
        safetensors.torch.save_file(prefixed(state, prefix), tmp_path / "m.safetensors")
        loaded, _ = load_model(tmp_path / "m.safetensors", Net)
        assert torch.equal(loaded(INPUT), model(INPUT))
        counted = loaded.bn1.num_batches_tracked
        assert counted.dtype == torch.int64 and counted.shape == () and counted == 0


@pytest.mark.parametrize("left_out", ["fc.weight", "last.weight"])
def test_one_of_two_tied_names_is_enough(left_out, tmp_path):
    model = network(0, tied=True)
    state = model.state_dict()
    del state[left_out]
    safetensors.torch.save_file(state, tmp_path / "m.safetensors")
    loads(tmp_path / "m.safetensors", model, lambda: Net(tied=True))
    loaded, _ = load_model(tmp_path / "m.safetensors", lambda: Net(tied=True))
    assert loaded.last.weight is loaded.fc.weight
    with pytest.raises(ValueError, match=re.escape(f"lacks the key(s) {left_out}")):
        load_model(tmp_path / "m.safetensors", Net)


@each_case("form", ["safetensors", "torch", "old torch"])
@each_case("name", ["m.safetensors", "m.pt", "m.bin", "m.weights", "model"])
def test_the_content_decides_and_not_the_name(form, name, tmp_path):
    model, path = network(0), tmp_path / name
    if form == "safetensors":
        safetensors.torch.save_file(model.state_dict(), path, {"classes": '["a", "b", "c", "d"]'})
        assert read_metadata(path) == {"classes": ["a", "b", "c", "d"]}
    else:
        torch.save(model.state_dict(), path, _use_new_zipfile_serialization=form == "torch")
    loads(path, model)


def test_the_advice_for_files_that_are_never_run_works_with_these_very_files(tmp_path, monkeypatch):
    """Whole networks, alone or under a key; tensors beside somebody's own objects."""
    monkeypatch.chdir(tmp_path)
    model = network(0)
    torch.save(model, "whole.pt")
    torch.save({"epoch": 3, "model": model}, "under a key.pt")
    torch.save({"weights": model.state_dict(), "settings": pytest.param(1)}, "others.pt")
    torch.save(
        {"weights": model.state_dict(), "settings": pytest.param(1)}, "old.pt", _use_new_zipfile_serialization=False
    )
    for file, words, key in (
        ("whole.pt", r"an object of \S*Net, whose code", None),
        ("under a key.pt", r"an object of \S*Net, whose code", None),
        ("others.pt", "an object of _?pytest", "'weights'"),
        ("old.pt", "an object of _?pytest", "'weights'"),
    ):
        with pytest.raises(ValueError, match=words) as refusal:
            load_model(tmp_path / file, Net)
        first, *lines = re.findall(r"content = torch\.load\(.*?\)|torch\.save\(.*?'tensors.pt'\)", str(refusal.value))
        names = {"torch": torch}
        exec(first, names)
        if file == "under a key.pt":
            names["content"] = names["content"]["model"]
        if lines:
            exec(lines[key is not None].replace("KEY", str(key)), names)
        loads(tmp_path / "tensors.pt", model)
        (tmp_path / "tensors.pt").unlink()


@each_case(
    "content",
    [b"version https://git-lfs.github.com/spec/v1", b"<!DOCTYPE html>", gzip.compress(b"x"), pickle.dumps(object())],
)
def test_what_is_no_checkpoint_says_what_is_read(content, tmp_path):
    for name, words in (
        ("m.pth", ".pt, .pth or .ckpt with a state dict"),
        ("m.safetensors", "no safetensors file|no checkpoint: safetensors"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=words) as refusal:
            load_model(tmp_path / name, Net)
        assert str(tmp_path / name) in str(refusal.value)


@each_case("content", [{"weights": {"a": torch.ones(2)}}, [torch.ones(2)], {"model": {}}])
def test_a_file_without_a_state_dict_says_where_one_is_looked_for(content, tmp_path):
    torch.save(content, tmp_path / "m.pth")
    with pytest.raises(
        ValueError, match=r"holds no state dict, alone or under 'state_dict' or 'model'\. .*torch.save\(network"
    ):
        load_model(tmp_path / "m.pth", Net)


def test_class_names_beside_the_tensors(tmp_path):
    torch.save({"state_dict": network(0).state_dict(), "classes": ("b", "a")}, tmp_path / "m.pth")
    assert read_metadata(tmp_path / "m.pth") == {"classes": ["b", "a"]}
    assert load_model(tmp_path / "m.pth", Net)[1]["classes"] == ["b", "a"]
