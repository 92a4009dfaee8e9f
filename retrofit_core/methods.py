"""The table of methods: the lines of `catalogue` with their classes, called with flat keywords."""

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from . import baselines
from .baselines.auto import Auto
from .baselines.distilled import Distilled
from .catalogue import CATALOGUE, CONTROL, OURS, PAPER, Line
from .fusion.algorithm import Retrofit
from .fusion.importance import IMPORTANCE, Importance, as_importance
from .fusion.results import FusionResult
from .fusion.task import Algorithm, Takes, Task, carry_out, planned
from .system.presets import preset_settings
from .system.registry import find, known_name, made, name_of
from .system.runtime import Runtime
from .system.settings import SAMPLES_SETTING, SEED_SETTING, Setting, Value, settings_of

#: Keywords that are not method options, in display order.
KEYWORDS = {
    "preset": "default, or paper: the paper's hyperparameters",
    "grouping": "",
    "fit": "",
    "importance": "",
    "importance_data": "one (inputs, labels) per parent, or 'fusion' for the fusion data",
    "target": "network with the fused architecture; None: parent 0's architecture",
    "base": "the parents' common ancestor: the network from which all of them were trained on",
    "class_shares": "(parents, classes) each parent's share of each class's training samples",
    "sample_counts": "each parent's number of training samples",
    "boundaries": "where levels end: auto, preactivations, activations, blocks, a number of levels, or names",
    "samples": "",
    "seed": "",
    "memory": "",
    "device": "auto (CUDA if available), cpu, or cuda:1",
    "monitor": "a Monitor: receives events, and can cancel between steps",
    "journal": "saves finished levels, so that an interrupted fusion can resume",
}
#: Keywords after the options.
LAST = ("samples", "seed", "memory", "device", "monitor", "journal")
#: Keywords of every method that are not settings.
RUNTIME = ("device", "monitor", "journal")
#: Keywords of every method that belong to its task.
OF_TASK = ("target", "base", "class_shares", "sample_counts", "samples", "logits", "seed")


def _options(chosen: object, given: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords that are settings of a class; none if `chosen` is a function or a value."""
    if not (inspect.isclass(chosen) and issubclass(chosen, Value)):
        return {}
    return {name: value for name, value in given.items() if name in settings_of(chosen)}


@dataclass(frozen=True, repr=False)
class Method(Line[type[Algorithm]]):
    """One line of the table of methods. Calling it fuses; its settings are the fields of its value and its value's parts.

    `METHODS["KF-Linear"].help()` and its signature list all keywords of a method, with defaults and ranges.
    """

    @property
    def takes(self) -> Takes:
        """What it accepts; its grouping, if any, determines the parents that it accepts, and its fit the levels."""
        takes = self.value.takes
        if "grouping" not in self.parts:
            return takes
        grouping, fit = (self.parts[part][self.fixed[part]] for part in ("grouping", "fit"))
        return dataclasses.replace(
            takes,
            parents=grouping.parents,
            equal_widths=grouping.equal_widths,
            any_architecture=not fit.needs_affine,
        )

    @property
    def parts(self) -> Mapping[str, Mapping[str, type[Any]]]:
        """Fields that hold other values: field -> table of classes."""
        return self.value.parts

    def part_classes(self, given: Mapping[str, Any]) -> list[type[Value]]:
        """The classes whose fields are settings: of the value, its chosen parts and its importance.

        Args:
            given: keywords, which may choose parts and importance as names, classes, functions or values.
        Raises:
            ValueError: a name is unknown.
        """
        classes: list[type[Value]] = [self.value]
        chosen = {**self.fixed, **given}
        tables = {**self.parts, **({"importance": IMPORTANCE} if self.takes.importance else {})}
        for name, table in tables.items():
            part = chosen.get(name, "uniform" if name == "importance" else None)
            if isinstance(part, str):
                part = find(table, part, name)
            if inspect.isclass(part) and issubclass(part, Value):
                classes.append(part)
            elif name == "importance" and callable(part) and not isinstance(part, Value):
                classes.append(Importance)
        return classes

    def settings(self, given: Mapping[str, Any] | None = None) -> dict[str, Setting]:
        """Settings that can be written as text, by name, for the parts and importance chosen in `given`.

        Without a chosen importance, the settings of all scores are included.
        """
        classes = self.part_classes(given or {})
        if self.takes.importance and "importance" not in (given or {}):
            classes += IMPORTANCE.values()
        settings = {name: entry for cls in classes for name, entry in settings_of(cls).items()}
        return {name: entry for name, entry in settings.items() if name not in self.fixed and entry.is_plain}

    def keywords(self, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Every keyword with its default."""
        takes = self.takes
        settings = {
            name: entry.default for name, entry in self.settings({"importance": "uniform", **(given or {})}).items()
        }
        plain = {entry.name: entry.default for entry in dataclasses.fields(self.value) if entry.name not in self.parts}
        offered = {
            "importance": ("uniform", takes.importance),
            "importance_data": (None, takes.importance or takes.parents_data),
            "target": (None, takes.target),
            "base": (None, takes.base),
            "class_shares": (None, takes.class_shares),
            "sample_counts": (None, takes.sample_counts),
            "preset": ("default", bool(self.parts)),
            "memory": (settings_of(Runtime)["memory"].default, takes.memory),
            **{part: (self.fixed.get(part), True) for part in self.parts},
        }
        others = {name: default for name, default in plain.items() if name not in self.fixed and name not in settings}
        always = {"samples": SAMPLES_SETTING.default, "seed": SEED_SETTING.default}
        runtime: dict[str, Any] = {"logits": None, "device": "auto", "monitor": None, "journal": None}
        known = {**settings, **{name: default for name, (default, taken) in offered.items() if taken}, **others}
        return {**_in_order(known), **always, **runtime}

    def prepare(self, models: Sequence[nn.Module], data: object = None, **keywords: object) -> tuple[Algorithm, Task]:
        """Make the value and the task from flat keywords.

        Raises:
            ValueError: the method does not have a keyword or does not accept its contents, or needs data.
        """
        self._check_keywords(keywords)
        if data is None and self.takes.uses_data:
            raise ValueError(
                f"{self.name} fuses on data. Pass a tensor, (inputs, labels), a DataLoader or a Dataset after the networks."
            )
        given = {**self._preset(keywords), **keywords}
        runtime = Runtime(**{name: given[name] for name in (*RUNTIME, "memory") if given.get(name) is not None})
        facts = {name: given[name] for name in OF_TASK if name in given}
        task = Task.of(models, data, importance=self._importance(given), runtime=runtime, **facts)
        return self._value(given), task

    def plan(self, models: Sequence[nn.Module], data: object = None, **keywords: object) -> Any:
        """Check everything without computing; the plan tells the cost.

        Raises:
            ValueError: as in `prepare`, or the fusion is impossible.
        """
        return planned(*self.prepare(models, data, **keywords))

    def __call__(self, models: Sequence[nn.Module], data: object = None, /, **keywords: object) -> FusionResult:
        """Fuse, without changing the parents.

        Args:
            models: the parents; parent 0 determines the architecture unless there is a target.
            data: fusion data: a tensor, (inputs, labels), a DataLoader or a Dataset. Optional for methods that only combine
                weights or outputs (`takes.uses_data` is False); with data, they are checked on one sample.
            keywords: see `keywords`.
        Raises:
            ValueError: as in `plan`, before any work.
            Cancelled: the monitor requested it.
        """
        return carry_out(*self.prepare(models, data, **keywords))

    def algorithm(self, **keywords: object) -> Algorithm:
        """Make the value from flat keywords, without parents and data.

        Raises:
            ValueError: as in `prepare`.
        """
        self._check_keywords(keywords)
        self._importance(keywords)
        return self._value({**self._preset(keywords), **keywords})

    @property
    def __signature__(self) -> inspect.Signature:
        """Models, data, and every keyword with its annotation and default."""
        only, first = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_ONLY
        takes_data = self.takes.uses_data
        parameters = [
            inspect.Parameter("models", first, annotation=Sequence[nn.Module]),
            inspect.Parameter("data", first, default=inspect.Parameter.empty if takes_data else None, annotation=Any),
        ]
        settings, offered = self._explained(), self._offered()
        parameters += [
            inspect.Parameter(
                name, only, default=default, annotation=settings[name].annotation if name in settings else Any
            )
            for name, default in offered.items()
        ]
        return inspect.Signature(parameters, return_annotation=FusionResult)

    def __repr__(self) -> str:
        return f"METHODS[{self.name!r}]"

    def help(self) -> str:
        """Text for printing: what it does, its publication, and each keyword with accepted values."""
        settings, lines = self._explained(), []
        for name, default in self._offered().items():
            said = KEYWORDS.get(name, "")
            if entry := settings.get(name):
                said = f"{entry.description}. {entry.help[0].upper()}{entry.help[1:]}{self._owned(name)}"
            elif table := self.parts.get(name):
                said = f"{', '.join(table)}; a value, or a function of your own"
            elif name == "importance":
                said = f"{', '.join(IMPORTANCE)}; a value, or a function of your own"
            lines.append(f"    {name} = {default!r}: {said}.")
        about = inspect.getdoc(self.value) or ""
        fixed = ", ".join(f"{name}={value!r}" for name, value in self.fixed.items() if name not in self.parts)
        of = f"{self.value.__name__}{f' with {fixed}' if fixed else ''}: {about}"
        data = "data, " if self.takes.uses_data else ""
        call = f'METHODS["{self.name}"](models, {data}keyword=...)'
        return "\n".join([self.description, "", call, "", of, "", "Keywords:", *lines])

    def _explained(self) -> dict[str, Setting]:
        """Settings of the method, of all scores, of the runtime and of the task."""
        always = (SAMPLES_SETTING, SEED_SETTING, settings_of(Runtime)["memory"])
        return {**self.settings(), **{entry.name: entry for entry in always}}

    def _offered(self) -> dict[str, Any]:
        """Every keyword with its default, including those of all scores."""
        keywords = self.keywords()
        scores = {name: entry.default for name, entry in self.settings().items() if name not in keywords}
        return _in_order({**keywords, **scores})

    def _owned(self, setting: str) -> str:
        owners = self.owners(setting)
        few = 0 < len(owners) < len(IMPORTANCE) and all(owner.startswith("importance") for owner in owners)
        return f" (of {', '.join(owners)})" if few else ""

    def owners(self, setting: str) -> list[str]:
        """The choices of parts and importance that have a setting, such as `fit='gradient'`."""
        tables = {**self.parts, **({"importance": IMPORTANCE} if self.takes.importance else {})}
        return [
            f"{part}={name!r}"
            for part, table in tables.items()
            for name, cls in table.items()
            if setting in settings_of(cls)
        ]

    def _check_keywords(self, keywords: Mapping[str, Any]) -> None:
        accepted = self.keywords(keywords)
        values = {name: value for name, value in keywords.items() if isinstance(value, Value)}
        for keyword in keywords:
            if keyword in accepted:
                continue
            for name, value in values.items():
                if keyword in settings_of(type(value)):
                    said = f"{type(value).__name__}(..., {keyword}={keywords[keyword]!r})"
                    raise ValueError(f"{name} is given as a value, so {keyword} belongs inside it: {said}.")
            if owners := self.owners(keyword):
                raise ValueError(f"{keyword} is a setting of {' or '.join(owners)}, which is not chosen. Leave it out.")
            known_name(accepted, keyword, f"keyword of {self.name}:")

    def _preset(self, given: Mapping[str, Any]) -> dict[str, Any]:
        preset = given.get("preset", "default")
        if not self.parts:
            return {}
        parts = {part: name_of(table, given.get(part, self.fixed[part])) for part, table in self.parts.items()}
        settings = preset_settings(preset, **parts)
        for name in (*self.parts, "importance"):
            value = given.get(name)
            own = settings_of(type(value)) if isinstance(value, Value) else ()
            for keyword in settings:
                if keyword in own and getattr(value, keyword) != settings[keyword]:
                    raise ValueError(
                        f"preset={preset!r} sets {keyword}={settings[keyword]!r}, and {name} is given as a value "
                        f"that has {keyword}={getattr(value, keyword)!r}. Write {type(value).__name__}(..., "
                        f"{keyword}={settings[keyword]!r}), give {name} by its name, or leave the preset out."
                    )
        return settings

    def _importance(self, given: Mapping[str, Any]) -> Importance:
        importance, data = given.get("importance", "uniform"), given.get("importance_data")
        if isinstance(importance, Importance):
            return importance if data is None else importance.on(data)
        if isinstance(importance, str):
            importance = find(IMPORTANCE, importance, "importance")
        options = _options(importance if inspect.isclass(importance) else Importance, given)
        return as_importance(importance, data=data, **options)

    def _value(self, given: Mapping[str, Any]) -> Any:
        parts = {}
        for part, table in self.parts.items():
            chosen = given.get(part, self.fixed[part])
            if isinstance(chosen, str):
                chosen = find(table, chosen, part)
            parts[part] = made(table, chosen, part, **_options(chosen, given))
        fields = [entry.name for entry in dataclasses.fields(self.value) if entry.name not in self.parts]
        from_keywords = {name: given[name] for name in fields if name in given}
        fixed = {name: value for name, value in self.fixed.items() if name not in self.parts}
        return self.value(**fixed, **from_keywords, **parts)


def _in_order(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Order keywords: choices and task first, then options, then those of `LAST`."""
    named = [name for name in KEYWORDS if name in keywords]
    first, last = ([name for name in named if (name in LAST) == late] for late in (False, True))
    return {name: keywords[name] for name in (*first, *(name for name in keywords if name not in KEYWORDS), *last)}


class Methods(dict[str, Method]):
    """The table, for names in any spelling; the error for an unknown one suggests the nearest."""

    def __missing__(self, name: str) -> Method:
        return self[known_name(self, name, "method")]


#: Classes of values that are not baselines.
FUSIONS: dict[str, type[Algorithm]] = {value.__name__: value for value in (Retrofit, Distilled, Auto)}
METHODS = Methods(
    {
        name: Method(**{**vars(line), "value": FUSIONS.get(line.value) or getattr(baselines, line.value)})
        for name, line in CATALOGUE.items()
    }
)
#: The paper's four methods, our extensions and our controls, all of which fuse level by level. The others are baselines.
RETROFITTING = tuple(name for name, method in METHODS.items() if method.source == PAPER)
BEYOND = tuple(name for name, method in METHODS.items() if method.source == OURS)
CONTROLS = tuple(name for name, method in METHODS.items() if method.source == CONTROL)


def methods_with(keyword: str) -> list[str]:
    """Names of the methods that have a keyword with their own parts and any score."""
    return [name for name, method in METHODS.items() if keyword in {**method.settings(), **method.keywords()}]
