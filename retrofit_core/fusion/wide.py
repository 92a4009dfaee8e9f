"""A last level with very many classes, such as the tokens of a language model, some classes at a time.

Classes stay in place and are fitted one by one from the same inputs. All at once, the inner products of outputs (m, m) and the
weights of targets (m, d) would not fit into memory.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from ..networks.levels import Affine, Level, Tied
from ..networks.levels.plain import linear_of
from .joint_spaces import Levels
from .results import LevelReport
from .walk import Step

#: Outputs of all parents from which on a level is fitted in parts, and the most outputs of a part.
WIDE, PART = 8192, 1024


def with_parts(levels: Levels) -> Levels:
    """The levels, the last of which is marked if it is fitted in parts: a linear layer of very many classes."""
    last = [network[-1] for network in levels.networks]
    alike = all(
        type(level.form) in (Affine, Tied)
        and len(level.form.layers) == 1
        and isinstance(level.form.layers[0], nn.Linear)
        and not level.form.adds
        for level in last
    )
    if not alike or sum(levels.widths(-1)) <= WIDE:
        return levels
    part = PART // len(levels.parents)
    return replace(levels, fused=[*levels.fused[:-1], replace(levels.fused[-1], part=part)])


def parts_of(step: Step, s: Tensor) -> Iterator[tuple[Step, Tensor]]:
    """The step for some classes after others, and the scores (m,) of their outputs.

    Args:
        s: scores of all outputs.
    """
    walk, classes = step.walk, step.level.width
    of_parents = s.view(len(step.parents), classes)
    for start in range(0, classes, step.level.part):
        chosen = slice(start, min(start + step.level.part, classes))
        part = copy.copy(walk)
        part.parents = [[*levels[:-1], _part(levels[-1], chosen)] for levels in walk.parents]
        part.fused = [*walk.fused[:-1], _part(walk.fused[-1], chosen)]
        part.levels = Levels(part.parents, part.fused)
        part.networks = part.levels.networks
        yield Step(part, step.index), of_parents[:, chosen].flatten()


def joined(reports: Sequence[LevelReport], step: Step, s: Tensor) -> LevelReport:
    """The report of the whole level, without inner products of its outputs."""
    n, part = len(step.parents), step.level.part
    labels = [report.labels.view(n, -1) + number * part for number, report in enumerate(reports)]
    errors = ("energy", "grouping_error", "approximation_error", "unavoidable_error", "cross_error")
    return replace(
        reports[0],
        widths=step.widths,
        width=step.level.width,
        scores=s.cpu(),
        labels=torch.cat(labels, 1).flatten(),
        gram=torch.empty(0, 0),
        **{name: math.fsum(getattr(report, name) for report in reports) for name in errors},
    )


def _part(level: Level, chosen: slice) -> Level:
    """A level for some of its classes, in the memory of its weights."""
    (layer,) = level.form.layers
    assert isinstance(layer, nn.Linear)
    bias = None if layer.bias is None else layer.bias.detach()[chosen]
    own = linear_of(layer.weight.detach()[chosen], bias)
    form = replace(level.form, layers=(own,))
    return replace(level, form=form, width=len(own.weight), tail=True, part=0)
