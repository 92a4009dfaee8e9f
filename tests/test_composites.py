"""Networks that are made of several: one file, the same outputs, and a sentence for every file that is none."""

import copy
import dataclasses
import functools
import json

import pytest
import safetensors.torch
import torch

from retrofit_core import METHODS, FusionResult, ensemble, load_model, save_model
from retrofit_core.cli import main
from retrofit_core.data import load
from retrofit_core.networks.architectures import build
from retrofit_core.networks.checkpoints import read_metadata
from retrofit_core.runs import RunConfig, execute, read_run
from tests.flat import ensembling
from tests.marks import each_case, spread
from tests.networks import VGG_SHAPE, digits_parents, initialised, mlp, normal
from tests.properties import assert_close, untouched

SPECS = {
    "mlp": {"architecture": "mlp", "sizes": [192, 9, 8, 4]},
    "vgg with BatchNorm": {"architecture": "vgg", "plan": [3, "M", 4, 5], "classes": 4, "size": 8, "batch_norm": True},
    "resnet": {"architecture": "resnet", "layers": [1, 1], "width": 3, "classes": 4, "size": 8},
}


def parents(name, n=2):
    return [initialised(build(SPECS[name]), seed).float() for seed in range(n)]


def assert_comes_back(model, x, folder):
    """The file alone gives the outputs bit for bit, as a checkpoint and as a result."""
    save_model(model, folder / "model.safetensors", classes=["a", "b", "c", "d"])
    state = torch.get_rng_state()
    again, metadata = load_model(folder / "model.safetensors")
    assert torch.equal(torch.get_rng_state(), state)
    with torch.no_grad():
        assert torch.equal(again(x), model(x))
    assert metadata["architecture"] == model.spec == again.spec and metadata["classes"] == ["a", "b", "c", "d"]
    assert not any(module.training for module in again.modules())
    assert {name: t.shape for name, t in again.state_dict().items()} == {
        n: t.shape for n, t in model.state_dict().items()
    }
    return again


@pytest.mark.slow
@each_case("combine, name", spread(["softmax", "logits"], SPECS, 2))
def test_an_ensemble_comes_back(name, combine, tmp_path):
    models, x = parents(name, 3), normal(5, *VGG_SHAPE).float()
    with untouched(*models):
        result = ensembling(models, x, combine=combine, device="cpu")
        again = assert_comes_back(result.model, x, tmp_path)
    assert [type(member) for member in again.models] == [type(models[0])] * 3
    result.save(tmp_path / "run")
    assert torch.equal(FusionResult.load(tmp_path / "run").model(x), result.model(x))


@pytest.mark.slow
def test_an_ensemble_can_be_a_teacher_and_a_student():
    """Distilling takes any networks; methods that need neurons say why they do not."""
    pair, x = parents("mlp"), normal(20, *VGG_SHAPE).float()
    both = ensemble(pair)
    student = METHODS["KD"]([both, pair[0]], x, epochs=1, device="cpu").model
    assert student.spec == both.spec and not torch.equal(student.models[0].fc1.weight, pair[0].fc1.weight)
    for method in ("KF-Linear", "KF-Gradient", "OTFusion", "PLeaS", "LP", "Average", "RegMean"):
        with untouched(both), pytest.raises(ValueError, match=r"\w+ .*\."):
            METHODS[method]([both, pair[0]], x, device="cpu")


def test_networks_that_nobody_can_rebuild_are_refused_and_read_with_the_module(tmp_path):
    x = normal(20, 6)
    result = ensembling([mlp(), mlp(seed=2)], x, device="cpu")
    result.save(tmp_path)
    with pytest.raises(
        ValueError, match="entry 0 of its members is not an architecture of this library, .* FusionResult.load"
    ):
        FusionResult.load(tmp_path)
    blank = copy.deepcopy(result.model)
    for parameter in blank.parameters():
        parameter.data.zero_()
    assert torch.equal(FusionResult.load(tmp_path, blank).model(x), result.model(x))
    file = tmp_path / "fused.safetensors"
    assert_close(load_model(file, lambda: copy.deepcopy(result.model))[0](x.float()), result.model(x), 1e-5)


ENSEMBLE = {"architecture": "ensemble", "members": [SPECS["mlp"]], "combine": "softmax"}
GIANT = {"architecture": "mlp", "sizes": [192, 1 << 20, 1 << 20, 4]}


@each_case(
    ("spec", "message"),
    [
        ({**ENSEMBLE, "members": []}, r"needs a list of members. Found \[\]"),
        ({**ENSEMBLE, "combine": "votes"}, "an ensemble combines by softmax, logits. Found 'votes'"),
        ({**ENSEMBLE, "members": [SPECS["mlp"]] * 2}, r"lacks the key\(s\) models.1"),
        ({**ENSEMBLE, "members": [GIANT]}, "does not fit its architecture"),
        (
            functools.reduce(lambda spec, _: {**ENSEMBLE, "members": [spec]}, range(300), SPECS["mlp"]),
            "nested 4 times at most",
        ),
    ],
)
def test_specs_that_make_no_network(spec, message, tmp_path):
    path = tmp_path / "model.safetensors"
    tensors = {f"models.0.{name}": value for name, value in build(SPECS["mlp"], seed=0).state_dict().items()}
    safetensors.torch.save_file(tensors, path, {"architecture": json.dumps(spec)})
    with pytest.raises(ValueError, match=message) as caught:
        load_model(path)
    assert str(path) in str(caught.value)


# --- runs and the command line ---------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path):
    return RunConfig(**digits_parents(tmp_path), method="KF-Linear", samples=60, device="cpu")


def invoke(capsys, *words, code=0):
    """What the command prints: to standard output if it works, else to standard error."""
    assert main([str(word) for word in words]) == code
    printed = capsys.readouterr()
    return printed.err if code else printed.out


@pytest.mark.slow
@pytest.mark.parametrize("method", ["Ensemble", "KD"])
def test_a_run_of_several_networks_is_recorded_evaluated_and_read(method, config, tmp_path, capsys):
    out = tmp_path / "fused.safetensors"
    words = ["fuse", *config.models, "--splits", config.splits, "--samples", 60, "--method", method, "--device", "cpu"]
    output = invoke(capsys, *words, "--record", tmp_path / "run", "--out", out, "--evaluate", "--json")
    accuracy = json.loads(output)["networks"]["fused"]["accuracy"]
    assert read_run(tmp_path / "run").state == "done"
    for file in (out, tmp_path / "run" / "fused.safetensors"):
        assert json.loads(invoke(capsys, "evaluate", file, "--device", "cpu", "--json"))["accuracy"] == accuracy
        assert read_metadata(file)["classes"] == list(load("digits").classes)
    result, _ = execute(dataclasses.replace(config, method=method))
    x = load("digits", "test").inputs(torch.arange(10))
    assert torch.equal(FusionResult.load(tmp_path / "run").model(x), result.model(x))
