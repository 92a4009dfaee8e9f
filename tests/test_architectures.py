"""Our networks: shapes, keys, specs, and recognition from bare tensors."""

import json

import pytest
import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional as F

from retrofit_core.networks.architectures import ARCHITECTURES, PRESETS, build, fitted, input_shape, parse, recognise
from tests.marks import each_case
from tests.networks import normal
from tests.properties import assert_close

RESNET = {"bottleneck": False, "width": 4, "imagenet_stem": False, "classes": 6, "channels": 3}
VIT = {"patch": 2, "hidden": 64, "depth": 2, "heads": 2, "mlp_width": 5, "classes": 6, "channels": 1}

SPECS = [
    {"architecture": "mlp", "sizes": [784, 256, 10], "bias": True},
    {"architecture": "mlp", "sizes": [784, 10], "bias": False},
    {"architecture": "cnn", "widths": [4, 5, 6], "classes": 3, "channels": 3, "size": 28},
    *[
        {"architecture": "vgg", "plan": plan, "classes": 7, "channels": 3, "size": size, "batch_norm": norm}
        for norm in (False, True)
        for plan, size in [([4, "M", 5, 6, "M"], 16), ([4, 5, "M", 6, 7, "M", 8, "M"], 8), ([3, "M"], 4)]
    ],
    {"architecture": "resnet", "layers": [1, 2], **RESNET, "size": 32},
    {"architecture": "resnet", "layers": [2, 1, 1], **RESNET, "bottleneck": True, "size": 32},
    {"architecture": "resnet", "layers": [1], **RESNET, "imagenet_stem": True, "channels": 1, "size": 224},
    {"architecture": "vit", **VIT, "size": 6, "dropout": 0.0},
    {"architecture": "vit", **VIT, "patch": 4, "hidden": 32, "heads": 1, "channels": 3, "size": 8, "dropout": 0.0},
]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_what_data_decide_is_filled_in_and_what_is_written_stays(name):
    spec = fitted({"architecture": name}, (2, 12, 12), 7)
    assert input_shape(spec) == ((288,) if name == "mlp" else (2, 12, 12))
    with torch.device("meta"):
        assert build(spec)(torch.zeros(1, 2, 12, 12)).shape == (1, 7)
    assert fitted(spec, (3, 32, 32), 10) == spec


def on_meta(name: str, **more) -> nn.Module:
    """A preset without memory for its weights."""
    with torch.device("meta"):
        return build({**parse(name), **more})


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def torchvision_resnet(name: str, **more) -> nn.Module:
    """torchvision's, with weights and statistics that make every layer count."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = getattr(torchvision.models, name)(**more).eval()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 2)
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.normal_(module.bias, 0, 0.1)
    return model


def images_for(spec):
    if spec["architecture"] == "mlp":
        return torch.randn(2, 1, 28, 28)
    return torch.randn(2, spec["channels"], spec["size"], spec["size"])


@pytest.mark.slow
@each_case("spec", SPECS)
def test_a_spec_builds_runs_and_is_recognised_from_its_tensors(spec):
    model = build(spec, seed=0)
    assert model.spec == spec
    assert model(images_for(spec)).shape == (2, spec["sizes"][-1] if "sizes" in spec else spec["classes"])
    assert recognise(model.state_dict()) == spec


def test_vgg_presets_have_the_papers_sizes():
    assert parameters(on_meta("vgg11")) == 9_225_610
    assert parameters(on_meta("vgg11", size=64, classes=8)) == 9_236_872
    millions = [f"{parameters(on_meta(f'vgg11-{width}')) / 1e6:.3g}" for width in ("half", "double", "quad")]
    assert millions == ["2.92", "32", "118"]
    widths = {name: [item for item in PRESETS[f"vgg11-{name}"]["plan"] if item != "M"] for name in ("half", "quad")}
    assert widths["half"] == [64, 64, 128, 128, 256, 256, 256, 512]
    assert widths["quad"] == [64, 512, 1024, 1024, 2048, 2048, 2048, 512]


@pytest.mark.parametrize(
    ("name", "count"), [("resnet18", 11_173_962), ("resnet34", 21_282_122), ("resnet50", 23_520_842)]
)
def test_resnet_presets_have_the_usual_sizes(name, count):
    assert parameters(on_meta(name)) == count  # kuangliu/pytorch-cifar
    with torch.device("meta"):
        usual = getattr(torchvision.models, name)()
    assert shapes(on_meta(f"{name}-imagenet", classes=1000)) == shapes(usual)


@each_case(
    ("name", "classes", "count"),
    [
        ("vit", 10, 6_268_810),
        ("vit", 100, 6_303_460),
        ("vit-mlp1536", 10, 12_470_026),
        ("vit-mlp1536", 100, 12_504_676),
        ("vit-tiny-imagenet-mlp384", 200, 6_397_256),
        ("vit-tiny-imagenet", 200, 12_598_472),
    ],
)
def test_vit_presets_have_the_sizes_of_vit_cifar(name, classes, count):
    assert parameters(on_meta(name, classes=classes)) == count


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "resnet34", "resnet50"])
def test_torchvisions_resnets_are_recognised_and_give_its_outputs(name):
    usual = torchvision_resnet(name)
    state = usual.state_dict()
    ours = build(recognise(state)).eval()
    ours.load_state_dict(state)
    x = normal(2, 3, 64, 64).float()
    with torch.no_grad():
        assert torch.equal(ours(x), usual(x))


@pytest.mark.parametrize(
    "make",
    [
        torchvision.models.wide_resnet50_2,
        torchvision.models.resnext50_32x4d,
        torchvision.models.vit_b_16,
        torchvision.models.vgg11,
        torchvision.models.mobilenet_v3_small,
    ],
)
def test_torchvisions_other_networks_are_not_taken_for_ours(make):
    with torch.device("meta"):
        state = make().state_dict()
    with pytest.raises(ValueError, match="not recognised from the keys"):
        recognise(state)


def plain_vit(state: dict[str, Tensor], images: Tensor, patch: int, heads: int) -> Tensor:
    """Logits (B, classes) of images (B, C, H, W), by torch's functions."""

    def linear(x, name):
        return F.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"])

    patches = images.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)
    x = torch.cat([state["cls"].expand(len(images), -1, -1), linear(patches, "embedding")], 1) + state["positions"]
    block = 0
    while f"{(prefix := f'blocks.{block}')}.norm1.weight" in state:
        read = norm(x, f"{prefix}.norm1")
        q, k, v = (linear(read, f"{prefix}.attention.{n}").unflatten(2, (heads, -1)).transpose(1, 2) for n in "qkv")
        mixed = (q @ k.mT / x.shape[2] ** 0.5).softmax(3) @ v  # ViT-CIFAR divides by the root of the whole width
        x = x + linear(mixed.transpose(1, 2).flatten(2), f"{prefix}.attention.o")
        x = x + F.gelu(linear(F.gelu(linear(norm(x, f"{prefix}.norm2"), f"{prefix}.mlp.0")), f"{prefix}.mlp.3"))
        block += 1
    return linear(norm(x[:, 0], "norm"), "head")


@pytest.mark.parametrize(("channels", "patch", "size"), [(1, 4, 8), (3, 2, 6)])
def test_the_vit_computes_the_papers_formulas(channels, patch, size):
    spec = {"patch": patch, "hidden": 24, "depth": 2, "heads": 4, "mlp_width": 10, "size": size, "channels": channels}
    model = build({"architecture": "vit", **spec, "dropout": 0.3}, seed=0).double().eval()
    for name, parameter in model.named_parameters():
        if "norm" in name:  # ones and zeros would hide them
            parameter.data += normal(*parameter.shape, seed=len(name)) / 3
    images = normal(3, channels, size, size)
    with torch.no_grad():
        assert_close(model(images), plain_vit(model.state_dict(), images, patch, 4), 1e-12)


SMALL = {
    "cnn": ({"architecture": "cnn"}, 10, 12),
    "vgg": ({"architecture": "vgg", "plan": [4, "M", 4, "M", 4, "M", 4, "M"]}, 10, 16),
    "vgg with resize": ({"architecture": "vgg", "plan": [4, "M"], "resize": 12}, 8, 12),
    "resnet": ({"architecture": "resnet", "layers": [1, 1, 1], "width": 4, "imagenet_stem": True}, 8, 16),
    "vit": ({"architecture": "vit", "patch": 3, "hidden": 12, "depth": 1, "resize": 10}, 8, 12),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_images_are_enlarged_where_an_architecture_needs_it(name):
    spec, size, side = SMALL[name]
    model = build({**spec, "channels": 1, "size": size}, seed=0).eval()
    assert (model.spec["size"], model.spec["resize"]) == (size, side)
    assert build(json.loads(json.dumps(model.spec))).spec == model.spec
    large = build({**model.spec, "size": side}).eval()
    assert "resize" not in large.spec
    large.load_state_dict(model.state_dict())
    images = normal(3, 1, size, size).float()
    enlarged = F.interpolate(images, (side, side), mode="bilinear", align_corners=False)
    with torch.no_grad():
        assert torch.equal(model(images), large(enlarged))


def test_images_are_never_shrunk():
    model = build({**parse("vit-small"), "size": 24})
    assert "resize" not in model.spec and model.positions.shape[1] == 37


@each_case(
    ("spec", "message"),
    [
        ({"architecture": "vg"}, "unknown architecture 'vg'. Known: mlp, cnn, vgg, resnet, vit. Did you mean 'vgg'?"),
        ({}, "unknown architecture"),
        ({"architecture": "mlp"}, "needs 'sizes'. Its keywords: sizes, bias"),
        ({"architecture": "mlp", "sizes": [4, 0]}, "'sizes' cannot be"),
        ({"architecture": "mlp", "sizes": [4, 2**40]}, "'sizes' cannot be"),
        ({"architecture": "cnn", "widths": [1, 2]}, "needs three widths"),
        ({"architecture": "vgg", "plan": ["M"]}, "'plan' cannot be"),
        ({"architecture": "vgg", "plan": [2] + ["M"] * 11}, "at most 10 poolings. Found 11"),
        ({"architecture": "vit", "hidden": 100}, "multiple of its heads. Found 100 and 12"),
        ({"architecture": "vit", "patch": 2**20, "hidden": 2**18, "heads": 1}, "cannot be built with these numbers"),
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
