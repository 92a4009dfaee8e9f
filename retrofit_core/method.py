"""The record of a method: what it is, what it can be told, and how it is called with flat keywords."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .importance import IMPORTANCE, Importance, as_importance
from .presets import preset_settings
from .registry import find, known_name, made
from .results import FusionResult
from .runtime import Runtime
from .settings import SEED_SETTING, Setting, Value, settings_of
from .task import Takes, Task, carry_out

#: Keywords of every method that are no settings.
RUNTIME = ("device", "monitor", "journal")


@dataclass(frozen=True)
class Method:
    """One line of the table of methods. Calling it fuses; its settings are the fields of its value and of that one's parts."""

    name: str
    sentence: str
    """What it does"""
    source: str
    """Who published it"""
    value: type[Value]
    """The class of its value: an `Algorithm`"""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the value that the name fixes; a part by its name in its table"""
    version: int = 1
    """Raised when its numbers change, so that older records are known as such"""

    @property
    def takes(self) -> Takes:
        """What it can be given."""
        return self.value.takes  # type: ignore[attr-defined]

    @property
    def parts(self) -> dict[str, Mapping[str, type[Value]]]:
        """Fields that hold other values: field -> table of names."""
        return getattr(self.value, "parts", {})

    def part_classes(self, given: Mapping[str, Any]) -> list[type[Value]]:
        """The classes whose fields can be told: the value's, its parts' and the importance's, as far as they are decided.

        Args:
            given: keywords; those that name a part or the importance decide, where they are values, names or classes.
        Raises:
            ValueError: an unknown name.
        """
        classes = [self.value]
        chosen = {**self.fixed, **given}
        tables = {**self.parts, **({"importance": IMPORTANCE} if self.takes.importance else {})}
        for name, table in tables.items():
            part = chosen.get(name, "uniform" if name == "importance" else None)
            if isinstance(part, str):
                part = find(table, part, name)
            if inspect.isclass(part):
                classes.append(part)
            elif name == "importance" and callable(part) and not isinstance(part, Value):
                classes.append(Importance)
        return classes

    def settings(self, given: Mapping[str, Any] | None = None) -> dict[str, Setting]:
        """What it can be told in text, by name; the choices of parts and importance in `given` decide which.

        Without a choice of the importance the settings of all scores are listed.
        """
        classes = self.part_classes(given or {})
        if self.takes.importance and "importance" not in (given or {}):
            classes += IMPORTANCE.values()
        settings = {name: entry for cls in classes for name, entry in settings_of(cls).items()}
        return {name: entry for name, entry in settings.items() if name not in self.fixed and entry.is_plain}

    def keywords(self, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Every keyword that it takes, with its default."""
        takes = self.takes
        settings = {
            name: entry.default for name, entry in self.settings({"importance": "uniform", **(given or {})}).items()
        }
        plain = {entry.name: entry.default for entry in dataclasses.fields(self.value) if entry.name not in self.parts}
        offered = {
            "importance": ("uniform", takes.importance),
            "importance_data": (None, takes.importance or takes.parents_data),
            "target": (None, takes.target),
            "class_shares": (None, takes.class_shares),
            "sample_counts": (None, takes.sample_counts),
            "preset": ("default", bool(self.parts)),
            "memory": (settings_of(Runtime)["memory"].default, takes.memory),
            **{part: (self.fixed.get(part), True) for part in self.parts if part != "fit"},
        }
        named = {name: default for name, (default, taken) in offered.items() if taken}
        others = {name: default for name, default in plain.items() if name not in self.fixed and name not in settings}
        runtime: dict[str, Any] = {"device": "auto", "monitor": None, "journal": None}
        return {**settings, **named, **others, "seed": SEED_SETTING.default, **runtime}

    def prepare(self, models: Any, data: Any, **keywords: Any) -> tuple[Any, Task]:
        """The value and the task that flat keywords stand for.

        Raises:
            ValueError: a keyword that the method does not have, or contents that it does not take.
        """
        known = self.keywords(keywords)
        for keyword in keywords:
            if keyword not in known:
                known_name(known, keyword, f"keyword of {self.name}:")
        given = {**self._preset(keywords), **{k: v for k, v in keywords.items() if k != "preset"}}
        task = Task.of(models, data, **self._task(given))
        return self._value(given), task

    def plan(self, models: Any, data: Any, **keywords: Any) -> Any:
        """Check everything, and compute nothing; what it would cost stands in the plan.

        Raises:
            ValueError: as `prepare`, or what is asked cannot be done.
        """
        value, task = self.prepare(models, data, **keywords)
        return value.plan(task)

    def __call__(self, models: Any, data: Any, /, **keywords: Any) -> FusionResult:
        """Fuse; the parents are left as they are.

        Args:
            models: a list of networks; parent 0 gives the architecture unless there is a target.
            data: fusion data: a tensor, (inputs, labels), a DataLoader or a Dataset.
            keywords: see `keywords`.
        Raises:
            ValueError: from `plan`, before any work.
            Cancelled: the monitor asked for it.
        """
        return carry_out(*self.prepare(models, data, **keywords))

    def suited(self, wanted: Mapping[str, Any], others: Callable[[str], list[str]]) -> dict[str, Any]:
        """The wanted keywords that the method has, those at their defaults left out.

        Args:
            wanted: keyword -> (value, value at which it may be left out).
            others: keyword -> names of the methods that have it.
        Raises:
            ValueError: another value for a keyword that the method does not have.
        """
        known = self.keywords({name: value for name, (value, _) in wanted.items()})
        for keyword, (value, default) in wanted.items():
            if keyword not in known and value != default:
                raise ValueError(
                    f"{self.name} has no setting {keyword!r} ({value!r} is asked for). Leave it at {default!r}; it is a "
                    f"setting of {', '.join(others(keyword))}."
                )
        return {
            keyword: value
            for keyword, (value, default) in wanted.items()
            if keyword in known and value is not default and value != default
        }

    @property
    def __signature__(self) -> inspect.Signature:
        """Models, data, and every keyword with its default."""
        only, first = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_ONLY
        parameters = [inspect.Parameter(name, first) for name in ("models", "data")]
        settings = {**{name: entry.default for name, entry in self.settings().items()}, **self.keywords()}
        return inspect.Signature(
            parameters + [inspect.Parameter(name, only, default=default) for name, default in settings.items()]
        )

    def _preset(self, given: Mapping[str, Any]) -> dict[str, Any]:
        preset = given.get("preset", "default")
        if not self.parts or preset == "default":
            return {}
        grouping, fit = (given.get(part, self.fixed[part]) for part in ("grouping", "fit"))
        return preset_settings(preset, grouping, fit)

    def _task(self, given: Mapping[str, Any]) -> dict[str, Any]:
        runtime = {name: given[name] for name in (*RUNTIME, "memory") if given.get(name) is not None}
        names = ("target", "class_shares", "sample_counts", "seed")
        return {
            "importance": self._importance(given),
            "runtime": Runtime(**runtime),
            **{name: given[name] for name in names if name in given},
        }

    def _importance(self, given: Mapping[str, Any]) -> Importance:
        importance, data = given.get("importance", "uniform"), given.get("importance_data")
        if isinstance(importance, Importance):
            return importance
        if inspect.isclass(importance) or isinstance(importance, str):
            importance = find(IMPORTANCE, importance, "importance")
        fields = settings_of(importance if inspect.isclass(importance) else Importance)
        options = {name: value for name, value in given.items() if name in fields}
        return as_importance(importance, data=data, **options)

    def _value(self, given: Mapping[str, Any]) -> Any:
        parts = {}
        for part, table in self.parts.items():
            chosen = given.get(part, self.fixed[part])
            fields = settings_of(find(table, chosen, part)) if isinstance(chosen, str) else {}
            options = {name: value for name, value in given.items() if name in fields}
            parts[part] = made(table, chosen, part, **options)
        fields = [entry.name for entry in dataclasses.fields(self.value) if entry.name not in self.parts]
        own = {name: given[name] for name in fields if name in given}
        fixed = {name: value for name, value in self.fixed.items() if name not in self.parts}
        return self.value(**fixed, **own, **parts)


class Methods(dict[str, Method]):
    """The table; a name is found however it is written, and another one is refused with the nearest."""

    def __missing__(self, name: str) -> Method:
        return self[known_name(self, name, "method")]
