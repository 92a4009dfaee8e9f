"""What `fuse` would work on, or its refusal: networks are cut into levels, and nothing is computed."""

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from .. import device as devices
from ..architectures import build
from ..data import Images
from ..eligibility import Plan, check
from ..fusion import check_options
from ..importance.deeplift import check_rules
from ..methods import METHODS, RETROFITTING
from ..registry import find
from ..runs import RunConfig, read_boundaries
from ..settings import DEFAULTS, resolve


@lru_cache(maxsize=32)
def blank(spec: str) -> nn.Module:
    """The network of a spec in JSON, its weights zero: enough to be cut into levels, and free to make."""
    with torch.device("meta"):
        model = build(json.loads(spec))
    model = model.to_empty(device="cpu").eval()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.zero_()
    return model


def plan_fusion(
    config: RunConfig, models: list[nn.Module], target: nn.Module | None, data: Images, images: int
) -> Plan:
    """What `fuse` would work on.

    Raises:
        ValueError: its refusal, with a method that works here if there is one.
    """
    inputs = torch.zeros(1, *data.shape).expand(images, -1, -1, -1)

    def attempt(method: str) -> Plan:
        keywords = keywords_of(method)
        resolve(config.preset, keywords["grouping"], keywords["fit"], given_settings(config))
        place, memory = torch.device("cpu"), config.memory or devices.MEMORY
        found = check(
            models,
            inputs,
            target=target,
            device=place,
            memory=memory,
            boundaries=read_boundaries(config.boundaries),
            **keywords,
        )
        shares = torch.ones(len(models), found.fused[-1].width) if config.head == "shares" else None
        check_options(found, config.toward, config.head, shares, keywords["fit"])
        return found

    try:
        found = attempt(config.method)
    except ValueError as error:
        others = sorted(RETROFITTING, key=lambda name: -_alike(name, config.method))
        works = next((other for other in others if _passes(attempt, other)), None)
        raise ValueError(f"{error} {works} works here." if works else str(error)) from error
    if config.importance == "deeplift":
        for levels in found.parents:
            check_rules(levels)
    return found


def keywords_of(method: str) -> dict[str, str]:
    return dict(getattr(find(METHODS, method, "method"), "keywords", {}))


def given_settings(config: RunConfig) -> dict[str, Any]:
    """The settings of a fit that a config gives itself."""
    return {
        "ridge": config.ridge,
        **{name: value for name, value in (config.options or {}).items() if name in DEFAULTS},
    }


def _alike(first: str, second: str) -> int:
    """How many keywords two methods share."""
    return len(keywords_of(first).items() & keywords_of(second).items())


def _passes(attempt: Callable[[str], Plan], method: str) -> bool:
    try:
        attempt(method)
    except ValueError:
        return False
    return True
