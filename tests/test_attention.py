"""The closed form inside of transformers' blocks: against plain loops, twins in other orders and bases, going on."""

import copy

import numpy as np
import pytest
import torch

from retrofit_core.attention import attention_maps, of_heads
from retrofit_core.eligibility import with_streams
from retrofit_core.fit.heads import joint_basis, value_basis
from retrofit_core.levels import compose, partition
from retrofit_core.methods import METHODS
from retrofit_core.symmetry import shuffled, tensors
from tests.flat import Kept, fuse
from tests.networks import initialised, normal
from tests.properties import assert_close, assert_same_function
from tests.test_symmetry import NETWORKS

NAMES = ["vit", "torchvision vit"]


def network(name, seed=1):
    """A network of float64 whose attentions are far from uniform, and its levels."""
    make, shape = NETWORKS[name]
    model = initialised(make(), seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, tensor in tensors(model).items():
            if any(part in key for part in ("attention.q.w", "attention.k.w")):
                tensor.mul_(3)
            if "in_proj" in key:
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
            if "norm" in key or "ln" in key or key in ("cls", "positions"):
                tensor.add_(0.3 * torch.randn(tensor.shape, generator=generator))
    return model, normal(60, *shape)


def levels_of(model, x):
    return with_streams(model, partition(model, x[:2], "layers"), x[:2], "it")


def split_rows(model, name, block):
    """The weights of queries, keys, values and of the layer behind them, with their biases, each (heads, d, inputs)."""
    state = tensors(model)
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


@pytest.mark.parametrize("method", ["HF-Linear", "KF-Linear"])
@pytest.mark.parametrize("name", NAMES)
def test_a_twin_is_found_again(name, method):
    """In another order of all neurons and heads, and other bases within heads."""
    model, x = network(name)
    twin = shuffled(with_heads_changed(model, name), x, torch.Generator().manual_seed(5))
    assert_same_function(twin, model, x, 1e-9)
    result = METHODS[method]([model, twin], x, ridge=0.0, device="cpu")
    assert_same_function(result.model, model, x, 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_levels_compose_to_the_network_and_know_their_attentions(name):
    model, x = network(name)
    levels = levels_of(model, x)
    assert all(level.affine is not None for level in levels)
    with torch.no_grad():
        assert_close(compose(levels, x), model(x), 1e-12)
    found = {id(level.heads): level.heads for level in levels if level.heads is not None}
    assert len(found) == 2
    for block, heads in enumerate(found.values()):
        with torch.no_grad():
            boundary = compose(levels[: heads.reader], x)
            q, k = (of_heads(levels, heads, made, boundary) for made in (heads.query, heads.key))
            maps = attention_maps(levels, heads, boundary)
        d = q.shape[-1]
        root = 12**0.5 if name == "vit" else d**0.5
        assert heads.scale == pytest.approx(1 / root, rel=1e-9)
        assert_close(maps, (q @ k.mT / root).softmax(-1), 1e-12)
        assert heads.count == split_rows(model, name, block)[2]


def test_queries_and_keys_keep_the_best_logits_of_their_rank():
    generator = torch.Generator().manual_seed(1)
    q, k = (torch.randn(40, 6, generator=generator).double() for _ in range(2))
    w = torch.tensor([0.7, 0.7, 0.7, 0.3, 0.3, 0.3]).double()
    A_q, A_k = joint_basis(q.T @ q, k.T @ k, w, 3, 3)
    U, S, V = np.linalg.svd(((q * w) @ k.T).numpy())
    best = (U[:, :3] * S[:3]) @ V[:3]
    assert_close((q @ A_q) @ (k @ A_k).T, torch.from_numpy(best), 1e-10)
    own = torch.linalg.lstsq(
        q @ A_q, q[:, :3]
    ).solution  # in the basis of the first head, as near as these directions come
    assert_close(own, torch.eye(3).double(), 1e-10)


def test_values_keep_the_most_of_what_they_add_to_the_stream():
    generator = torch.Generator().manual_seed(1)
    c, outgoing = torch.randn(40, 6, generator=generator).double(), torch.randn(7, 6, generator=generator).double()
    A = value_basis(c.T @ c, outgoing, 3, 3)
    added = c @ outgoing.T
    U, S, V = np.linalg.svd(added.numpy())
    left = torch.linalg.lstsq(c @ A, added).solution
    assert_close(c @ A @ left, torch.from_numpy((U[:, :3] * S[:3]) @ V[:3]), 1e-10)


@pytest.mark.parametrize("stop", [2, 3, 9])
@pytest.mark.parametrize("name", NAMES)
def test_a_stopped_run_goes_on_to_the_same_weights(name, stop):
    parents, x, journal = [network(name)[0], network(name, 2)[0]], network(name)[1], Kept()
    whole = fuse(parents, x, device="cpu", journal=journal)
    resumed = fuse(parents, x, device="cpu", journal=Kept(journal.finished[:stop]))
    for key, tensor in tensors(whole.model).items():
        assert torch.equal(tensors(resumed.model)[key], tensor), key


def test_per_neuron_parameters_are_the_means_of_the_groups():
    parents, (_, x) = [network("vit")[0], network("vit", 2)[0]], network("vit")
    result = METHODS["HF-Linear"](parents, x, device="cpu")
    first, second = result.levels[0].labels.split(12)
    for name in ("cls", "positions", "blocks.1.norm2.weight", "blocks.0.norm1.bias", "norm.weight"):
        mine, theirs, fused = (tensors(model)[name] for model in (*parents, result.model))
        assert_close(fused, (mine[..., first.argsort()] + theirs[..., second.argsort()]) / 2, 1e-12)
