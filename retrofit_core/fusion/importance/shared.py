"""Scores that several fusions of a process share: those of the same networks on the same data are computed once."""

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

from torch import Tensor

from ...networks.levels import Level
from ...networks.statedicts import tensors_in
from ...training.state import digest
from .base import Importance, Scores

#: Scores of one parent that are kept; those used last stay. They are small: a number a neuron.
MOST = 64
#: Scores, and the seconds that they took, see `clocks`.
_kept: OrderedDict[Hashable, tuple[Scores, dict[str, float]]] = OrderedDict()
#: The name of the networks in use; None outside of `sharing`.
_networks: ContextVar[Hashable] = ContextVar("networks", default=None)
#: Seconds that all scores taken over so far had taken.
_spared: ContextVar[dict[str, float]] = ContextVar("spared")


@contextmanager
def sharing(networks: Hashable) -> Iterator[None]:
    """Inside, scores computed before for these networks are taken over.

    Args:
        networks: what identifies their architectures and weights, such as digests of their files.
    """
    token = _networks.set(networks)
    try:
        yield
    finally:
        _networks.reset(token)


def clocks() -> dict[str, float]:
    """Clocks by the names that a `FusionResult` has for their differences, ahead by what taken-over scores would have taken: a
    method's seconds do not depend on what ran before."""
    now = {"seconds": time.perf_counter(), "processor_seconds": time.process_time()}
    return {name: value + _spared.get({}).get(name, 0.0) for name, value in now.items()}


def since(begun: dict[str, float]) -> dict[str, float]:
    """Differences of `clocks`."""
    return {name: now - begun[name] for name, now in clocks().items()}


def shared(
    compute: Callable[[], Scores], levels: Sequence[Level], x: Tensor, y: Tensor | None, importance: Importance
) -> Scores:
    """The scores of one parent, computed unless `sharing` has them.

    Args:
        levels, x, y, importance: what `compute` depends on, besides the networks that `sharing` names: fusions may cut them
            into other levels, or change their weights before.
    """
    if _networks.get() is None or importance.widths_only:
        return compute()
    cut = [(level.name, level.axis, level.width) for level in levels]
    options = json.dumps(importance.to_json(), sort_keys=True)
    tensors = {
        f"{index} {name}": tensor
        for index, level in enumerate(levels)
        for name, tensor in tensors_in(level.module).items()
    }
    tensors |= {"inputs": x} if y is None else {"inputs": x, "labels": y}
    key = (_networks.get(), type(importance), options, tuple(cut), str(x.device), digest(tensors))
    if key in _kept:
        scores, took = _kept[key]
        _spared.set({name: value + _spared.get({}).get(name, 0.0) for name, value in took.items()})
    else:
        begun = clocks()
        scores = compute()
        took = since(begun)
    _kept[key] = scores, took
    _kept.move_to_end(key)
    while len(_kept) > MOST:
        _kept.popitem(last=False)
    return replace(scores, values=[value.clone() for value in scores.values], report=dict(scores.report))
