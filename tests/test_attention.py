"""The closed form inside of transformers' blocks: against plain loops, twins in other orders and bases, going on."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from retrofit_core.graph.graph import weights_of
from retrofit_core.methods import METHODS
from retrofit_core.networks.architectures import build
from tests.families import NETWORKS, VIT
from tests.networks import VGG_SHAPE, initialised, normal, shuffled
from tests.plain import matched
from tests.properties import assert_same_function

NAMES = ["vit", "torchvision vit"]


def network(name, seed=1):
    """A network of float64 whose attentions are far from uniform, and its levels."""
    make, shape = NETWORKS[name]
    model = initialised(make(), seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, tensor in weights_of(model).items():
            if any(part in key for part in ("attention.q.w", "attention.k.w")):
                tensor.mul_(3)
            if "in_proj" in key:
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
            if "norm" in key or "ln" in key or key in ("cls", "positions"):
                tensor.add_(0.3 * torch.randn(tensor.shape, generator=generator))
    return model, normal(60, *shape)


def split_rows(model, name, block):
    """The weights of queries, keys, values and of the layer behind them, with their biases, each (heads, d, inputs)."""
    state = weights_of(model)
    if name == "vit":
        path = f"blocks.{block}.attention"
        q, k, v = ((state[f"{path}.{part}.weight"], state[f"{path}.{part}.bias"]) for part in "qkv")
        return [q, k, v], state[f"{path}.o.weight"], 3
    path = f"encoder.layers.encoder_layer_{block}.self_attention"
    weights, biases = state[f"{path}.in_proj_weight"].chunk(3), state[f"{path}.in_proj_bias"].chunk(3)
    return list(zip(weights, biases, strict=True)), state[f"{path}.out_proj.weight"], 4


@torch.no_grad()
def with_heads_changed(model, name, seed=4):
    """The same function: heads in another order, and in each another basis of queries and keys, and of values."""
    twin, generator = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    for block in range(2):
        (q, k, v), out, heads = split_rows(twin, name, block)
        d = len(out) // heads
        order = torch.randperm(heads, generator=generator)
        G, H = (torch.randn(heads, d, d, generator=generator).double() + 2 * torch.eye(d).double() for _ in range(2))
        for (weight, bias), change in ((q, G), (k, G.inverse().mT), (v, H)):
            rows = weight.reshape(heads, d, -1)
            weight.copy_((change @ rows)[order].reshape(weight.shape))
            bias.copy_((change @ bias.reshape(heads, d, 1))[order].flatten())
        columns = out.T.reshape(heads, d, -1)  # of each head (d, outputs)
        out.copy_((H.inverse().mT @ columns)[order].reshape(out.T.shape).T)
    return twin


@pytest.mark.slow
@pytest.mark.parametrize("method", ["HF-Linear", "KF-Linear"])
@pytest.mark.parametrize("name", NAMES)
def test_a_twin_is_found_again(name, method):
    """In another order of all neurons and heads, and other bases within heads."""
    model, x = network(name)
    twin = shuffled(with_heads_changed(model, name), x, 5)
    assert_same_function(twin, model, x, 1e-9)
    result = METHODS[method]([model, twin], x, ridge=0.0, device="cpu")
    assert_same_function(result.model, model, x, 1e-6)


def one_block(seed):
    """A ViT with one block of two heads, whose MLP ends without a function, in plain steps below."""
    model = build({**VIT, "depth": 1, "heads": 2}, seed=seed)
    model.blocks[0].mlp[4] = nn.Identity()
    return initialised(model, seed)


def tokens(model, x):
    grid = model.grid
    return x.unflatten(3, grid).unflatten(2, grid).permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)


def by_head(rows, heads=2):
    """(B, T, heads x d) -> (B, heads, T, d)."""
    return rows.unflatten(2, (heads, -1)).transpose(1, 2)


def maps_of(q, k):
    return (by_head(q) @ by_head(k).mT / 12**0.5).softmax(-1)


def states(model, x):
    """What each step of `one_block` computes, by name."""
    block, s = model.blocks[0], {}
    s["embedding"] = model.embedding(tokens(model, x))
    stream = torch.cat([model.cls.expand(len(x), -1, -1), s["embedding"]], 1) + model.positions
    read = block.norm1(stream)
    s |= {part: getattr(block.attention, part)(read) for part in "qkv"}
    s["maps"] = maps_of(s["q"], s["k"])
    s["mixed"] = (s["maps"] @ by_head(s["v"])).transpose(1, 2).flatten(2)
    s["attended"] = block.attention.o(s["mixed"]) + stream
    s["hidden"] = block.mlp[0](block.norm2(s["attended"]))
    s["last"] = block.mlp[3](F.gelu(s["hidden"])) + s["attended"]
    s["logits"] = model.head(model.norm(s["last"][:, 0]))
    return s


def flat(rows):
    return rows.flatten(0, -2)


def solved(layer, x, targets):
    """Least squares with a bias, written into a layer."""
    x = torch.cat([flat(x), torch.ones(len(flat(x)), 1).double()], 1)
    V = torch.linalg.lstsq(x, flat(targets), driver="gelsd").solution
    layer.weight.copy_(V[:-1].T)
    layer.bias.copy_(V[-1])


@torch.no_grad()
def plainly(parents, x):
    """HF with uniform scores and no ridge on `one_block`, step by step; heads by explicit singular value decompositions."""
    fused, (mine, theirs) = copy.deepcopy(parents[0]), (states(parent, x) for parent in parents)
    block, names = fused.blocks[0], ("embedding", "attended", "last")
    sizes = {name: (mine[name].square().sum() + theirs[name].square().sum()).sqrt() for name in names}
    order = matched(*(torch.cat([flat(s[name]) / sizes[name] for name in names]) for s in (mine, theirs)))

    def mean(name):
        return (mine[name] + theirs[name][..., order]) / 2

    for name, tensor in weights_of(fused).items():
        if "norm" in name or name in ("cls", "positions"):
            tensor.copy_((weights_of(parents[0])[name] + weights_of(parents[1])[name][..., order]) / 2)
    solved(fused.embedding, tokens(fused, x), mean("embedding"))
    stream = torch.cat([fused.cls.expand(len(x), -1, -1), fused.embedding(tokens(fused, x))], 1) + fused.positions
    read = block.norm1(stream)
    pairs = matched(*(s["maps"].movedim(1, -1).flatten(0, -2) for s in (mine, theirs)))
    targets = {part: [] for part in "qkv"}
    for head, other in enumerate(pairs.tolist()):
        q, k, v, c = (
            torch.cat([by_head(mine[part])[:, head], by_head(theirs[part])[:, other]], -1)
            for part in ("q", "k", "v", "mixed")
        )
        centred = flat(k - k.mean(1, keepdim=True))
        U, S, R = torch.linalg.svd((flat(q) / 2) @ centred.T)
        targets["q"].append(q @ torch.linalg.lstsq(flat(q), U[:, :6] * S[:6]).solution)
        targets["k"].append(k @ torch.linalg.lstsq(centred, R[:6].T).solution)
        out = [parent.blocks[0].attention.o.weight.unflatten(1, (2, -1)) for parent in parents]
        outgoing = torch.cat([out[0][:, head], out[1][order][:, other]], 1) / 2
        _, _, directions = torch.linalg.svd(flat(c) @ outgoing.T, full_matrices=False)
        targets["v"].append(v @ (directions[:6] @ outgoing).T)
    for part, rows in targets.items():
        solved(getattr(block.attention, part), read, torch.cat(rows, -1))
    q, k, v = (getattr(block.attention, part)(read) for part in "qkv")
    mixed = (maps_of(q, k) @ by_head(v)).transpose(1, 2).flatten(2)
    solved(block.attention.o, mixed, mean("attended") - stream)
    stream = block.attention.o(mixed) + stream
    read = block.norm2(stream)
    ones = torch.cat([flat(read), torch.ones(len(flat(read)), 1).double()], 1)
    hidden = matched(*(ones @ torch.linalg.lstsq(ones, flat(s["hidden"])).solution for s in (mine, theirs)))
    solved(block.mlp[0], read, (mine["hidden"] + theirs["hidden"][..., hidden]) / 2)
    made = F.gelu(block.mlp[0](read))
    solved(block.mlp[3], made, mean("last") - stream)
    stream = block.mlp[3](made) + stream
    solved(fused.head, fused.norm(stream[:, 0]), (mine["logits"] + theirs["logits"]) / 2)
    return fused


@pytest.mark.slow
def test_equals_plain_steps():
    parents, x = [one_block(1), one_block(2)], normal(60, *VGG_SHAPE)
    result = METHODS["HF-Linear"](parents, x, ridge=0.0, device="cpu")
    expected = plainly(parents, x)
    assert_same_function(result.model, expected, normal(9, *VGG_SHAPE, seed=5), 1e-7)
    assert [level.stream for level in result.levels] == ["embedding", *[""] * 3, "embedding", "", "embedding", ""]


@pytest.mark.slow
def test_errors_of_heads_are_what_is_read_back_of_each_neuron():
    parents, x = [network("vit")[0], network("vit", 2)[0]], network("vit")[1]
    result = METHODS["HF-Linear"](parents, x, device="cpu")
    said = [states(model, x) for model in (*parents, result.model)]
    for index, name in enumerate("qkv", 1):
        report = result.levels[index]
        *z, made = (flat(values[name].detach()) for values in said)
        assert report.weights is not None
        z = torch.cat(z, 1)
        targets, read = z @ report.weights, torch.zeros_like(z)
        fitted = torch.zeros_like(z)
        for column in range(z.shape[1]):
            own = report.weights[column] != 0
            weights = torch.linalg.lstsq(targets[:, own], z[:, column]).solution
            read[:, column], fitted[:, column] = targets[:, own] @ weights, made[:, own] @ weights
        for error, difference in (
            (report.grouping_error, read - z),
            (report.approximation_error, fitted - read),
            (report.cost, fitted - z),
        ):
            assert error == pytest.approx((report.scores * difference.square().sum(0)).sum().item(), rel=1e-6)


@pytest.mark.slow
def test_more_heads_hold_both_parents():
    (one, wide), x = (
        (build({**VIT, "hidden": n, "heads": n // 4}).double().eval() for n in (8, 16)),
        normal(80, *VGG_SHAPE),
    )
    fused = METHODS["KF-Linear"]([one, one], x, target=wide, ridge=1e-9).model
    assert_same_function(fused, one, x, 1e-5)
