"""Arguments and options of commands, made from dataclass fields."""

import dataclasses
import inspect
from collections.abc import Callable, Collection
from dataclasses import MISSING
from math import inf
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from ..runs.config import RunConfig
from ..system.settings import Setting, setting, settings_of
from ..system.texts import flag

T = TypeVar("T")
#: How to read checkpoints and images.
READING = ("data", "arch", "mean", "std", "size", "device")
#: Help texts show no upper end of a range above this one, such as that of seeds.
LARGEST_END = 10**6


@dataclasses.dataclass(frozen=True, kw_only=True)
class Overwrite:
    """An option of commands that write files."""

    overwrite: bool = setting(False, "Replace files of --out that exist.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Json:
    """An option of commands that print tables."""

    json: bool = setting(False, "Print one JSON object and nothing else.")


def argument(default: Any, help: str) -> Any:
    """A field that is a positional argument of the command, required if its default is MISSING.

    The class is a dataclass with `kw_only=True`, whose other fields are options.
    """
    return setting(default, help, kw_only=False)


def options_of(
    value: type, *names: str, without: Collection[str] = (), arguments: Collection[str] = ()
) -> list[inspect.Parameter]:
    """Parameters of a command for the settings of a dataclass, with their help, ranges and defaults.

    Args:
        names: fields; all if none is given.
        without: fields to leave out.
        arguments: fields that are positional arguments.
    """
    hints, settings = get_type_hints(value), settings_of(value)
    fields = [name for name in names or settings if name not in without]
    fields.sort(key=("overwrite", "json").__contains__)  # those of several commands come last
    return [_parameter(settings[name], hints[name], name in arguments) for name in fields]


def _parameter(entry: Setting, hint: Any, is_argument: bool = False) -> inspect.Parameter:
    """One parameter. Strings are parsed later, so that the error message is the setting's own."""
    kind = _type(entry, hint)
    flags = flag(entry.name) + (f"/--no-{entry.name}" if entry.default is True else "")
    words, numbers = sentence(entry.help), entry.range
    if numbers is not None and entry.read is None and not LARGEST_END < numbers.high < inf:
        words += f" ({numbers})"

    def checked(given: Any) -> Any:
        if given is not None and not entry.takes(given):
            raise typer.BadParameter(f"{entry.name} is {given!r}. Use {entry.description}.")
        return given

    check = checked if numbers is not None and entry.read is None else None
    parameter = typer.Argument(help=words) if is_argument else typer.Option(flags, help=words, callback=check)
    default = {(): None, MISSING: inspect.Parameter.empty}.get(entry.default, entry.default)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(entry.name, keyword, default=default, annotation=Annotated[kind, parameter])


def _type(entry: Setting, hint: Any) -> Any:
    """Type of a setting on the command line: str if it is parsed later."""
    if entry.read is not None:
        kind = str
    elif get_origin(hint) is tuple:
        kind = list[get_args(hint)[0]]
    else:
        kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
        kind = kinds[0] if len(kinds) == 1 and isinstance(kinds[0], type) else str
    return kind | None if entry.default in (None, ()) else kind


def sentence(text: str) -> str:
    """A setting's help text with a capital letter and a full stop."""
    return text if text.endswith(".") else f"{text[0].upper()}{text[1:]}."


def value_of(context: typer.Context, kind: Callable[..., T], **chosen: Any) -> T:
    """Make a value from the command's parameters of the same names; strings are parsed.

    Args:
        chosen: fields given directly, in place of the parameters of their names.
    """
    given = {name: value for name, value in context.params.items() if value is not None and name not in chosen}
    settings = {name: entry for name, entry in settings_of(kind).items() if name in given}  # type: ignore[arg-type]
    for name, entry in settings.items():
        if entry.read is not None and isinstance(given[name], str):
            given[name] = entry.read(given[name])
        elif isinstance(given[name], list):
            given[name] = tuple(given[name])
    return kind(**{**{name: given[name] for name in settings}, **chosen})


def config_of(context: typer.Context, **chosen: Any) -> RunConfig:
    """Make a config from the command's parameters, unchecked.

    Args:
        chosen: see `value_of`.
    """
    chosen = {"models": tuple(map(str, context.params.get("models") or ())), **chosen}
    return value_of(context, RunConfig, **chosen)
