"""Transformer OTFusion: the paper's steps in plain lines, copies found again, maps as soft as asked."""

import copy

import pytest
import torch

from retrofit_core import METHODS
from retrofit_core.baselines import average
from retrofit_core.baselines.transformer import apart, central
from retrofit_core.graph.graph import load, weights_of
from retrofit_core.networks.architectures import build
from tests.families import NETWORKS, VIT, network
from tests.marks import each_case
from tests.networks import VGG_SHAPE, initialised, normal, shuffled
from tests.properties import assert_close, assert_same_function, net_of, reordered, untouched

otfusion, transformer_otfusion = METHODS["OTFusion"], METHODS["Transformer-OTFusion"]

ot = pytest.importorskip("ot", reason="POT is not installed")
MODES = ("activations", "weights")


def vit(seed=1, **changes):
    return initialised(build({**VIT, **changes}, seed=seed), seed)


def vision(seed=1):
    return initialised(NETWORKS["torchvision vit"][0](), seed)


PAIRS = {"vit": (vit, VGG_SHAPE), "torchvision vit": (vision, (3, 16, 16))}
#: The second one is the same mathematics behind another attention module.
NAMES = ["vit", "torchvision vit"]


def changed(model, seed, size=0.3):
    """A copy whose parameters are off by random numbers."""
    other = copy.deepcopy(model)
    for number, parameter in enumerate(other.parameters()):
        parameter.data += size * normal(*parameter.shape, seed=1000 * seed + number)
    return other


# --- the paper's steps, for our ViT ---------------------------------------------------------------------------------


class Plain:
    """Two ViTs fused step by step; `aligned` is aligned to `anchor`."""

    def __init__(self, anchor, aligned, x, mode, reg):
        self.mode, self.reg = mode, reg
        self.w1, self.w0 = anchor.state_dict(), aligned.state_dict()
        self.z1, self.z0 = outputs(anchor, x), outputs(aligned, x)
        self.fused = {}

    def transport(self, a, b):
        cost = torch.cdist(a, b)
        n, m = cost.shape
        plan = ot.sinkhorn(
            torch.full((n,), 1 / n).double().numpy(),
            torch.full((m,), 1 / m).double().numpy(),
            (cost / cost.max()).numpy(),
            self.reg,
            method="sinkhorn_log",
            numItermax=2000,
            stopThr=1e-9,
        )
        return torch.from_numpy(plan) * m

    def entries(self, name):
        a, b = self.w0[name][0], self.w1[name][0]
        t = self.transport(a.T, b.T)
        self.fused[name] = ((a @ t + b) / 2)[None]
        return t

    def linear(self, name, t_in=None, last=False):
        w0, b0 = self.w0[f"{name}.weight"], self.w0[f"{name}.bias"]
        w1, b1 = self.w1[f"{name}.weight"], self.w1[f"{name}.bias"]
        w0 = w0 if t_in is None else w0 @ (t_in / t_in.sum(1, keepdim=True))
        if last:
            t = torch.eye(len(w0)).double()
        elif self.mode == "activations":
            t = self.transport(standard(self.z0[name]).T, standard(self.z1[name]).T)
        else:
            a, b = (torch.cat([w, bias[:, None]], 1) for w, bias in ((w0, b0), (w1, b1)))
            t = self.transport(a / a.norm(dim=1, keepdim=True), b / b.norm(dim=1, keepdim=True))
        self.fused[f"{name}.weight"], self.fused[f"{name}.bias"] = (t.T @ w0 + w1) / 2, (t.T @ b0 + b1) / 2
        return t

    def norm(self, name, t):
        for part in ("weight", "bias"):
            key = f"{name}.{part}"
            self.fused[key] = (self.w0[key] @ t + self.w1[key]) / 2

    def join(self, t_skip, t_branch):
        t = (t_skip + t_branch) / 2
        assert_close(t.sum(0), torch.ones(len(t)), 1e-5)
        return t

    def run(self, depth):
        self.entries("cls")
        t = self.join(self.entries("positions"), self.linear("embedding"))
        for block in (f"blocks.{k}" for k in range(depth)):
            self.norm(f"{block}.norm1", t)
            self.linear(f"{block}.attention.q", t)
            self.linear(f"{block}.attention.k", t)
            t_o = self.linear(f"{block}.attention.o", self.linear(f"{block}.attention.v", t))
            t = self.join(t, t_o)
            self.norm(f"{block}.norm2", t)
            t_mlp = self.linear(f"{block}.mlp.3", self.linear(f"{block}.mlp.0", t))
            t = self.join(t, t_mlp)
        self.norm("norm", t)
        self.linear("head", t, last=True)
        return self.fused


def outputs(model, x):
    """(rows, neurons) the outputs of all modules, the inputs of LayerNorms, and the tokens before the positions are added."""
    features = {}

    def note(name):
        def hook(module, inputs, output):
            features[name] = output.detach().flatten(0, -2)
            features[f"{name} in"] = inputs[0].detach().flatten(0, -2)

        return hook

    hooks = [module.register_forward_hook(note(name)) for name, module in model.named_modules() if name]
    model(x)
    for hook in hooks:
        hook.remove()
    patches = features["embedding"].unflatten(0, (len(x), -1))
    features["tokens"] = torch.cat([model.cls.detach().expand(len(x), -1, -1), patches], 1).flatten(0, 1)
    return features


def standard(z):
    return (z - z.mean(0)) / z.std(0)


@pytest.mark.slow
@each_case("mode", MODES)
def test_equals_the_steps_in_plain_lines(mode):
    first, x = vit(), normal(20, *VGG_SHAPE)
    second = changed(first, 2)
    with torch.no_grad():
        expected = Plain(first, second, x, mode, 0.1).run(depth=2)
    with untouched(first, second):
        result = transformer_otfusion([first, second], x, mode=mode, regularisation="0.1max")
    assert weights_of(result.model).keys() == expected.keys()
    for name, tensor in weights_of(result.model).items():
        assert_close(tensor, expected[name], 1e-6)


# --- copies -----------------------------------------------------------------------------------------------------------


@pytest.mark.long
@each_case("name, mode", zip(NAMES, MODES, strict=True))
def test_exchanged_heads_are_found_again(name, mode):
    """Heads may change places as wholes; OTFusion, which keeps them apart, does not see it."""
    make, shape = PAIRS[name]
    model, x = make(), normal(20, *shape)
    net, _ = net_of(model, x)
    groups, _ = apart(net, model)
    heads = 3 if name == "vit" else 4
    orders = {}
    for group in groups:
        if "attention" in group.name and not group.name.endswith((".o", "out_proj")):
            blocks = torch.arange(group.width).view(heads, -1)
            orders[group.name] = blocks.roll(1, 0).flatten()
    assert len(orders) == 6
    twin = load(copy.deepcopy(model), reordered(net.weights, groups, orders))
    assert_same_function(twin, model, x, 1e-10)
    fused = transformer_otfusion([model, twin], x, mode=mode, solver="exact").model
    assert_same_function(fused, model, normal(5, *shape, seed=9), 1e-10)
    with pytest.raises(AssertionError):
        assert_same_function(otfusion([model, twin], x, mode=mode).model, model, x, 1e-2)


# --- what it takes ------------------------------------------------------------------------------------------------------


def test_networks_without_neurons_that_may_be_exchanged_are_averaged():
    (first, x), (second, _) = network("constant"), network("constant", seed=1)
    assert_same_function(transformer_otfusion([first, second], x).model, average([first, second]), x, 1e-12)


# --- groups and tokens --------------------------------------------------------------------------------------------------


def test_networks_of_other_heads_are_refused():
    with pytest.raises(ValueError, match="different code: the code of parent 0 computes something else"):
        transformer_otfusion([vit(), vit(heads=2)], normal(6, *VGG_SHAPE))


@pytest.mark.slow
def test_central_patches_are_compared():
    assert central(normal(2, 1 + 8 * 8, 3)).shape == (2, 1 + 6 * 6, 3)
    assert torch.equal(central(normal(2, 1 + 16, 3)), normal(2, 1 + 16, 3))


@pytest.mark.slow
@each_case("name, mode", zip(["a transposed weight and a cache", "grouped queries, by torch"], MODES, strict=True))
def test_blocks_of_language_models_are_found_again(name, mode):
    """Also if keys are appended to an empty tensor, and biases belong to the product before them, not to a stream."""
    model, x = network(name)
    twin = shuffled(model, x[:2], 3)
    fused = transformer_otfusion([model, twin], x, mode=mode, solver="exact").model
    assert_same_function(fused, model, x, 1e-9)
