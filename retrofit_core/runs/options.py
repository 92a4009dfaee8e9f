"""What a method makes of the settings of a run: flat keywords, its options beside a run's own fields, and the check of both."""

from collections.abc import Mapping
from typing import Any

from ..data.augment import POLICIES
from ..fusion.grouping import GROUPINGS
from ..fusion.importance import IMPORTANCE
from ..methods import METHODS, methods_with
from ..system.registry import find
from ..system.runtime import Runtime
from ..system.settings import Setting, check_seed, settings_of
from .config import FIELDS, RunConfig, read_boundaries

#: Fields whose content a method takes as a keyword of the same name: the networks and images of files.
OF_FILES = ("target", "base", "importance_data", "samples")


def options_of(method: str, **chosen: Any) -> dict[str, Setting]:
    """The options of a method by name, without those that are fields of a run's config.

    Args:
        chosen: grouping and importance, if they are chosen; else the options of all scores are listed.
    Raises:
        ValueError: unknown method, grouping or importance.
    """
    choices = {name: value for name, value in chosen.items() if value is not None}
    settings = find(METHODS, method, "method").settings(choices)
    return {name: setting for name, setting in settings.items() if name not in FIELDS}


def checked(method: str, options: Mapping[str, Any], **chosen: Any) -> dict[str, Any] | None:
    """The options that differ from the method's defaults, None if there are none: so equal options are stored equally.

    Args:
        chosen: see `options_of`.
    Raises:
        ValueError: an option that the method does not have, one named as a setting of the run, or a value of another kind
            or out of range.
    """
    settings = options_of(method, **chosen)
    for name, value in options.items():
        if name in FIELDS:
            raise ValueError(
                f"{method} has no option {name!r}: that is a setting of the run itself. Give it beside the options; an option "
                "of a method, grouping or score needs another name."
            )
        if name not in settings:
            raise ValueError(
                f"{method} has no option {name!r}. Known: {', '.join(settings) or 'none'}.{_owners(method, name)}"
            )
        if not settings[name].takes(value):
            raise ValueError(f"option {name} of {method} is {value!r}. It takes: {settings[name].description}.")
    stored = {name: settings[name].normalised(value) for name, value in options.items()}
    return {name: value for name, value in stored.items() if value != settings[name].default} or None


def _owners(method: str, option: str) -> str:
    """Whose option it is, as a sentence."""
    owners = find(METHODS, method, "method").owners(option)
    if owners:
        return f" It belongs to {' or '.join(owners)}, which is not chosen."
    others = [other for other in METHODS if option in options_of(other)]
    return f" It is an option of {', '.join(others)}." if others else ""


def config_options(config: RunConfig, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """A method's options for `RunConfig.options`: checked, without those at their defaults.

    Beside a preset, which has defaults of its own, all are kept.

    Raises:
        ValueError: as `checked`.
    """
    different = checked(config.method, options, grouping=config.grouping, importance=config.importance)
    return different if config.preset == "default" else dict(options) or None


def method_keywords(config: RunConfig) -> dict[str, Any]:
    """The flat keywords of a config's method, apart from the content of its files.

    Raises:
        ValueError: an unknown method, or a field that is set and that the method does not have.
    """
    method = find(METHODS, config.method, "method")
    chosen = config.changed()
    accepted = method.keywords({name: chosen[name] for name in (*method.parts, "importance") if name in chosen})
    for name, value in chosen.items():
        if name not in accepted and name not in ("importance_data", "samples") and (others := methods_with(name)):
            raise ValueError(
                f"{method.name} has no setting {name!r} ({value!r} is asked for). Leave it at {getattr(RunConfig, name)!r}; it "
                f"is a setting of {', '.join(others)}."
            )
    keywords = {name: value for name, value in chosen.items() if name in accepted and name not in OF_FILES}
    if "boundaries" in keywords:
        keywords["boundaries"] = read_boundaries(config.boundaries)
    return keywords | (config.options or {})


def needs_parents_data(config: RunConfig) -> bool:
    """Whether a run uses each parent's own data: for scores, or for the method itself."""
    takes = find(METHODS, config.method, "method").takes
    return takes.parents_data or find(IMPORTANCE, config.importance, "importance").needs_data


def check_choices(config: RunConfig) -> None:
    """Refuse unknown choices, and open ones that have no safe default.

    Raises:
        ValueError: names the choice and the flag.
    """
    method = find(METHODS, config.method, "method")
    importance = find(IMPORTANCE, config.importance, "importance")
    if config.grouping is not None:
        find(GROUPINGS, config.grouping, "grouping")
    config_options(config, config.options or {})
    check_seed(config.seed)
    if config.memory is not None:
        Runtime(memory=config.memory)
    method.algorithm(**method_keywords(config))
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
    if (config.fusion_from or "parent0") == "parent0":
        raise ValueError(
            "fusion samples come from parent 0's training rows, which only a splits file tells. "
            "Pass --splits FILE, or --fusion-from iid to draw from all rows."
        )
    if importance.needs_data and (config.importance_data or "own") == "own":
        raise ValueError(
            f"importance {config.importance} is computed on each parent's own training rows, which only a splits file "
            "tells. Pass --splits FILE, or --importance-data fusion to use the fusion samples."
        )
    if config.importance_data == "own" and method.takes.parents_data:
        raise ValueError(
            f"{config.method} is to look at each parent's own training rows, which only a splits file tells. Pass --splits "
            "FILE, or leave --importance-data out to use the fusion samples."
        )
