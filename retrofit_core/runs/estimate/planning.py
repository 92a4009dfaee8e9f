"""What a run's method plans, or its refusal: the networks have no weights worth the name, and nothing is computed."""

import dataclasses
import json
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from ...fusion.task import Cost, Task
from ...methods import METHODS, RETROFITTING, Method
from ...networks.architectures import Architecture, build
from ...system.registry import find
from .. import RunConfig
from ..inputs import Inputs


@lru_cache(maxsize=32)
def blank(spec: str) -> Any:
    """The network of a spec in JSON, its weights zero: enough to be cut into levels, and free to make.

    That of a factory of others is as it makes it: what it keeps besides weights may not be zero.
    """
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        model = build(json.loads(spec))
    if not isinstance(model, Architecture):
        return model.eval()
    model = model.to_empty(device="cpu").eval()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.zero_()
    return model


@dataclass(frozen=True, eq=False)
class MethodPlan:
    """A method that found nothing to refuse."""

    algorithm: Any
    """Its value"""
    task: Task
    plan: Any
    """What the value planned"""
    cost: Cost

    @property
    def networks(self) -> list[nn.Module]:
        """Networks of the shapes that the result holds: one, or all parents side by side."""
        if self.algorithm.takes.keeps_parents:
            return list(self.task.parents)
        return [self.task.target if self.task.target is not None else self.task.parents[0]]


def plan_method(config: RunConfig, inputs: Inputs) -> MethodPlan:
    """What the method of a config would do with networks without weights.

    Raises:
        ValueError: its refusal, with a method that works here if it goes level by level and there is one.
    """
    method = find(METHODS, config.method, "method")
    try:
        return _planned(config, inputs, method)
    except ValueError as error:
        others = [METHODS[name] for name in RETROFITTING] if method.takes.levels else []
        for other in sorted(others, key=lambda other: -len(other.fixed.items() & method.fixed.items())):
            with suppress(ValueError):
                _planned(config, inputs, other)
                break
        else:
            raise
        raise ValueError(f"{error} {other.name} works here.") from error


def _planned(config: RunConfig, inputs: Inputs, method: Method) -> MethodPlan:
    keywords = inputs.keywords(dataclasses.replace(config, method=method.name)) | {"device": "cpu"}
    algorithm, task = method.prepare(inputs.models, inputs.fusion, **keywords)
    plan = algorithm.plan(task)
    return MethodPlan(algorithm, task, plan, plan.cost())
