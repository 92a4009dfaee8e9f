"""A run's settings as its method's flat keywords, and the checks of its choices."""

from typing import Any

from ..data.augment import POLICIES
from ..fusion.importance import IMPORTANCE
from ..methods import METHODS
from ..system.refusals import Refusal
from ..system.registry import find
from ..system.runtime import Runtime
from ..system.settings import check_seed, settings_of
from ..system.texts import changed
from .config import RunConfig, naming

#: Fields of a run that its method takes as keywords; files become networks.
TAKEN, FILES = ("importance", "seed", "memory", "device"), ("target", "base")


def method_keywords(config: RunConfig) -> dict[str, Any]:
    """The flat keywords of a config's method, without file contents.

    Raises:
        ValueError: an unknown method, or a setting that the method does not have.
    """
    method, asked = find(METHODS, config.method, "method"), changed(config)
    keywords = {name: asked[name] for name in TAKEN if name in asked} | (config.options or {})
    try:
        method.check_keywords(keywords | {name: asked[name] for name in FILES if name in asked})
    except ValueError as error:
        raise ValueError(f"{error}{naming(config.method)}") from None
    return keywords


def needs_parents_data(config: RunConfig) -> bool:
    """Whether a run uses each parent's own data: for scores, or for the method itself."""
    takes = find(METHODS, config.method, "method").takes
    return takes.parents_data or find(IMPORTANCE, config.importance, "importance").needs_data


def check_choices(config: RunConfig) -> None:
    """Refuse unknown choices, and missing ones without a safe default.

    Raises:
        ValueError: names the choice and the flag.
    """
    method = find(METHODS, config.method, "method")
    importance = find(IMPORTANCE, config.importance, "importance")
    keywords = method_keywords(config)
    check_seed(config.seed)
    if config.memory is not None:
        Runtime(memory=config.memory)
    method.algorithm(**keywords)
    if config.analyse and not method.takes.levels:
        raise ValueError(
            f"an analysis needs the levels of an HF or KF method, and {method.name} does not work level by level. Omit "
            f"--analyse, or choose another method.{naming(method.name)}"
        )
    for name in ("importance_data", "fusion_from"):
        words, value = settings_of(RunConfig)[name].words, getattr(config, name)
        if value is not None and value not in words:
            raise ValueError(f"{name} is {value!r}. Known: {', '.join(words)}.")
    if config.auto_augment is not None:
        find(POLICIES, config.auto_augment, "AutoAugment policy")
        if not config.augment:
            raise ValueError("an AutoAugment policy needs augmented copies: say how many of each image with --augment.")
    if config.splits is not None:
        return
    if method.takes.uses_data and (config.fusion_from or "parent0") == "parent0":
        raise Refusal(
            "fusion samples come from parent 0's training rows, which only a splits file contains. Pass --splits "
            "FILE, or --fusion-from iid to draw from all rows.",
            ("fusion_from", "iid"),
        )
    if importance.needs_data and (config.importance_data or "own") == "own":
        raise ValueError(
            f"importance {config.importance} is computed on each parent's own training rows, which only a splits "
            "file contains. Pass --splits FILE, or --importance-data fusion to use the fusion samples."
        )
    if config.importance_data == "own" and method.takes.parents_data:
        raise ValueError(
            f"{config.method} reads each parent's own training rows, which only a splits file contains. Pass "
            "--splits FILE, or leave --importance-data out to use the fusion samples."
        )
