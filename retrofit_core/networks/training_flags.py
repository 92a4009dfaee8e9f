"""Networks in evaluation mode for a while."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from torch import nn

Returned = TypeVar("Returned")


@contextmanager
def evaluating(*models: nn.Module) -> Iterator[None]:
    """Every submodule's training flag is put back at the end, whatever happens."""
    flags = [(module, module.training) for model in models for module in model.modules()]
    try:
        for module, _ in flags:
            module.training = False
        yield
    finally:
        for module, training in flags:
            module.training = training


def keeps_training_flags(function: Callable[..., Returned]) -> Callable[..., Returned]:
    """A function of models that sees them in evaluation mode and leaves them as they were."""

    @functools.wraps(function)
    def wrapped(models: Sequence[nn.Module], *args: object, **kwargs: object) -> Returned:
        with evaluating(*models):
            return function(models, *args, **kwargs)

    return wrapped
