"""Our networks: shapes, keys, specs, and recognition from bare tensors."""

import pytest
import torch
from torch import nn

from retrofit_core.architectures import ARCHITECTURES, PRESETS, build, parse, recognise

SPECS = [
    {"architecture": "mlp", "sizes": [784, 256, 10], "bias": True},
    {"architecture": "mlp", "sizes": [784, 400, 200, 100, 10], "bias": False},
    {"architecture": "mlp", "sizes": [784, 10], "bias": True},
    {"architecture": "cnn", "widths": [16, 32, 32], "classes": 10, "channels": 1, "size": 8},
    {"architecture": "cnn", "widths": [4, 5, 6], "classes": 3, "channels": 3, "size": 28},
    *[
        {"architecture": "vgg", "plan": plan, "classes": 7, "channels": 3, "size": size, "batch_norm": norm}
        for norm in (False, True)
        for plan, size in [([4, "M", 5, 6, "M"], 16), ([4, 5, "M", 6, 7, "M", 8, "M"], 8), ([3, "M"], 4)]
    ],
]


def images_for(spec):
    if spec["architecture"] == "mlp":
        return torch.randn(2, 1, 28, 28)
    return torch.randn(2, spec["channels"], spec["size"], spec["size"])


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_spec_builds_runs_and_is_recognised_from_its_tensors(spec):
    model = build(spec, seed=0)
    assert model.spec == spec
    assert model(images_for(spec)).shape == (2, spec["sizes"][-1] if "sizes" in spec else spec["classes"])
    assert recognise(model.state_dict()) == spec


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_every_module_is_used_once(spec):
    model, calls = build(spec, seed=0), []
    for name, module in model.named_modules():
        if not list(module.children()):
            module.register_forward_hook(lambda *_, name=name: calls.append(name))
    model(images_for(spec))
    leaves = [name for name, module in model.named_modules() if not list(module.children())]
    assert sorted(calls) == sorted(leaves)


def test_preset_sizes_are_the_papers():
    def parameters(name):
        with torch.device("meta"):
            return sum(p.numel() for p in build(parse(name)).parameters())

    assert parameters("vgg11") == 9_225_610
    millions = [f"{parameters(f'vgg11-{width}') / 1e6:.3g}" for width in ("half", "double", "quad")]
    assert millions == ["2.92", "32", "118"]
    assert [w for w in PRESETS["vgg11-half"]["plan"] if w != "M"] == [64, 64, 128, 128, 256, 256, 256, 512]


def test_seeds_leave_the_global_state_alone():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    first, again, other = (build({"architecture": "cnn"}, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.classifier.weight, again.classifier.weight)
    assert not torch.equal(first.classifier.weight, other.classifier.weight)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"architecture": "vg"}, "unknown architecture 'vg'. Known: mlp, cnn, vgg. Did you mean 'vgg'?"),
        ({}, "unknown architecture"),
        ({"architecture": "mlp"}, "needs 'sizes'. Its keywords: sizes, bias"),
        ({"architecture": "mlp", "sizes": [4]}, "'sizes' cannot be"),
        ({"architecture": "mlp", "sizes": [4, 0]}, "'sizes' cannot be"),
        ({"architecture": "mlp", "sizes": "4,2"}, "'sizes' cannot be 4,2"),
        ({"architecture": "mlp", "sizes": [4, 2**40]}, "'sizes' cannot be"),
        ({"architecture": "mlp", "sizes": [2] * 2000}, "'sizes' cannot be"),
        ({"architecture": "cnn", "widths": [1, 2]}, "needs three widths"),
        ({"architecture": "cnn", "size": 10}, "multiple of 4"),
        ({"architecture": "cnn", "depth": 3}, "does not know 'depth'"),
        ({"architecture": "vgg", "plan": ["M"]}, "'plan' cannot be"),
        ({"architecture": "vgg", "size": 16}, "5 poolings needs images larger than 16"),
        ({"architecture": "vgg", "batch_norm": 1}, "'batch_norm' cannot be 1"),
    ],
)
def test_unusable_specs(spec, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        build(spec)


def test_written_architectures():
    assert parse('{"architecture": "cnn"}') == {"architecture": "cnn"}
    assert parse("cnn") == {"architecture": "cnn"}
    with pytest.raises(ValueError, match="is not JSON"):
        parse("{cnn")
    with pytest.raises(ValueError, match="Did you mean 'vgg11-half'"):
        parse("vgg11-halv")


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(2, 2)),
        nn.ModuleDict({"features": nn.Sequential(nn.Conv2d(1, 2, 3))}),
        nn.ModuleDict({"features": nn.Sequential(nn.Conv2d(1, 2, 3)), "classifier": nn.Linear(3, 2)}),
        nn.ModuleDict({"fc2": nn.Linear(3, 2)}),
        nn.Identity(),
    ],
    ids=["other names", "no head", "no square", "gap", "empty"],
)
def test_strangers_are_not_recognised(model):
    with pytest.raises(ValueError, match="not recognised from the keys .* name it with --arch"):
        recognise(model.state_dict())


def test_the_table_lists_builders_by_their_own_name():
    assert {name: builder.__name__.lower() for name, builder in ARCHITECTURES.items()} == {
        "mlp": "mlp",
        "cnn": "cnn",
        "vgg": "vgg",
    }
