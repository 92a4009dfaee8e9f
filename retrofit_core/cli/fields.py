"""Arguments and options of commands, made from the fields of the values that they fill."""

import dataclasses
import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from math import inf
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from ..runs.config import OptionFlags, RunConfig
from ..system.settings import Setting, setting, settings_of
from ..system.texts import changed, flag, read_options

T = TypeVar("T")
#: How checkpoints and images are read.
READING = ("data", "arch", "weights", "mean", "std", "size", "device")
#: A help text shows the ends of a range, but no end as large as that of all seeds.
LARGEST_END = 10**6


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shared:
    """Options of several commands."""

    logits: str | None = setting(
        None,
        "For networks that return a dict, a tuple or an object: which entry holds the logits. Default: the one of that name, "
        "or the only tensor.",
    )
    resume: bool = setting(False, "Go on where the same command was stopped.")
    json: bool = setting(False, "Print one JSON object and nothing else.")


def argument(default: Any, help: str) -> Any:
    """A field of a command's value that is given without a flag; MISSING as its default: it must be given.

    The class is a dataclass with `kw_only=True`: its other fields are options.
    """
    return setting(default, help, kw_only=False)


def parameters_of(value: type) -> list[inspect.Parameter]:
    """Parameters of a command for the fields of its own value."""
    arguments = {field.name for field in dataclasses.fields(value) if not field.kw_only}
    hints, settings = get_type_hints(value), settings_of(value)
    return [_parameter(entry, hints[name], name in arguments) for name, entry in settings.items()]


def options_of(value: type, *names: str, without: Sequence[str] = ()) -> list[inspect.Parameter]:
    """Options of a command for the settings of a dataclass, with their sentences, ranges and defaults.

    Args:
        names: of the fields; all of them where none is given.
        without: fields that are left out.
    """
    hints = get_type_hints(value)
    settings = {name: entry for name, entry in settings_of(value).items() if name not in without}
    return [_parameter(settings[name], hints[name]) for name in names or settings]


def _parameter(entry: Setting, hint: Any, is_argument: bool = False) -> inspect.Parameter:
    """One parameter; words are read later, so that a wrong one is refused in the sentence of whoever knows better."""
    kind = _type(entry, hint)
    flags = flag(entry.name) + (f"/--no-{entry.name}" if entry.default is True else "")
    words = sentence(entry.help)
    parameter = typer.Argument(help=words) if is_argument else typer.Option(flags, help=words, **_limits(entry))
    default = {(): None, MISSING: inspect.Parameter.empty}.get(entry.default, entry.default)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(entry.name, keyword, default=default, annotation=Annotated[kind, parameter])


def _type(entry: Setting, hint: Any) -> Any:
    """The type as which a command line reads a setting: words for what is read from them."""
    if entry.read is not None:
        kind = str
    elif get_origin(hint) is tuple:
        kind = list[get_args(hint)[0]]
    else:
        kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
        kind = kinds[0] if len(kinds) == 1 and isinstance(kinds[0], type) else str
    return kind | None if entry.default in (None, ()) else kind


def _limits(entry: Setting) -> dict[str, Any]:
    """The numbers that an option takes: shown by its help where they can be, else only checked."""
    numbers = entry.range
    if numbers is None or entry.read is not None:
        return {}
    if numbers.without_low or numbers.without_high or LARGEST_END < numbers.high < inf:
        return {"callback": _in_range(entry)}
    return {"min": numbers.low, "max": None if numbers.high == inf else numbers.high}


def _in_range(entry: Setting) -> Callable[[Any], Any]:
    def check(given: Any) -> Any:
        if given is not None and not entry.takes(given):
            raise typer.BadParameter(f"{given} is no {entry.name}. Use {entry.description}.")
        return given

    return check


def sentence(text: str) -> str:
    """A help text with a capital letter and a full stop, which those of values do not have."""
    return text if text.endswith((".", "}")) else f"{text[0].upper()}{text[1:]}."


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
        elif isinstance(given[name], list):
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


def with_logits(arch: str | None, logits: str | None) -> str | None:
    """An architecture as `--arch` and `--logits` say it together.

    Raises:
        ValueError: --logits for a network that returns one tensor, or that is not named.
    """
    if logits is None:
        return arch
    from ..networks.architectures import is_foreign, parse

    spec = {"architecture": arch}
    if arch is not None and arch.lstrip().startswith("{"):
        spec = parse(arch)
    if not is_foreign(spec["architecture"]):
        raise ValueError(
            "--logits says which output of a network of your own is meant: name that with --arch package.module:function. "
            "The networks of this library return one tensor."
        )
    return json.dumps({**spec, "logits": logits})
