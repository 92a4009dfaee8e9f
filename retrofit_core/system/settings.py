"""Values: frozen objects that describe a fusion; each field declares its documentation, range and checks.

    @dataclass(frozen=True)
    class KMeans(Value):
        restarts: int = setting(10, "k-means++ starts; the lowest cost wins", Range(0, whole=True))

Python, command line, forms and records read these fields; none keeps a separate list.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import inf
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

PLAIN = (bool, int, float, str, NoneType)
KIND_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a word",
    NoneType: "none",
    tuple: "names separated by commas",
}


@dataclass(frozen=True)
class Range:
    """An interval of numbers, closed unless an end is excluded."""

    low: float
    high: float = inf
    whole: bool = False
    without_low: bool = False
    without_high: bool = False

    def holds(self, value: object) -> bool:
        """Whether a value of any type is in the interval; False for booleans, NaN and infinity."""
        if isinstance(value, bool) or not isinstance(value, Integral if self.whole else Real):
            return False
        number: Any = value  # only compared
        above = self.low < number if self.without_low else self.low <= number
        below = number < self.high if self.without_high or self.high == inf else number <= self.high
        return bool(above and below)

    def __str__(self) -> str:
        low = f"{'above' if self.without_low else 'from'} {self.low}"
        high = "" if self.high == inf else f" {'and below' if self.without_high else 'to'} {self.high}"
        return f"{'a whole number' if self.whole else 'a number'} {low}{high}"


#: torch.Generator accepts more, but not every seed derived from one; numpy accepts no negative ones.
SEED = Range(0, 2**63 - 1, whole=True)
FRACTION = Range(0, 1)
COUNT = Range(0, whole=True)
AT_LEAST_ONE = Range(1, whole=True)


@dataclass(frozen=True)
class Setting:
    """One field of a value, described for everything that shows, stores or explains it."""

    name: str
    default: Any
    kinds: tuple[type, ...]
    """Some of bool, int, float, str, NoneType, tuple (of words); empty for fields that only Python can fill"""
    words: tuple[str, ...]
    """Allowed words; empty if any word is allowed, or none"""
    help: str
    range: Range | None = None
    """Allowed numbers"""
    check: Callable[[Any], str] | None = None
    """value -> what is allowed, in words; "" for a valid value. For what kinds, words and range cannot express"""
    read: Callable[[str], Any] | None = None
    """text -> value, for values that are not words"""
    title: str = ""
    """Label in forms, if the name alone would not be understood"""

    @property
    def is_plain(self) -> bool:
        """Whether it can be written as text, in a command line or form."""
        return bool(self.kinds or self.words)

    def takes(self, value: object) -> bool:
        """Whether a value has an allowed kind and is in range; integers count as numbers, booleans do not."""
        if self.check is not None:
            return not self.check(value) and (bool in self.kinds or not isinstance(value, bool))
        if not self.is_plain:
            return True
        if isinstance(value, str) and str not in self.kinds:  # one name means a list of one
            return value in self.words or (tuple in self.kinds and bool(value))
        if isinstance(value, (tuple, list)):
            return tuple in self.kinds and all(isinstance(word, str) for word in value)
        if value is None or isinstance(value, (bool, str)):
            return type(value) in self.kinds
        if isinstance(value, Integral):
            return bool({int, float} & set(self.kinds)) and (self.range is None or self.range.holds(value))
        return isinstance(value, Real) and float in self.kinds and (self.range is None or self.range.holds(value))

    def normalised(self, value: object) -> Any:
        """Convert a valid value to its stored form: text that `read` reads, numpy numbers to Python's, integers to float if
        only floats are allowed, lists to tuples, one name to a list of one."""
        if isinstance(value, str) and self.read is not None:
            return self.read(value)
        if isinstance(value, str) and tuple in self.kinds and str not in self.kinds:
            return (value,)
        if isinstance(value, list):
            return tuple(value)
        if isinstance(value, bool) or not isinstance(value, Real):
            return value
        is_float = not isinstance(value, Integral) or (
            float in self.kinds and int not in self.kinds and str not in self.kinds
        )
        number: Any = value
        return float(number) if is_float else int(number)

    @property
    def annotation(self) -> Any:
        """The allowed values as a type."""
        words = (Literal[self.words],) if self.words else ()
        kinds = [tuple[str, ...] if kind is tuple else kind for kind in self.kinds]
        return Union[(*words, *kinds)] if words or kinds else Any  # noqa: UP007 - of a tuple

    @property
    def description(self) -> str:
        """The allowed values in words."""
        if self.check is not None:
            return self.check(object())
        numbers = {int, float} if self.range else set()
        kinds = [KIND_NAMES[kind] for kind in self.kinds if kind not in numbers]
        return ", ".join([*([str(self.range)] if self.range else []), *self.words, *kinds])


def setting(
    default: object,
    help: str,
    range: Range | None = None,
    *,
    check: Callable[[Any], str] | None = None,
    read: Callable[[str], Any] | None = None,
    title: str = "",
    **options: object,
) -> Any:
    """A field of a value: default, help text, and allowed numbers or contents.

    Args:
        check, read, title: see `Setting`.
        options: for `dataclasses.field`.
    """
    facts = {"help": help, "range": range, "check": check, "read": read, "title": title}
    return dataclasses.field(default=default, metadata=facts, **options)  # type: ignore[call-overload]


def same_as(value: type, name: str) -> Any:
    """A field with the default, help and range of another class's field."""
    entry = value.__dataclass_fields__[name]
    return dataclasses.field(default=entry.default, metadata=entry.metadata)


@dataclass(frozen=True)
class Value:
    """Base of everything that describes a fusion: a frozen dataclass that validates its fields on construction."""

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            ValueError: names the field, its value and what is allowed.
        """
        for name, entry in settings_of(type(self)).items():
            value = getattr(self, name)
            check_setting(entry, value)
            object.__setattr__(self, name, entry.normalised(value))

    def to_json(self) -> dict[str, Any]:
        """All plain fields with their values."""
        return {name: getattr(self, name) for name, entry in settings_of(type(self)).items() if entry.is_plain}


@cache
def settings_of(value: type) -> dict[str, Setting]:
    """The settings of a dataclass, usually a `Value`, in field order.

    Raises:
        TypeError: a class with settings that is not a dataclass, whose options would be ignored silently.
    """
    # In a dataclass, defaults have replaced the fields.
    if any(isinstance(entry, dataclasses.Field) for entry in vars(value).values()):
        raise TypeError(
            f"{value.__name__} has settings but is no dataclass. Write @dataclass(frozen=True) above the class."
        )
    hints = get_type_hints(value)
    settings = {}
    for entry in dataclasses.fields(value):
        if "help" not in entry.metadata:  # a field with other values or data
            continue
        kinds, words = _kinds(hints[entry.name])
        facts = dict(entry.metadata)
        if (numbers := facts["range"]) is not None and int in kinds and float not in kinds:
            facts["range"] = dataclasses.replace(numbers, whole=True)
        settings[entry.name] = Setting(entry.name, entry.default, kinds, words, **facts)
    return settings


def check_setting(setting: Setting, value: object) -> None:
    """Validate a value that is not a field of an object.

    Raises:
        ValueError: as in `Value`.
    """
    if not setting.takes(value):
        raise ValueError(f"{setting.name} is {value!r}. Use {setting.description}.")


SEED_SETTING = Setting("seed", 0, (int,), (), "the same seed gives the same numbers", SEED)

SAMPLES_SETTING = Setting(
    "samples",
    None,
    (int, NoneType),
    (),
    "maximum number of fusion samples, taken from the start; a loader is read no further",
    AT_LEAST_ONE,
)


def _kinds(hint: object) -> tuple[tuple[type, ...], tuple[str, ...]]:
    """The plain types and words of an annotation; empty if it allows anything else."""
    parts = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    words = tuple(word for part in parts if get_origin(part) is Literal for word in get_args(part))
    kinds = tuple(tuple if part == tuple[str, ...] else part for part in parts if get_origin(part) is not Literal)
    return (kinds, words) if set(kinds) <= {*PLAIN, tuple} else ((), ())  # type: ignore[return-value]
