"""Importance scores that are computed once and given to many fusions."""

import itertools
from collections.abc import Callable
from typing import Any

import torch

from retrofit_core import importance_scores, partition
from retrofit_core.fusion.importance import Importance
from retrofit_core.runs.inputs import Inputs


def scores_of(inputs: Inputs, importance: str | Importance) -> list[list[torch.Tensor]]:
    """Scores of every parent and level, on each parent's training rows, or on the fusion samples where none were read."""
    data = inputs.importance if isinstance(inputs.importance, list) else [inputs.fusion] * len(inputs.models)
    return [
        importance_scores(partition(model, x[:2]), x, y, importance).values
        for model, (x, y) in zip(inputs.models, data, strict=True)
    ]


def in_turn(scores: list[list[torch.Tensor]]) -> Callable[..., Any]:
    """An importance function that returns scores of `scores_of`, parent by parent, again and again."""
    turns = itertools.cycle(scores)
    return lambda levels, x, y: next(turns)
