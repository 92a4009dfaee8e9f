"""The application: registers commands and prints errors and interruptions as sentences.

Importing torch takes seconds, so no command module imports it: commands import what they need when they run.
"""

import dataclasses
import errno
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from importlib.metadata import version
from itertools import pairwise
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

from ..networks import user_code
from ..system.monitor import Cancelled
from ..system.refusals import Notice
from ..system.registry import known_name
from ..system.texts import flag, read_value
from .fields import options_of, value_of
from .terminal import err, out, say

T = TypeVar("T", bound=Callable[..., None])
INTERRUPTED = 130  # shells' code for Ctrl-C
#: Errors of a disk that takes no more.
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
app = typer.Typer(
    name="retrofit",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Fuse trained neural networks into one by retrofitting, level by level, with a few hundred samples.",
    epilog="Start with `retrofit train --out parents` (two networks, each trained on five of the ten digits), then "
    "`retrofit fuse parents/*.safetensors --splits parents/splits.json --out fused.safetensors --evaluate`.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        out.print(version("retrofit-workbench"))
        raise typer.Exit


@app.callback()
def _application(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def command(name: str, *options: inspect.Parameter, kind: type[TyperCommand] = TyperCommand) -> Callable[[T], T]:
    """Register a function of `request`, a value whose fields are the command's own arguments and options.

    Errors are printed as one sentence on standard error; an interruption prints no traceback.

    Args:
        options: further options (see `fields.options_of`), which the function reads from `context`.
    """

    def register(function: T) -> T:
        hints = get_type_hints(function)
        value = hints["request"]
        positional = {field.name for field in dataclasses.fields(value) if not field.kw_only}
        parameters = options_of(value, arguments=positional)
        overridden = {parameter.name for parameter in parameters}

        @wraps(function)
        def guarded(context: typer.Context, **_: Any) -> None:
            try:
                with _notices_printed():
                    _allow_typed(context)
                    beside = {"context": context} if "context" in hints else {}
                    function(request=value_of(context, value), **beside)
            except ValueError as error:
                say("Error:", error, to=err)
                raise typer.Exit(2) from None
            except OSError as error:
                if error.errno not in FULL:
                    raise
                place = f" ({str(error.filename)[:100]})" if error.filename else ""
                said = f"Error: could not write{place}: {error.strerror}. Make room, or write to another disk."
                say(said, *getattr(error, "__notes__", ()), to=err)
                raise typer.Exit(2) from None
            except (KeyboardInterrupt, Cancelled) as stopped:
                say("Interrupted. No incomplete files were left behind.", *getattr(stopped, "__notes__", ()), to=err)
                raise typer.Exit(INTERRUPTED) from None

        first = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        inherited = [option for option in options if option.name not in overridden]
        guarded.__signature__ = inspect.Signature([first, *inherited, *parameters])  # type: ignore[attr-defined]
        app.command(name, cls=kind)(guarded)
        return function

    return register


def _allow_typed(context: typer.Context) -> None:
    """Allow the code that the command line names, and no other: records and checkpoints name others'. What the environment
    names comes first: a worker starts among a record's files."""
    user_code.allowed()
    for name in ("arch", "target"):
        value = context.params.get(name)
        for arch in [value] if isinstance(value, str) else value or ():
            user_code.allow(arch)


@contextmanager
def _notices_printed() -> Iterator[None]:
    """Print each `Notice` once, as a sentence on standard error; leave other warnings alone."""
    said: set[str] = set()
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Any, category: Any, *rest: Any, **options: Any) -> None:
            if not issubclass(category, Notice):
                usual(message, category, *rest, **options)
            elif str(message) not in said:
                said.add(str(message))
                say("Note:", message, to=err)

        warnings.simplefilter("always", Notice)
        warnings.showwarning = show
        yield


class OfMethods(TyperCommand):
    """A command that also takes the settings of methods, which it finds in `context.obj`.

    Reading them imports torch, which takes seconds, so that only a command line with such a setting does.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the settings of methods out of the words, then parse."""
        ctx.meta["words"] = args
        own = {"--help", "--", *(word for entry in self.params for word in (*entry.opts, *entry.secondary_opts))}
        ctx.obj, words = _settings_in(args, own)
        return super().parse_args(ctx, words)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Also list the options of the method that is named beside --help."""
        super().format_help(ctx, formatter)
        name = next((after for word, after in pairwise(ctx.meta["words"]) if word == "--method"), None)
        if name is not None:
            from ..methods import METHODS  # imports torch, which takes seconds

            try:
                method = METHODS[known_name(METHODS, name, "method")]
            except ValueError as error:
                raise typer.BadParameter(str(error)) from None
            out.print(method.help(), soft_wrap=True, markup=False)


def _settings_in(args: Iterable[str], own: set[str]) -> tuple[dict[str, Any], list[str]]:
    """Settings of methods, given as `--restarts 20`, `--repair` or `--no-repair`, and the other words.

    Args:
        own: the command's own options.
    """
    given: dict[str, Any] = {}
    others: list[str] = []
    words = iter(args)
    for word in words:
        option, sign, value = word.partition("=")
        if not option.startswith("--") or option in own:
            others.append(word)
        else:
            name, usual = _setting_of(option, own)
            if usual is None:
                value = value if sign else next(words, None)
                if value is None:
                    raise typer.BadParameter(f"Option {option} requires an argument.")
                given[name] = read_value(value)
            else:
                given[name] = usual
    return given, others


def _setting_of(option: str, own: set[str]) -> tuple[str, bool | None]:
    """The name of a setting, and its value if the option alone says it."""
    from ..methods import all_settings  # imports torch, which takes seconds

    options: dict[str, tuple[str, bool | None]] = {}
    for name, entry in all_settings().items():
        switch = entry.kinds == (bool,)
        options[flag(name)] = name, True if switch else None
        if switch:
            options[flag(f"no_{name}")] = name, False
    if option not in options:
        near = get_close_matches(option, [*own, *options], n=3, cutoff=0.8)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise typer.BadParameter(f"{option} is no option of this command or of a method.{hint}")
    return options[option]
