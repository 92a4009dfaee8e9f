"""Files that load elsewhere: what torch itself loads into the network is the oracle."""

import argparse
import gzip
import io
import json
import pickle
import re

import pytest
import safetensors.torch
import torch
from torch import nn

from retrofit_core.cli import main
from retrofit_core.networks.architectures import build
from retrofit_core.networks.checkpoints import load_model, read_metadata, save_model
from retrofit_core.runs import RunConfig, identity, read_config
from retrofit_core.system import refusals
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


PREFIXES = (
    "module.",
    "module._orig_mod.",
    "_orig_mod.module.",
    "model._orig_mod.",
    "net.module.model.",
    "backbone.",
    "student.encoder.classifier._orig_mod.module.",
)


@each_case("prefix", PREFIXES)
@each_case("key", [(), ("state_dict",), ("checkpoint", "model"), ("params",), ("weights", "net", "state_dict")])
def test_any_chain_of_prefixes_behind_any_key(prefix, key, tmp_path):
    model = network(0)
    content = prefixed(model.state_dict(), prefix)
    for name in reversed(key):
        content = {name: content, "epoch": 3, "args": argparse.Namespace(lr=0.1)}
    torch.save(content, tmp_path / "m.pth")
    loads(tmp_path / "m.pth", model)


@pytest.mark.parametrize(
    "infix", ["_orig_mod.", "_fsdp_wrapped_module.", "module._checkpoint_wrapped_module.", "module."]
)
def test_wrappers_around_a_part(infix, tmp_path):
    model = network(0)
    torch.save(renamed(model.state_dict(), "conv2.", f"conv2.{infix}"), tmp_path / "m.pth")
    loads(tmp_path / "m.pth", model)


def test_a_part_of_a_larger_network_is_not_read_in_silence(tmp_path):
    model = network(0)
    torch.save(prefixed(model.state_dict(), "model.") | {"head.weight": torch.ones(4, 4)}, tmp_path / "m.ckpt")
    with pytest.warns(
        refusals.Notice, match=r"1 matrices beside the network's tensors were left out, such as head.weight"
    ):
        loads(tmp_path / "m.ckpt", model)


@pytest.mark.parametrize("steps", [None, torch.tensor(7.0), torch.tensor([7])])
def test_batch_norms_counter_is_missing_or_of_another_type(steps, tmp_path):
    model = network(0)
    state = model.state_dict()
    if steps is None:
        del state["bn1.num_batches_tracked"]
    else:
        state["bn1.num_batches_tracked"] = steps
    for prefix in ("", "module."):
        safetensors.torch.save_file(prefixed(state, prefix), tmp_path / "m.safetensors")
        loaded, _ = load_model(tmp_path / "m.safetensors", Net)
        assert torch.equal(loaded(INPUT), model(INPUT))
        counted = loaded.bn1.num_batches_tracked
        assert counted.dtype == torch.int64 and counted.shape == () and counted == (0 if steps is None else 7)


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


def test_a_network_that_was_not_tied_is_not_read_into_one_that_is(tmp_path):
    torch.save(network(0).state_dict(), tmp_path / "m.pth")
    with pytest.raises(ValueError, match=r"'fc.weight' and 'last.weight' are one tensor in the network and differ"):
        load_model(tmp_path / "m.pth", lambda: Net(tied=True))


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


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_sharded_checkpoints(kind, tmp_path):
    model = network(0)
    names, folder = list(model.state_dict()), tmp_path / "m"
    folder.mkdir()
    placed = {}
    for number, part in enumerate((names[:5], names[5:])):
        file = f"model-{number}.{kind}"
        state = {name: model.state_dict()[name] for name in part}
        (safetensors.torch.save_file if kind == "safetensors" else torch.save)(state, folder / file)
        placed |= dict.fromkeys(part, file)
    index = folder / ("model.safetensors.index.json" if kind == "safetensors" else "pytorch_model.bin.index.json")
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": placed}))
    for path in (folder, index):
        loads(path, model)
    (folder / f"model-1.{kind}").rename(folder / "elsewhere")
    with pytest.raises(ValueError, match=rf"names model-1.{kind}, which is not there: put all 2 shards beside it"):
        load_model(folder, Net)
    index.write_text(json.dumps({"weight_map": dict.fromkeys(names, "../m.bin")}))
    with pytest.raises(ValueError, match="is no index of a sharded checkpoint"):
        load_model(index, Net)


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_the_advice_for_files_that_are_never_run_works_with_these_very_files(tmp_path, monkeypatch):
    """Whole networks, alone or under a key; scripted ones; tensors beside somebody's own objects."""
    monkeypatch.chdir(tmp_path)
    model = network(0)
    torch.save(model, "whole.pt")
    torch.save({"epoch": 3, "model": model}, "under a key.pt")
    torch.save({"weights": model.state_dict(), "settings": pytest.param(1)}, "others.pt")
    torch.save(
        {"weights": model.state_dict(), "settings": pytest.param(1)}, "old.pt", _use_new_zipfile_serialization=False
    )
    torch.export.save(torch.export.export(model, (INPUT,)), "exported.pt2")
    torch.jit.save(torch.jit.trace(model, INPUT), "script.pt")
    for file, words, key in (
        ("whole.pt", r"an object of \S*Net, whose code", None),
        ("under a key.pt", r"an object of \S*Net, whose code", None),
        ("others.pt", "an object of _?pytest", "'weights'"),
        ("old.pt", "an object of _?pytest", "'weights'"),
        ("exported.pt2", "is an exported program", None),
        ("script.pt", "is a scripted network", None),
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


def archive(names):
    import zipfile

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        for name in names:
            written.writestr(name, b"x")
    return file.getvalue()


@each_case(
    ("content", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1", "git lfs pull"),
        (b"<!DOCTYPE html><html>", "is a web page"),
        (gzip.compress(b"x"), "packed archive: unpack it"),
        (pickle.dumps(object()), "damaged, or no file that torch.save wrote"),
    ],
)
def test_what_is_no_checkpoint_is_told_by_its_content(content, words, tmp_path):
    for name in ("m.pth", "m.safetensors"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=words) as refusal:
            load_model(tmp_path / name, Net)
        assert str(tmp_path / name) in str(refusal.value)


def test_adapters_and_quantised_weights_are_told(tmp_path):
    adapter = {
        "base_model.model.fc.lora_A.weight": torch.ones(2, 4),
        "base_model.model.fc.lora_B.weight": torch.ones(4, 2),
    }
    safetensors.torch.save_file(adapter, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "some/base"}')
    for path in (tmp_path / "adapter_model.safetensors", tmp_path):
        for make in (Net, None):
            with pytest.raises(ValueError, match=r"holds an adapter .* with some/base loaded .*merge_and_unload\(\)"):
                load_model(path, make)
    quantised = network(0).state_dict() | {
        "fc.weight": torch.ones(8, 1, dtype=torch.uint8),
        "fc.weight.absmax": torch.ones(1),
    }
    safetensors.torch.save_file(quantised, tmp_path / "q.safetensors")
    with pytest.raises(ValueError, match="holds quantised weights"):
        load_model(tmp_path / "q.safetensors", Net)


def test_our_own_networks_are_recognised_behind_all_that(tmp_path):
    model = build({"architecture": "vgg", "plan": [4, "M"], "size": 4, "batch_norm": True}, seed=0).eval()
    state = {name: value for name, value in model.state_dict().items() if not name.endswith("num_batches_tracked")}
    content = prefixed(state | {"total_ops": torch.zeros(1)}, "net._orig_mod.module.")
    torch.save({"checkpoint": {"weights": content}}, tmp_path / "m")
    loaded, facts = load_model(tmp_path / "m")
    example = torch.ones(1, 3, 4, 4)
    assert torch.equal(loaded(example), model(example)) and facts["architecture"] == model.spec


@pytest.mark.slow
def test_a_function_may_give_a_wrapped_network(tmp_path):
    model = network(0)
    torch.save(model.state_dict(), tmp_path / "m.pth")
    for wrap in (nn.DataParallel, torch.compile, torch.optim.swa_utils.AveragedModel):
        loads(tmp_path / "m.pth", model, lambda wrap=wrap: wrap(Net()))


def test_numbers_of_numpy_are_read(tmp_path):
    model = network(0)
    torch.save({"model": {name: value.numpy() for name, value in model.state_dict().items()}}, tmp_path / "m.pkl")
    loads(tmp_path / "m.pkl", model)


def test_an_averaged_model_alone_is_no_choice(tmp_path):
    model = network(0)
    torch.save(torch.optim.swa_utils.AveragedModel(model).state_dict(), tmp_path / "m.pth")
    loads(tmp_path / "m.pth", model)  # a notice about its counter would be an error


class Positions(nn.Module):
    """With a buffer that is not saved, which earlier versions of the network saved."""

    def __init__(self, persistent=False):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.register_buffer("position_ids", torch.arange(3), persistent=persistent)

    def forward(self, x):
        return self.fc(x.mean((2, 3))) + self.position_ids


def test_a_buffer_that_is_saved_no_more_is_left_out(tmp_path):
    model = Positions(persistent=True)
    torch.save(prefixed(model.state_dict(), "module."), tmp_path / "m.pth")
    loads(tmp_path / "m.pth", model, Positions)


def test_a_network_with_a_part_called_ema_is_no_average(tmp_path):
    class Attentive(nn.Module):
        def __init__(self):
            super().__init__()
            self.ema, self.fc = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            return self.fc(self.ema(x.mean((2, 3))))

    model = Attentive()
    for prefix in ("", "module._orig_mod."):
        torch.save({"state_dict": prefixed(model.state_dict(), prefix)}, tmp_path / "m.pth")
        loads(tmp_path / "m.pth", model, Attentive)  # a notice would be an error


@pytest.mark.slow
def test_weights_are_chosen_on_the_command_line_and_in_records(tmp_path, capsys):
    plain, averaged = (build(MLP, seed=seed) for seed in range(2))
    torch.save({"state_dict": plain.state_dict(), "state_dict_ema": averaged.state_dict()}, tmp_path / "m.pth")
    file, device = str(tmp_path / "m.pth"), ["--device", "cpu"]
    assert main(["evaluate", file, "--weights", "ema", *device]) == 0
    for chosen, expected in (([], averaged), (["--weights", "model"], plain)):
        words = ["--method", "average", *device, *chosen, "--record", str(tmp_path / f"run{len(chosen)}")]
        assert main(["fuse", file, file, "--fusion-from", "iid", "--samples", "20", *words]) == 0
        found = load_model(tmp_path / f"run{len(chosen)}" / "fused.safetensors")[0]
        assert all(torch.allclose(a, b) for a, b in zip(found.parameters(), expected.parameters(), strict=True))
        assert ("state_dict_ema were read" in capsys.readouterr().err) == (not chosen)
    assert "--weights model" in read_config(tmp_path / "run2").command()


AVERAGED = {
    "state_dict_ema": lambda state: {"state_dict_ema": state},
    "model_ema": lambda state: {"model_ema": {"n_averaged": torch.tensor(5), **prefixed(state, "module.")}},
    "ema_state_dict": lambda state: {
        "ema_state_dict": {"steps": torch.tensor(3), **prefixed(state, "module._orig_mod.")}
    },
    "ema.shadow": lambda state: {"ema": {"decay": 0.99, "shadow": state}},
    "params_ema": lambda state: {"params_ema": state},
    "swa_model": lambda state: {"swa_model": prefixed(state, "module.")},
}


@pytest.mark.slow
@each_case("name", AVERAGED)
@each_case("plain", ["state_dict", "model", "params"])
def test_averaged_weights_are_read_first_and_said(name, plain, tmp_path):
    """As timm's load_state_dict(use_ema=True), whose default that is."""
    model, averaged, path = network(0), network(1), tmp_path / "m.pth"
    torch.save({plain: prefixed(model.state_dict(), "module."), **AVERAGED[name](averaged.state_dict())}, path)
    with pytest.warns(refusals.Notice, match=rf"averaged \(EMA\) weights under {name}.* --weights model"):
        assert loads(path, averaged)["weights"].startswith(name)
    assert loads(path, averaged, weights="ema")["weights"].startswith(name)
    assert loads(path, averaged, weights=name)
    assert loads(path, model, weights="model")["weights"].startswith(plain)
    assert loads(path, model, weights=plain)
    with pytest.raises(ValueError, match=r"holds no weights under 'other' that fit the network. Fitting: "):
        load_model(path, Net, weights="other")


def test_averages_of_parameters_alone_get_the_buffers_beside_them(tmp_path):
    model, averaged = network(0), network(1)
    shadow = {name: value.data for name, value in averaged.named_parameters()}
    torch.save({"model": model.state_dict(), "ema": {"shadow": shadow}}, tmp_path / "m.pth")
    averaged.load_state_dict(dict(model.named_buffers()), strict=False)
    with pytest.warns(refusals.Notice, match="ema.shadow"):
        loads(tmp_path / "m.pth", averaged)


def test_averages_among_the_tensors_of_a_lightning_module(tmp_path):
    model, averaged = network(0), network(1)
    state = prefixed(model.state_dict(), "model.") | prefixed(averaged.state_dict(), "ema_model.module.")
    torch.save({"state_dict": state | {"ema_model.initted": torch.tensor(True)}}, tmp_path / "m.ckpt")
    with pytest.warns(refusals.Notice, match="state_dict.ema_model"):
        loads(tmp_path / "m.ckpt", averaged)
    loads(tmp_path / "m.ckpt", model, weights="model")


def test_averages_that_cannot_be_read_are_not_passed_over_in_silence(tmp_path):
    model = network(0)
    torch.save({"model": model.state_dict(), "ema": {"shadow_params": [torch.ones(2)]}}, tmp_path / "m.pth")
    with pytest.warns(refusals.Notice, match=r"averaged \(EMA\) weights under ema.* were not read"):
        loads(tmp_path / "m.pth", model)
    with pytest.raises(ValueError, match=r"holds no averaged \(EMA\) weights that fit"):
        load_model(tmp_path / "m.pth", Net, weights="ema")


def test_equal_weights_under_two_keys_are_no_choice(tmp_path):
    model = network(0)
    torch.save({"state_dict": model.state_dict(), "state_dict_ema": model.state_dict()}, tmp_path / "m.pth")
    assert "weights" not in loads(tmp_path / "m.pth", model)


def test_weights_nobody_can_choose_between_are_refused(tmp_path):
    first, second = network(0), network(1)
    torch.save({"student": first.state_dict(), "teacher": second.state_dict()}, tmp_path / "m.pth")
    with pytest.raises(
        ValueError, match=r"several weights that fit the network: student, teacher. Choose with --weights"
    ):
        load_model(tmp_path / "m.pth", Net)
    loads(tmp_path / "m.pth", second, weights="teacher")


@pytest.mark.parametrize(
    "said",
    [
        {"classes": ["b", "a"]},
        {"class_names": ("b", "a")},
        {"class_to_idx": {"a": 1, "b": 0}},
        {"idx_to_class": {0: "b", 1: "a"}},
    ],
)
def test_class_names_beside_the_tensors(said, tmp_path):
    torch.save({"state_dict": network(0).state_dict(), **said}, tmp_path / "m.pth")
    assert read_metadata(tmp_path / "m.pth") == {"classes": ["b", "a"]}
    assert load_model(tmp_path / "m.pth", Net)[1]["classes"] == ["b", "a"]


def test_records_know_the_content_of_shards(tmp_path):
    parents = [build(MLP, seed=seed) for seed in range(3)]
    save_model(parents[1], tmp_path / "second.safetensors")

    def shard(model):
        (tmp_path / "first").mkdir(exist_ok=True)
        placed = {}
        for name, tensor in model.state_dict().items():
            safetensors.torch.save_file({name: tensor}, tmp_path / "first" / f"{name}.safetensors")
            placed[name] = f"{name}.safetensors"
        (tmp_path / "first" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))

    shard(parents[0])
    config = RunConfig((str(tmp_path / "first"), str(tmp_path / "second.safetensors")), fusion_from="iid")
    before = identity(config)
    shard(parents[2])
    assert before.key() != identity(config).key()
