"""The graph's Algorithm 1 and the old kernel's: the same function, of the same starts, from two unrelated parents in float64."""

import copy

import pytest
import torch
from torch import nn

from retrofit_core.fusion import walk
from retrofit_core.fusion.algorithm import Retrofit
from retrofit_core.fusion.fit import Gradient, Ridge, heads
from retrofit_core.fusion.grouping import Hungarian, KMeans
from retrofit_core.fusion.importance import as_importance
from retrofit_core.graph import fuse as graph_fuse
from retrofit_core.graph import network as graph_network
from retrofit_core.graph.fuse import fuse
from retrofit_core.graph.network import networks_of
from retrofit_core.graph.stopped import groups_of, stopped
from retrofit_core.methods import METHODS
from retrofit_core.system.runtime import Runtime
from tests.drawn import drawn, in_another_order
from tests.families import FAMILIES, FOLLOWED, network
from tests.networks import CNN_SHAPE, batchnorm_cnn, labels, normal
from tests.test_twins import shuffled

OLD = {"ridge": "0.01x", "toward": "zero"}
GROUPINGS = {"HF-Linear": Hungarian(), "KF-Linear": KMeans()}
#: What the new kernel computes otherwise, and why.
OTHERWISE = {
    **dict.fromkeys(
        [
            "TransformerEncoder, samples second",
            "TransformerEncoder on the input itself, samples second",
            "shifted windows, a table of biases",
            "shifted windows, cosines, biases by a network and by two of three parts",
            "shifted windows in a function",
        ],
        "a layer is fitted to what is missing on its stream also where positions change places between both",
    ),
    **dict.fromkeys(["mean of a stack", "python's sum", "ensemble"], "all layers that are added are fitted together"),
    "classes for each pixel from two scales, one enlarged behind it": "the second head is fitted to what the first one misses",
    "patches and biases of several parts": "a bias that is put together of two is fitted with its layer",
}
#: What only the new kernel takes.
REFUSED = {
    *("tied head by function", "tied head by product", "autoencoder, t()", "autoencoder, T", "autoencoder, transpose"),
    *("autoencoder, product", "a transposed convolution of 2 groups", "a transposed convolution of 6 groups"),
}
QUICK = (
    "aggregated",
    "a mask of keys, added",
    "dense",
    "scaled",
    "tokens that are mixed, in a gate",
    "channels in parts",
)
NAMES = [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.long)
    for name in (*FAMILIES, *FOLLOWED)
    if name not in REFUSED
]
#: Drawn networks with attentions whose heads the old kernel does not find.
HEADS = (5, 53, 85, 99, 105)


@pytest.fixture
def same_starts(monkeypatch):
    """Generators that do not depend on a level's number: the kernels count queries, keys and values of one layer differently."""
    for module in (walk, heads, graph_fuse):
        monkeypatch.setattr(module, "level_generator", lambda seed, index: torch.Generator().manual_seed(seed))


def logits(output):
    return output[0] if isinstance(output, (tuple, list)) else output


def fused(
    parents,
    data,
    method="KF-Linear",
    *,
    importance="uniform",
    importance_data=None,
    target=None,
    memory=1 << 33,
    **options,
):
    """What the new kernel makes of the options of a method."""
    ridge = {name: options.pop(name) for name in ("ridge", "toward", "refit", "active", "repair") if name in options}
    shares, fit = options.pop("class_shares", None), options.pop("fit", None)
    own = as_importance(importance, data=importance_data)
    runtime = Runtime(device="cpu", memory=memory)
    value = Retrofit(GROUPINGS[method], fit or Ridge(**ridge), **options)
    return fuse(parents, data, value, importance=own, target=target, class_shares=shares, runtime=runtime)


def off(one, other):
    """The largest difference, relative to the largest entry."""
    one, other = (value.detach().nan_to_num(posinf=0, neginf=0) for value in (one, other))
    return ((one - other).abs().max() / other.abs().max()).item()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", GROUPINGS)
def test_both_kernels_fuse_alike(name, method, same_starts):
    (one, x), (other, _) = network(name), network(name, seed=1)
    before = copy.deepcopy([one.state_dict(), other.state_dict()])
    new = logits(fused([one, other], x, method, **OLD).model(x))
    old = logits(METHODS[method]([one, other], x, **OLD, device="cpu").model(x))
    if name in OTHERWISE:
        mean = (logits(one(x)) + logits(other(x))) / 2
        assert off(new, old) > 1e-6, "it is no exception any more"
        assert (new - mean).norm() < 1.1 * (old - mean).norm()
    else:
        assert off(new, old) < 1e-6
    for model, state in zip((one, other), before, strict=True):
        assert all(torch.equal(tensor, state[key]) for key, tensor in model.state_dict().items())


@pytest.mark.parametrize("name", [*(pytest.param(name, marks=pytest.mark.long) for name in FAMILIES), *sorted(REFUSED)])
def test_a_shuffled_copy_and_the_network_itself_are_found_again(name):
    model, x = network(name)
    twin, target = shuffled(model, x[:20], torch.Generator().manual_seed(3)), network(name, seed=1)[0]
    for options in ({}, {"method": "HF-Linear"}, {"target": target}):
        found = fused([model, twin], x, ridge=0.0, toward="zero", **options).model
        assert off(logits(found(x)), logits(model(x))) < 1e-6


def unrelated(model):
    """The same code with other weights."""
    other, numbers = copy.deepcopy(model), torch.Generator().manual_seed(5)
    for name, tensor in other.state_dict().items():
        if tensor.is_floating_point():
            tensor.mul_(1 + 0.5 * torch.rand(tensor.shape, generator=numbers))
            if "var" not in name:
                tensor.add_(0.3 * tensor.abs().mean() * torch.randn(tensor.shape, generator=numbers))
    return other


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 120))])
def test_drawn_networks_and_their_copies_in_another_order(seed):
    model, x = drawn(seed)
    twin = fused([model, in_another_order(model)], x, ridge=0.0, toward="zero").model
    assert off(twin(x), model(x)) < 1e-6
    other = unrelated(model)
    new = fused([model, other], x, "HF-Linear", **OLD).model(x)
    old = METHODS["HF-Linear"]([model, other], x, **OLD, device="cpu").model(x)
    assert (off(new, old) < 1e-6) == (seed not in HEADS)


class Padded(nn.Module):
    """A block of a BERT, which attends to tokens that are no padding."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(9, 8), nn.Embedding(6, 8)
        self.norm, self.last = nn.LayerNorm(8), nn.LayerNorm(8)
        self.q, self.k, self.v, self.out = (nn.Linear(8, 8) for _ in range(4))
        self.first, self.second, self.head = nn.Linear(8, 12), nn.Linear(12, 8), nn.Linear(8, 3)

    def forward(self, input_ids, attention_mask):
        h = self.norm(self.tokens(input_ids) + self.positions(torch.arange(input_ids.shape[1])))
        q, k, v = (layer(h).unflatten(2, (2, 4)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        mask = attention_mask.bool()[:, None, None]
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        h = self.last(h + self.out(mixed.transpose(1, 2).flatten(2)))
        return {"logits": self.head((h + self.second(self.first(h).relu()))[:, 0])}


@pytest.mark.slow
@pytest.mark.parametrize("method", GROUPINGS)
def test_padding_counts_for_nothing(method, same_starts):
    parents = []
    for seed in range(2):
        torch.manual_seed(seed)
        parents.append(Padded().double().eval())
    numbers = torch.Generator().manual_seed(2)
    mask = (torch.arange(6) < torch.randint(2, 7, (50, 1), generator=numbers)).long()
    x = {"input_ids": torch.randint(1, 9, (50, 6), generator=numbers) * mask, "attention_mask": mask}
    model = fused(parents, x, method, **OLD).model
    assert type(model) is Padded
    old = METHODS[method](parents, x, **OLD, device="cpu").model(**x)
    assert off(model(**x)["logits"], old if isinstance(old, torch.Tensor) else old["logits"]) < 1e-6
    noise = {**x, "input_ids": x["input_ids"] + (1 - mask) * torch.randint(1, 9, (50, 6), generator=numbers)}
    other = fused(parents, noise, method, **OLD).model
    assert off(other(**x)["logits"], model(**x)["logits"]) < 1e-6


@pytest.mark.slow
def test_sums_do_not_depend_on_batches_or_memory(monkeypatch):
    (one, x), (other, _) = network("aggregated"), network("aggregated", seed=1)
    whole = fused([one, other], x, **OLD).model(x)
    monkeypatch.setattr(graph_network, "BATCH", 7)
    for memory in (1 << 33, 1 << 20):
        assert off(fused([one, other], x, **OLD, memory=memory).model(x), whole) < 1e-9


@pytest.mark.parametrize("widths", [(8, 8), (8, 5), (5, 7)])
def test_widths_may_differ_and_batchnorms_are_behind_maps_or_rows(widths):
    x, parents = normal(40, *CNN_SHAPE), [batchnorm_cnn((width, 5), seed=k) for k, width in enumerate(widths)]
    target = batchnorm_cnn((6, 4), seed=2)
    new = fused(parents, x, target=target, **OLD).model(x)
    old = METHODS["KF-Linear"](parents, x, target=target, **OLD, device="cpu").model(x)
    assert off(new, old) < 1e-6


SHARES = torch.tensor([[0.7, 0.2, 1.0, 0.5], [0.3, 0.8, 0.0, 0.5]]).double()
CHAINS, BLOCKS = ("behind layers", "flattened maps", "channels in parts"), ("add to the stream", "aggregated", "scaled")
OPTIONS = {  # options, networks
    "the defaults": ({}, (*CHAINS, *BLOCKS, "TransformerEncoder")),
    "toward the parents": ({"toward": "parents"}, (*CHAINS, *BLOCKS)),
    "means of the parents' weights": ({"refit": False}, (*CHAINS, *BLOCKS)),
    "groups by activations": ({"active": True, **OLD}, CHAINS[:1]),
    "repair": ({"repair": True, **OLD}, (*CHAINS, *BLOCKS, "TransformerEncoder")),
    "the ensemble's answers": ({"head": "ensemble", **OLD}, (*CHAINS, *BLOCKS)),
    "centred": ({"centre": True, **OLD}, (*CHAINS, *BLOCKS[:2])),
    "importance at the head": ({"scored": "head", "importance": "conductance", **OLD}, CHAINS),
    "equal classes": ({"head": "mean", "importance": "conductance", **OLD}, (*CHAINS, *BLOCKS)),
    "shares of classes": ({"head": "shares", "class_shares": SHARES, **OLD}, CHAINS[:1]),
    "language": ({"importance": "conductance", **OLD}, ("language model, position ids in a buffer",)),
}


CASES = [
    pytest.param(option, name, marks=[pytest.mark.long] * bool(number))
    for option, (_, names) in OPTIONS.items()
    for number, name in enumerate(names)
]


@pytest.mark.slow
@pytest.mark.parametrize("option, name", CASES)
def test_options_do_what_they_do_in_the_old_kernel(option, name, same_starts):
    (one, x), (other, _) = network(name), network(name, seed=1)
    options, classes = OPTIONS[option][0], logits(one(x)).shape[1]
    if "importance" in options:
        options = options | {"importance_data": [(x[:20], labels(20, classes, seed=seed)) for seed in range(2)]}
    new, old = fused([one, other], x, **options), METHODS["KF-Linear"]([one, other], x, **options, device="cpu")
    assert off(logits(new.model(x)), logits(old.model(x))) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["aggregated", "TransformerEncoder", "language model, position ids in a buffer", *CHAINS]
)
def test_stopped_anywhere_a_fusion_with_a_shuffled_copy_is_the_network_and_at_the_end_any_is_the_fused_one(name):
    (model, x), (other, _) = network(name), network(name, seed=1)
    twin = shuffled(model, x[:20], torch.Generator().manual_seed(3))
    for parents in ([model, twin], [model, other]):
        result = fused(parents, x, ridge=0.0, toward="zero")
        groups = groups_of(networks_of([*parents, result.model], x), result.levels)
        after = [*stopped(groups, result.levels, [x])]
        assert len(after) == len(result.levels)
        for said in after[-1] if parents[1] is other else sum(after, []):
            assert off(said, logits(result.model(x))) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name, head", [("behind layers", "ensemble"), ("aggregated", "scores"), ("scaled", "scores")])
def test_gradient_fits_of_blocks_take_the_same_steps(name, head, same_starts):
    (one, x), (other, _) = network(name), network(name, seed=1)
    new = fused([one, other], x, fit=Gradient(epochs=3), head=head)
    old = METHODS["KF-Gradient"]([one, other], x, epochs=3, head=head, device="cpu")
    assert off(logits(new.model(x)), logits(old.model(x))) < 1e-6
    assert [len(level.curve) for level in new.levels] == [4] * len(old.levels)
