"""Algorithm 1 on graphs: twins of every kind of network, padding, memory, and what networks say if stopped after a layer."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from retrofit_core.fusion import walk
from retrofit_core.fusion.algorithm import Retrofit
from retrofit_core.fusion.fit import Gradient, heads
from retrofit_core.fusion.task import Task
from retrofit_core.graph import fuse as graph_fuse
from retrofit_core.graph import network as graph_network
from retrofit_core.graph.fuse import Fusion
from retrofit_core.graph.network import networks_of
from retrofit_core.inspection.analysis.stopped import groups_of, stopped
from retrofit_core.methods import METHODS
from retrofit_core.system.runtime import Runtime
from tests.drawn import drawn, in_another_order
from tests.families import FAMILIES, network
from tests.networks import CNN_SHAPE, batchnorm_cnn, normal, shuffled

OLD = {"ridge": "0.01x", "toward": "zero"}
#: What the levels of old did not take.
REFUSED = {
    *("tied head by function", "tied head by product", "autoencoder, t()", "autoencoder, T", "autoencoder, transpose"),
    *("autoencoder, product", "a transposed convolution of 2 groups", "a transposed convolution of 6 groups"),
}


@pytest.fixture
def same_starts(monkeypatch):
    """Generators that do not depend on a level's number: the kernels count queries, keys and values of one layer differently."""
    for module in (walk, heads, graph_fuse):
        monkeypatch.setattr(module, "level_generator", lambda seed, index: torch.Generator().manual_seed(seed))


def logits(output):
    return output[0] if isinstance(output, (tuple, list)) else output


def fused(parents, data, method="KF-Linear", **options):
    return METHODS[method](parents, data, device="cpu", **options)


def off(one, other):
    """The largest difference, relative to the largest entry."""
    one, other = (value.detach().nan_to_num(posinf=0, neginf=0) for value in (one, other))
    return ((one - other).abs().max() / other.abs().max()).item()


@pytest.mark.parametrize("name", [*(pytest.param(name, marks=pytest.mark.long) for name in FAMILIES), *sorted(REFUSED)])
def test_a_shuffled_copy_and_the_network_itself_are_found_again(name):
    model, x = network(name)
    twin, target = shuffled(model, x[:20], 3), network(name, seed=1)[0]
    for options in ({}, {"method": "HF-Linear"}, {"target": target}):
        found = fused([model, twin], x, ridge=0.0, toward="zero", **options).model
        assert off(logits(found(x)), logits(model(x))) < 1e-6


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 120))])
def test_drawn_networks_and_their_copies_in_another_order(seed):
    model, x = drawn(seed)
    twin = fused([model, in_another_order(model)], x, ridge=0.0, toward="zero").model
    assert off(twin(x), model(x)) < 1e-6


@pytest.mark.parametrize("method", ["HF-Linear", "PLeaS"])
def test_buffers_beside_parameters_of_a_bias_stay(method):
    """The keys of SwinV2 and BEiT have zeros for a bias, which checkpoints lack."""
    name = "shifted windows, cosines, biases by a network and by two of three parts"
    (first, x), (second, _) = network(name), network(name, seed=1)
    model = fused([first, second], x, method).model
    assert torch.equal(model.k_bias, first.k_bias) and not torch.equal(model.q_bias, first.q_bias)


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
@pytest.mark.parametrize("method", ["HF-Linear", "KF-Linear"])
def test_padding_counts_for_nothing(method):
    parents = []
    for seed in range(2):
        torch.manual_seed(seed)
        parents.append(Padded().double().eval())
    numbers = torch.Generator().manual_seed(2)
    mask = (torch.arange(6) < torch.randint(2, 7, (50, 1), generator=numbers)).long()
    x = {"input_ids": torch.randint(1, 9, (50, 6), generator=numbers) * mask, "attention_mask": mask}
    model = fused(parents, x, method, **OLD).model
    assert type(model) is Padded
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


class Largest(TorchDispatchMode):
    """Bytes of the largest tensor that an operation makes."""

    bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        sizes = [leaf.untyped_storage().nbytes() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        self.bytes = max([self.bytes, *sizes])
        return out


@pytest.mark.slow
def test_many_samples_in_half_precision_are_never_held_in_the_networks_own():
    """BatchNorm's statistics, which take a pass of their own, and the look for NaN included; results are those of float32."""
    models = [batchnorm_cnn(seed=seed).float() for seed in (0, 1)]
    x = normal(4000, *CNN_SHAPE).half()
    with Largest() as largest:
        result = fused(models, x, memory=10**6)
    assert largest.bytes < x.float().nbytes
    expected = fused(models, x.float(), memory=10**6)
    for name, tensor in expected.model.state_dict().items():
        assert torch.equal(result.model.state_dict()[name], tensor)


CHAINS = ("behind layers", "flattened maps", "channels in parts")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["aggregated", "TransformerEncoder", "language model, position ids in a buffer", *CHAINS]
)
def test_stopped_anywhere_a_fusion_with_a_shuffled_copy_is_the_network_and_at_the_end_any_is_the_fused_one(name):
    (model, x), (other, _) = network(name), network(name, seed=1)
    twin = shuffled(model, x[:20], 3)
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
    task = Task.of([one, other], x, runtime=Runtime(device="cpu"))
    new = Fusion(Retrofit(fit=Gradient(epochs=3), head=head), task).run()
    old = METHODS["KF-Gradient"]([one, other], x, epochs=3, head=head, device="cpu")
    assert off(logits(new.model(x)), logits(old.model(x))) < 1e-6
    assert [len(level.curve) for level in new.levels] == [4] * len(old.levels)
