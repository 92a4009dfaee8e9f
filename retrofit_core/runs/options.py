"""Convert a run's settings to the method's flat keywords, and check fields and options."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..data.augment import POLICIES
from ..fusion.grouping import GROUPINGS
from ..fusion.importance import IMPORTANCE
from ..methods import METHODS, methods_with
from ..system.refusals import Refusal
from ..system.registry import find
from ..system.runtime import Runtime
from ..system.settings import Setting, check_seed, settings_of
from ..system.texts import changed
from .config import FIELDS, FLAGS, OptionFlags, RunConfig, naming, read_boundaries

#: Fields that become keywords with the content of their files: networks and images.
OF_FILES = ("target", "base", "importance_data", "samples")


def options_of(method: str, **chosen: Any) -> dict[str, Setting]:
    """The options of a method by name.

    Args:
        chosen: grouping and importance, if chosen; else options of all scores are listed.
    Raises:
        ValueError: unknown method, grouping or importance.
    """
    choices = {name: value for name, value in chosen.items() if value is not None}
    return find(METHODS, method, "method").settings(choices)


def _tellable(method: str, options: Mapping[str, Any], importance: str | None = None) -> dict[str, Setting]:
    """All options of a method, given some: `options_of`, and flags that are not fields of its values."""
    choices = {"grouping": options.get("grouping"), "importance": importance}
    keywords = find(METHODS, method, "method").keywords()
    flags = {name: entry for name, entry in settings_of(OptionFlags).items() if name in keywords}
    return {**flags, **options_of(method, **choices)}


def checked(method: str, options: Mapping[str, Any], importance: str | None = None) -> dict[str, Any] | None:
    """The options that differ from the method's defaults, None if there are none, so that equal options are stored equally.

    With a preset, which has its own defaults, all are kept.

    Args:
        importance: if chosen; else options of all scores are accepted.
    Raises:
        ValueError: an option that the method does not have, one named like a setting of the run, or an invalid value.
    """
    settings = _tellable(method, options, importance)
    for name, value in options.items():
        if name in FIELDS:
            raise ValueError(
                f"{method} has no option {name!r}: that is a setting of the run itself. Give it beside the options; "
                "an option of a method, grouping or score needs another name."
            )
        if name not in settings:
            known = ", ".join(other for other in settings if other not in FLAGS) or "none"
            raise ValueError(f"{method} has no option {name!r}. Known: {known}.{_owners(method, name)}")
        if not settings[name].takes(value):
            raise ValueError(f"option {name} of {method} is {value!r}. It takes: {settings[name].description}.")
    stored = {name: settings[name].normalised(value) for name, value in options.items()}
    if stored.get("preset", "default") == "default":
        stored = {name: value for name, value in stored.items() if value != settings[name].default}
    return stored or None


def _owners(method: str, option: str) -> str:
    """A sentence on who has this option."""
    owners = find(METHODS, method, "method").owners(option)
    if owners:
        return f" It belongs to {' or '.join(owners)}, which is not chosen."
    others = [other for other in METHODS if option in _tellable(other, {})]
    return f" It is an option of {', '.join(others)}.{naming(method)}" if others else ""


def with_options(config: RunConfig, options: Mapping[str, Any]) -> RunConfig:
    """A config with additional options for its method.

    Raises:
        ValueError: as in `checked`.
    """
    told = {**(config.options or {}), **options}
    return dataclasses.replace(config, options=checked(config.method, told, config.importance))


def method_keywords(config: RunConfig) -> dict[str, Any]:
    """The flat keywords of a config's method, without file contents.

    Raises:
        ValueError: an unknown method, or a setting that the method does not have.
    """
    method = find(METHODS, config.method, "method")
    chosen = {**changed(config), **(config.options or {})}
    del chosen["models"]
    accepted = method.keywords({name: chosen[name] for name in (*method.parts, "importance") if name in chosen})
    for name, value in chosen.items():
        if name not in accepted and name not in ("importance_data", "samples") and (others := methods_with(name)):
            raise ValueError(
                f"{method.name} has no setting {name!r} ({value!r} is asked for). Leave it out; it is a setting of "
                f"{', '.join(others)}.{naming(method.name)}"
            )
    keywords = {name: value for name, value in chosen.items() if name in accepted and name not in OF_FILES}
    if isinstance(boundaries := keywords.get("boundaries"), str):
        keywords["boundaries"] = read_boundaries(boundaries)
    return keywords | {name: value for name, value in (config.options or {}).items() if name not in keywords}


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
    if (grouping := config.option("grouping")) is not None:
        find(GROUPINGS, grouping, "grouping")
    keywords = method_keywords(config)
    checked(config.method, config.options or {}, config.importance)
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
