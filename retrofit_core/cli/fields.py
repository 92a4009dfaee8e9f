"""Options of commands made from the fields of the values that they fill."""

import inspect
from collections.abc import Callable, Sequence
from math import inf
from typing import Annotated, Any, TypeVar

import typer

from ..runs.config import OptionFlags, RunConfig
from ..system.settings import Setting, settings_of
from ..system.texts import changed, flag, read_options
from .terminal import with_logits

T = TypeVar("T")
#: How checkpoints and images are read.
READING = ("data", "arch", "weights", "mean", "std", "size", "device")


def options_of(value: type, *names: str, without: Sequence[str] = ()) -> list[inspect.Parameter]:
    """Parameters of a command for the settings of a dataclass, with their sentences, ranges and defaults.

    Args:
        names: of the fields; all of them where none is given.
        without: fields that are left out.
    """
    settings = {name: entry for name, entry in settings_of(value).items() if name not in without}
    return [_option(settings[name]) for name in names or settings]


def _option(entry: Setting) -> inspect.Parameter:
    """One parameter; words are read later, so that a wrong one is refused in the sentence of whoever knows better."""
    numbers = entry.range if entry.read is None else None
    has_end = numbers is not None and numbers.high < inf
    least = int(numbers.low) if numbers is not None and not has_end else None
    option = typer.Option(
        flag(entry.name),
        help=entry.help,
        min=least,
        callback=_in_range(entry) if has_end else None,
    )
    default = None if tuple in entry.kinds else entry.default
    kind = Annotated[_type(entry), option]
    return inspect.Parameter(entry.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _type(entry: Setting) -> Any:
    """The type as which a command line reads a setting."""
    if tuple in entry.kinds:
        return list[str] | None
    plain = [kind for kind in entry.kinds if kind is not type(None)]
    kind = plain[0] if len(plain) == 1 and entry.read is None else str
    return kind | None if entry.default is None else kind


def _in_range(entry: Setting) -> Callable[[Any], Any]:
    def check(given: Any) -> Any:
        if given is not None and not entry.takes(given):
            raise typer.BadParameter(f"{given} is no {entry.name}. Use {entry.description}.")
        return given

    return check


def value_of(context: typer.Context, kind: Callable[..., T], **chosen: Any) -> T:
    """The value that a command's parameters make: those named like its settings, read where they are words.

    Args:
        chosen: fields that are not, or not simply, the parameter of their name.
    """
    given = {name: value for name, value in context.params.items() if value is not None and name not in chosen}
    settings = {name: entry for name, entry in settings_of(kind).items() if name in given}  # type: ignore[arg-type]
    for name, entry in settings.items():
        if entry.read is not None and isinstance(given[name], str):
            given[name] = entry.read(given[name])
        elif tuple in entry.kinds:
            given[name] = tuple(given[name])
    return kind(**{**{name: given[name] for name in settings}, **chosen})


def config_of(context: typer.Context, **chosen: Any) -> RunConfig:
    """The config that a command's parameters make; its method is told what flags and --option say, unchecked.

    Args:
        chosen: see `value_of`.
    """
    arch = with_logits(context.params.get("arch"), context.params.get("logits"))
    options = {**changed(value_of(context, OptionFlags)), **read_options(context.params.get("option") or [])}
    chosen = {"models": tuple(map(str, context.params.get("models") or ())), "options": options or None, **chosen}
    return value_of(context, RunConfig, arch=arch, **chosen)
