"""Algorithm 1 on graphs: twins of every kind of network, memory, and what networks say if stopped after a layer."""

import copy

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from retrofit_core.graph import network as graph_network
from retrofit_core.graph.network import networks_of
from retrofit_core.inspection.analysis.stopped import groups_of, stopped
from retrofit_core.methods import METHODS
from tests.families import FAMILIES, TIED, network
from tests.networks import CNN_SHAPE, batchnorm_cnn, mlp, normal, shuffled

OLD = {"ridge": "0.01x", "toward": "zero"}


def logits(output):
    return output[0] if isinstance(output, (tuple, list)) else output


def fused(parents, data, method="KF-Linear", **options):
    return METHODS[method](parents, data, device="cpu", **options)


def off(one, other):
    """The largest difference, relative to the largest entry."""
    one, other = (value.detach().nan_to_num(posinf=0, neginf=0) for value in (one, other))
    return ((one - other).abs().max() / other.abs().max()).item()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if number % 3 and name not in TIED else pytest.mark.slow)
        for number, name in enumerate(FAMILIES)
    ],
)
def test_a_shuffled_copy_and_the_network_itself_are_found_again(name):
    model, x = network(name)
    twin, target = shuffled(model, x[:20], 3), network(name, seed=1)[0]
    for options in ({}, {"method": "HF-Linear"}, {"target": target}):
        found = fused([model, twin], x, ridge=0.0, toward="zero", **options).model
        assert off(logits(found(x)), logits(model(x))) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("method", ["HF-Linear", "PLeaS"])
def test_buffers_beside_parameters_of_a_bias_stay(method):
    """The keys of SwinV2 and BEiT have zeros for a bias, which checkpoints lack."""
    name = "shifted windows, cosines, biases by a network and by two of three parts"
    (first, x), (second, _) = network(name), network(name, seed=1)
    model = fused([first, second], x, method).model
    assert torch.equal(model.k_bias, first.k_bias) and not torch.equal(model.q_bias, first.q_bias)


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


class Louder(nn.Module):
    """Multiplies what another network says by one number that is learned."""

    def __init__(self, network, number):
        super().__init__()
        self.network, self.number = network, nn.Parameter(torch.tensor(number).double())

    def forward(self, x):
        return self.number * self.network(x)


@pytest.mark.slow
def test_a_number_behind_the_head_is_part_of_it():
    """Parents that say the same as loudly by their head as by a number behind it fuse alike."""
    plain, x = [mlp(seed=k) for k in range(2)], normal(80, 6)
    louder = [Louder(copy.deepcopy(model), number) for model, number in zip(plain, (1.0, 4.0), strict=True)]
    with torch.no_grad():
        louder[1].network[-1].weight.div_(4), louder[1].network[-1].bias.div_(4)
    expected, found = (fused(models, x).model(x) for models in (plain, louder))
    assert off(found, expected) < 1e-9
