"""Assertions that several test files share; each docstring says the property."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from retrofit_core.baselines.groups import groups_of
from retrofit_core.baselines.repair import mapped_goals, rescale, reset_norms
from retrofit_core.fusion.alignment import Group
from retrofit_core.fusion.grouping import Grouping
from retrofit_core.graph.graph import load, weights_of
from retrofit_core.graph.network import Network, networks_of
from retrofit_core.graph.norms import reset_statistics
from retrofit_core.graph.tracing import trace_all
from retrofit_core.system.monitor import Monitor


def assert_close(actual: Tensor, expected: Tensor, tolerance: float = 1e-8) -> None:
    """Equal up to `tolerance` times the size of what is expected."""
    actual, expected = actual.detach().double(), torch.as_tensor(expected).detach().to(actual.device).double()
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    gap = (actual - expected).abs().max().item() if actual.numel() else 0.0
    assert gap <= tolerance * max(1.0, expected.abs().max().item()), f"differ by {gap:.3g}"


def assert_same_function(left: nn.Module, right: nn.Module, x: Tensor, tolerance: float = 1e-8) -> None:
    """Two networks give the same outputs on x."""
    with torch.no_grad():
        assert_close(left(x), right(x), tolerance)


def assert_same_tensors(actual: nn.Module, expected: nn.Module, tolerance: float = 0.0) -> None:
    """Two networks hold the same parameters and buffers: bit for bit, or up to `tolerance` as in `assert_close`."""
    for name, tensor in weights_of(expected).items():
        assert tolerance or torch.equal(weights_of(actual)[name], tensor), name
        assert_close(weights_of(actual)[name], tensor, tolerance)


def assert_is_grouping(grouping: Grouping, m: int, width: int, scores: Tensor) -> None:
    """Every neuron is in one of `width` non-empty groups, and the columns of A are averages."""
    assert grouping.labels.shape == (m,)
    assert grouping.width == width
    assert sorted(set(grouping.labels.tolist())) == list(range(width))
    A = grouping.targets(scores).A
    assert (A >= 0).all()
    assert_close(A.sum(0), torch.ones(width), 1e-12)
    assert ((A != 0).sum(1) <= 1).all()


def as_groups(labels: Tensor, width: int) -> list[list[int]]:
    """Labels as lists of members, in the order of the groups."""
    return [(labels == k).nonzero()[:, 0].tolist() for k in range(width)]


def as_sets(labels: Tensor) -> set[frozenset[int]]:
    """Labels as a set of groups, whose numbering does not matter."""
    return {frozenset(group) for group in as_groups(labels, int(labels.max()) + 1)}


@contextmanager
def untouched(*models: nn.Module) -> Iterator[None]:
    """Whatever happens inside, the models keep their weights, buffers and gradients bit for bit, their training and
    requires_grad flags, their hooks, and every attribute of every module: the very same objects."""
    before = [_everything(model) for model in models]
    yield
    for model, old in zip(models, before, strict=True):
        new = _everything(model)
        assert new[0].keys() == old[0].keys()
        for name, tensor in old[0].items():
            assert tensor.numpy(force=True).tobytes() == new[0][name].numpy(force=True).tobytes(), f"{name} was changed"
        assert new[1:] == old[1:]


def _everything(model: nn.Module) -> tuple[dict[str, Tensor], Any, Any]:
    state = {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}
    flags = [(parameter.requires_grad, parameter.grad is None) for parameter in model.parameters()]
    return copy.deepcopy(state), flags, [_identified(vars(module)) for module in model.modules()]


def _identified(value: Any) -> Any:
    """Which objects a module holds: in its tables of tensors, submodules and hooks, and in its lists, and plain values."""
    if isinstance(value, dict):
        return [(key, _identified(entry)) for key, entry in value.items()]
    if isinstance(value, (list, tuple)):
        return [_identified(entry) for entry in value]
    return value if isinstance(value, (bool, int, float, str)) else id(value)


def net_of(model: nn.Module, x: Tensor) -> tuple[Network, list[Group]]:
    """A network as baselines see it, and its groups of neurons."""
    (net,) = networks_of([model], x, parts=False)
    return net, groups_of(net, model)


def reordered(state: dict[str, Tensor], groups: Sequence[Group], orders: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors with the neurons of some groups in another order."""
    new = {name: tensor.clone() for name, tensor in state.items()}
    for group in groups:
        for part in group.parts if group.name in orders else ():
            lines = new[part.name].movedim(part.axis, 0)
            lines[part.index] = lines[part.index[orders[group.name]]].clone()
    return new


def repair(fused: nn.Module, parents: Sequence[nn.Module], x: Tensor) -> dict[str, Any]:
    """REPAIR of a network in place, towards the mean of parents whose neurons are in its order; its facts."""
    nets = networks_of([*parents, fused], x, parts=False)
    groups = groups_of(nets[-1], fused)
    share = {group.name: torch.eye(group.width).double() / len(parents) for group in groups}
    goals = mapped_goals(nets, [groups] * len(nets), [share] * len(parents), [x])
    facts = rescale(nets[-1], goals, [x])
    load(fused, nets[-1].weights)
    return facts


def kept_norms(model: nn.Module, x: Tensor) -> None:
    """Give a network's BatchNorms the statistics of what they read; scale and shift make up for them."""
    weights = weights_of(model)
    reset_statistics(trace_all(model, x), weights, [[x]])
    load(model, weights)


def renew_norms(model: nn.Module, x: Tensor) -> dict[str, Any]:
    """Give a network's BatchNorms the statistics of what they read; facts."""
    weights = weights_of(model)
    facts = reset_norms(trace_all(model, x), weights, [x], Monitor())
    load(model, weights)
    return facts
