"""A run's method plan, or its refusal, for networks with blank weights, without computing anything."""

import dataclasses
import json
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import torch
from torch import nn

from ...baselines.auto import AutoPlan
from ...fusion.algorithm import FusionPlan
from ...fusion.task import Cost, Task
from ...methods import METHODS, RETROFITTING
from ...networks.architectures import Architecture, build
from ...system.refusals import Cure, Refusal, cures_of
from ...system.registry import find
from .. import RunConfig
from ..config import FIELDS
from ..inputs import Inputs


@lru_cache(maxsize=32)
def blank(spec: str) -> Any:
    """The network of a spec in JSON with zero weights: cheap to make, and enough to cut into levels.

    Foreign networks stay as their factory makes them: their other tensors may not be zero.
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
    """A method that accepted a run."""

    algorithm: Any
    """The method's value"""
    task: Task
    plan: Any
    """The value's plan"""
    cost: Cost

    @property
    def fusions(self) -> list["MethodPlan"]:
        """The fusions by level that it consists of: itself, those that a method chooses from, or none."""
        if isinstance(self.plan, AutoPlan):
            return [MethodPlan(t.algorithm, t.plan.task, t.plan, t.plan.cost()) for t in self.plan.trials]
        return [self] if isinstance(self.plan, FusionPlan) else []

    @property
    def networks(self) -> list[nn.Module]:
        """Networks with the result's shapes: one, or all parents side by side."""
        if self.algorithm.takes.keeps_parents:
            return list(self.task.parents)
        return [self.task.target if self.task.target is not None else self.task.parents[0]]


def plan_method(config: RunConfig, inputs: Inputs) -> MethodPlan:
    """Plan a config's method for networks with blank weights.

    Raises:
        Refusal: with cures that work here: those of the method's refusal, and the most similar of the paper's methods.
    """
    try:
        return planned(config, inputs)
    except ValueError as error:
        method = find(METHODS, config.method, "method")
        named = [cure for cure in cures_of(error) if _works(config, inputs, cure)]
        others = sorted(RETROFITTING, key=lambda name: -len(METHODS[name].fixed.items() & method.fixed.items()))
        asked = others if method.takes.levels or not named else []
        similar = list(islice((cure for name in asked if _works(config, inputs, cure := ("method", name))), 1))
        words = f" {similar[0][1]} works here." if similar and method.takes.levels else ""
        raise Refusal(f"{error}{words}", *dict.fromkeys([*similar, *named])) from error


def _works(config: RunConfig, inputs: Inputs, cure: Cure) -> bool:
    """Whether the run is accepted with a cure."""
    try:
        planned(*_cured(config, inputs, *cure))
    except ValueError:
        return False
    return True


def _cured(config: RunConfig, inputs: Inputs, name: str, value: Any) -> tuple[RunConfig, Inputs]:
    """A config with a cure, and its inputs; another method keeps the settings that it has."""
    if name == "method":
        keywords = METHODS[value].keywords()
        told = {option: given for option, given in (config.options or {}).items() if option in keywords}
        score = config.importance if METHODS[value].takes.importance else RunConfig.importance
        return dataclasses.replace(config, method=value, importance=score, options=told), inputs
    if name == "target":
        return dataclasses.replace(config, target=None), dataclasses.replace(inputs, target=None)
    if name == "samples":
        x, y = inputs.fusion
        blanks = x[:1].expand(value, *x.shape[1:]), y[:1].expand(value)
        return dataclasses.replace(config, samples=value), dataclasses.replace(inputs, fusion=blanks)
    if name in FIELDS:
        return dataclasses.replace(config, **{name: value}), inputs
    return dataclasses.replace(config, options={**(config.options or {}), name: value}), inputs


def planned(config: RunConfig, inputs: Inputs) -> MethodPlan:
    """As `plan_method`, without looking for cures."""
    method = find(METHODS, config.method, "method")
    keywords = inputs.keywords(config) | {"device": "cpu"}
    algorithm, task = method.prepare(inputs.models, inputs.fusion, **keywords)
    plan = algorithm.plan(task)
    return MethodPlan(algorithm, task, plan, plan.cost())
