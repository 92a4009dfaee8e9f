"""Scores that several fusions of a process share: those of the same networks on the same data are computed once."""

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from torch import Tensor

from ...networks.levels import Level
from ...networks.statedicts import tensors_in
from ...training.state import digest
from .base import Importance, Scores

#: Scores of one parent that are kept; those used last stay. They are small: a number a neuron.
MOST = 64


@dataclass
class Spared:
    """What fusions would have spent besides, had they computed all of their scores."""

    seconds: float = 0.0
    processor_seconds: float = 0.0


#: Scores, and what they took.
_kept: OrderedDict[Hashable, tuple[Scores, Spared]] = OrderedDict()
#: The name of the networks in use, and what is spared; None outside of `sharing`.
_sharing: ContextVar[tuple[Hashable, Spared] | None] = ContextVar("sharing", default=None)


@contextmanager
def sharing(networks: Hashable) -> Iterator[Spared]:
    """Inside, scores computed before for these networks are taken over.

    Args:
        networks: what identifies their architectures and weights, such as digests of their files.
    """
    spared = Spared()
    token = _sharing.set((networks, spared))
    try:
        yield spared
    finally:
        _sharing.reset(token)


def shared(
    compute: Callable[[], Scores], levels: Sequence[Level], x: Tensor, y: Tensor | None, importance: Importance
) -> Scores:
    """The scores of one parent, computed unless `sharing` has them.

    Args:
        levels, x, y, importance: what `compute` depends on, besides the networks that `sharing` names: fusions may cut them
            into other levels, or change their weights before.
    """
    if (current := _sharing.get()) is None or importance.widths_only:
        return compute()
    networks, spared = current
    cut = [(level.name, level.axis, level.width) for level in levels]
    options = json.dumps(importance.to_json(), sort_keys=True)
    tensors = {
        f"{index} {name}": tensor
        for index, level in enumerate(levels)
        for name, tensor in tensors_in(level.module).items()
    }
    tensors |= {"inputs": x} if y is None else {"inputs": x, "labels": y}
    key = (
        networks,
        type(importance),
        options,
        tuple(cut),
        str(x.device),
        digest(tensors),
    )
    if key in _kept:
        scores, took = _kept[key]
        spared.seconds += took.seconds
        spared.processor_seconds += took.processor_seconds
    else:
        wall, processor = time.perf_counter(), time.process_time()
        scores = compute()
        took = Spared(time.perf_counter() - wall, time.process_time() - processor)
    _kept[key] = scores, took
    _kept.move_to_end(key)
    while len(_kept) > MOST:
        _kept.popitem(last=False)
    return replace(scores, values=[value.clone() for value in scores.values], report=dict(scores.report))
