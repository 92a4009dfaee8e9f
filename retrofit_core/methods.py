"""The table of methods: the lines of `catalogue` with their classes, called with flat keywords."""

import contextlib
import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import nn

from . import baselines
from .baselines.auto import Auto
from .catalogue import CATALOGUE, OURS, RETROFIT, Line
from .fusion.algorithm import Retrofit
from .fusion.fit import Gradient
from .fusion.importance import IMPORTANCE, Importance, Uniform, as_importance
from .fusion.results import FusionResult
from .fusion.task import Algorithm, Takes, Task, carry_out, planned
from .system.presets import preset_settings
from .system.registry import as_value, find, known_name, name_of
from .system.runtime import Runtime
from .system.settings import SAMPLES_SETTING, SEED_SETTING, Setting, Value, settings_of

#: Keywords beside the settings of values, the task and the runtime.
UNIFORM = "uniform"
PRESET = Setting("preset", "default", (), ("default", "paper"), "paper: the paper's hyperparameters")
BESIDE = (
    Setting("importance_data", None, (), (), "one (inputs, labels) per parent, or 'fusion' for the fusion data"),
    SAMPLES_SETTING,
    Setting("logits", None, (), (), "the output that holds the logits, if the networks return several"),
    SEED_SETTING,
)


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

    @cached_property
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
            any_architecture=issubclass(fit, Gradient),
        )

    @property
    def parts(self) -> Mapping[str, Mapping[str, type[Any]]]:
        """Fields that hold other values: field -> table of classes."""
        return self.value.parts

    def choices(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The class, function or value of each part, and of the importance.

        Args:
            given: keywords, which may choose them by name.
        Raises:
            ValueError: a name is unknown.
        """
        asked = {name: given.get(name, self.fixed.get(name, UNIFORM)) for name in self._tables}
        return {
            name: find(self._tables[name], part, name) if isinstance(part, str) else part
            for name, part in asked.items()
        }

    def settings(self, given: Mapping[str, Any] | None = None) -> dict[str, Setting]:
        """Settings that can be written as text, by name, for the parts and importance chosen in `given`.

        Without a chosen importance, the settings of all scores are included.
        """
        chosen = self.choices(given or {})
        score = chosen.get("importance")
        if callable(score) and not (inspect.isclass(score) or isinstance(score, Value)):
            chosen["importance"] = Importance  # a function has its settings
        classes = [self.value, *(part for part in chosen.values() if inspect.isclass(part) and issubclass(part, Value))]
        if self.takes.importance and "importance" not in (given or {}):
            classes += IMPORTANCE.values()
        own = {name: entry for cls in classes for name, entry in settings_of(cls).items()}
        own = {name: entry for name, entry in own.items() if name not in self.fixed}
        choices = [PRESET, self._choice("grouping")] if self.parts else []
        return {**{entry.name: entry for entry in choices}, **own}

    def entries(self, given: Mapping[str, Any] | None = None) -> dict[str, Setting]:
        """Every keyword: choices, then settings as in `settings`, then those of the task and the runtime."""
        beside = {entry.name: entry for entry in BESIDE} | settings_of(Task) | settings_of(Runtime)
        return {
            **{name: self._choice(name) for name in self._tables},
            **self.settings(given),
            **{name: entry for name, entry in beside.items() if getattr(self.takes, name, True)},
        }

    def keywords(self, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Every keyword with its default; without a chosen importance, as if it were uniform."""
        entries = self.entries({"importance": UNIFORM, **(given or {})})
        return {name: entry.default for name, entry in entries.items()}

    def stored_options(self, options: Mapping[str, Any], importance: str | None = None) -> dict[str, Any]:
        """Settings as a record keeps them: in one form and order, and without those that are as by default.

        With a preset, which has its own defaults, all are kept. Names and values that `algorithm` refuses stay as they are.
        """
        stored = dict(options)
        with contextlib.suppress(ValueError):
            for name, table in self._tables.items():
                if name in stored:
                    stored[name] = known_name(table, stored[name], name)
            settings = self.settings({**stored, **({"importance": importance} if importance else {})})
            stored = {name: stored[name] for name in (*settings, *stored) if name in stored}
            known = {name: entry for name, entry in settings.items() if name in stored}
            stored |= {
                name: entry.normalised(stored[name]) for name, entry in known.items() if entry.takes(stored[name])
            }
            if stored.get("preset", PRESET.default) == PRESET.default:
                # A grouping that is the method's own stays, as in the keys of version 0.2.0.
                usual = {name: entry.default for name, entry in known.items() if name != "grouping"}
                stored = {name: value for name, value in stored.items() if name not in usual or value != usual[name]}
        return stored

    def prepare(self, models: Sequence[nn.Module], data: object = None, **keywords: object) -> tuple[Algorithm, Task]:
        """Make the value and the task from flat keywords.

        Raises:
            ValueError: the method does not have a keyword or does not accept its contents, or needs data.
        """
        self.check_keywords(keywords)
        if data is None and self.takes.uses_data:
            raise ValueError(
                f"{self.name} fuses on data. Pass a tensor, (inputs, labels), a DataLoader or a Dataset after the networks."
            )
        given = {**self._preset(keywords), **keywords}
        runtime = Runtime(**{name: given[name] for name in settings_of(Runtime) if given.get(name) is not None})
        facts = {name: given[name] for name in ("samples", "logits", "seed", *settings_of(Task)) if name in given}
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
        self.check_keywords(keywords)
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
        parameters += [
            inspect.Parameter(
                name, only, default=entry.default, annotation=Any if name in self._tables else entry.annotation
            )
            for name, entry in self.entries().items()
        ]
        return inspect.Signature(parameters, return_annotation=FusionResult)

    def __repr__(self) -> str:
        return f"METHODS[{self.name!r}]"

    def help(self) -> str:
        """Text for printing: what it does, its publication, and each keyword with accepted values."""
        lines = []
        for name, entry in self.entries().items():
            takes = f"{entry.description}. " if entry.is_plain else ""
            lines.append(f"    {name} = {entry.default!r}: {takes}{entry.help[0].upper()}{entry.help[1:]}.")
        about = inspect.getdoc(self.value) or ""
        fixed = ", ".join(f"{name}={value!r}" for name, value in self.fixed.items() if name not in self.parts)
        of = f"{self.value.__name__}{f' with {fixed}' if fixed else ''}: {about}"
        data = "data, " if self.takes.uses_data else ""
        call = f'METHODS["{self.name}"](models, {data}keyword=...)'
        return "\n".join([self.description, "", call, "", of, "", "Keywords:", *lines])

    @cached_property
    def _tables(self) -> dict[str, Mapping[str, type[Any]]]:
        """The tables of names of the parts and the importance."""
        return {**self.parts, **({"importance": IMPORTANCE} if self.takes.importance else {})}

    def _choice(self, name: str) -> Setting:
        """A part or the importance as a setting: the names in its table."""
        default, words = self.fixed.get(name, UNIFORM), tuple(self._tables[name])
        return Setting(name, default, (), words, "in Python also a value, or a function of your own")

    def owners(self, setting: str) -> list[str]:
        """The choices of parts and importance that have a setting, such as `fit='gradient'`."""
        return [
            f"{part}={name!r}"
            for part, table in self._tables.items()
            for name, cls in table.items()
            if setting in settings_of(cls)
        ]

    def check_keywords(self, keywords: Mapping[str, Any]) -> None:
        """Refuse keywords that the method does not have with the parts and importance chosen among them.

        Raises:
            ValueError: names those who have it.
        """
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
            if others := methods_with(keyword):
                raise ValueError(
                    f"{self.name} has no setting {keyword!r}. Leave it out; it is a setting of {', '.join(others)}."
                )
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
        importance, data = self.choices(given).get("importance", Uniform), given.get("importance_data")
        if isinstance(importance, Importance):
            return importance if data is None else importance.on(data)
        options = _options(importance if inspect.isclass(importance) else Importance, given)
        return as_importance(importance, data=data, **options)

    def _value(self, given: Mapping[str, Any]) -> Any:
        chosen = self.choices(given)
        parts = {
            name: as_value(table, chosen[name], name, **_options(chosen[name], given))
            for name, table in self.parts.items()
        }
        fields = {entry.name for entry in dataclasses.fields(self.value)} - parts.keys()
        return self.value(**parts, **{name: told for name, told in {**self.fixed, **given}.items() if name in fields})


class Methods(dict[str, Method]):
    """The table, for names in any spelling; the error for an unknown one suggests the nearest."""

    def __missing__(self, name: str) -> Method:
        return self[known_name(self, name, "method")]


#: Classes of values that are not baselines.
FUSIONS: dict[str, type[Algorithm]] = {value.__name__: value for value in (Retrofit, Auto)}
METHODS = Methods(
    {
        name: Method(**{**vars(line), "value": FUSIONS.get(line.value) or getattr(baselines, line.value)})
        for name, line in CATALOGUE.items()
    }
)
#: The paper's four methods and our extensions, which fuse level by level, as controls do. The others are baselines.
RETROFITTING = tuple(name for name, method in METHODS.items() if method.kind == RETROFIT)
BEYOND = tuple(name for name, method in METHODS.items() if method.kind == OURS)


def methods_with(keyword: str) -> list[str]:
    """Names of the methods that have a keyword with their own parts and any score."""
    return [name for name, method in METHODS.items() if keyword in method.entries()]


def all_settings() -> dict[str, Setting]:
    """The settings of all methods with all parts and scores, by name; of two with one name, the first."""
    found: dict[str, Setting] = {}
    for method in METHODS.values():
        for grouping in method.parts.get("grouping", [None]):
            found = {**method.settings({"grouping": grouping} if grouping else {}), **found}
    return found
