"""Temporary evaluation mode."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from torch import nn

Returned = TypeVar("Returned")


@contextmanager
def evaluating(*models: nn.Module) -> Iterator[None]:
    """Put models into evaluation mode; restores every submodule's training flag."""
    flags = [(module, module.training) for model in models for module in model.modules()]
    try:
        for module, _ in flags:
            module.training = False
        yield
    finally:
        for module, training in flags:
            module.training = training


def keeps_training_flags(function: Callable[..., Returned]) -> Callable[..., Returned]:
    """Decorate a function of models to run with them in evaluation mode and restore their flags."""

    @functools.wraps(function)
    def wrapped(models: Sequence[nn.Module], *args: object, **kwargs: object) -> Returned:
        with evaluating(*models):
            return function(models, *args, **kwargs)

    return wrapped
