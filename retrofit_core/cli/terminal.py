"""Shared by all commands: the application, error handling, common options, tables, numbers.

Nothing that is imported with the commands imports torch, which takes seconds: a command imports what it works with when it
works, and `{names}` in a help text are filled in from `words` when the help is asked for.
"""

import inspect
import json
import os
import shlex
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from typer.core import TyperCommand
from typer.models import ArgumentInfo

from ..networks import user_code
from ..system.files import write
from ..system.monitor import Cancelled
from ..system.notices import Notice
from ..system.texts import option_words

TRAINING = "training.json"  # says in a folder how its missing parents are trained; `training.parents` writes it
INTERRUPTED = 130  # what shells report for Ctrl-C
out, err = Console(), Console(stderr=True)
app = typer.Typer(
    name="retrofit",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Fuse trained neural networks into one by retrofitting, level by level, with a few hundred samples.",
    epilog="Start with `retrofit train --out parents` (two digits networks that know five classes each), then "
    "`retrofit fuse parents/*.safetensors --splits parents/splits.json --out fused.safetensors --evaluate`.",
)


def _words() -> dict[str, str]:
    """What the names in help texts stand for. They are kept in the user's cache, for finding them imports torch, which takes
    seconds; where a file of the core has changed, they are found again."""
    core = Path(__file__).parents[1]
    stats = [(path.relative_to(core).as_posix(), path.stat()) for path in sorted(core.rglob("*.py"))]
    state = [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "retrofit-workbench"
    kept = cache / f"help-{sha256(str(core).encode()).hexdigest()[:12]}.json"
    with suppress(OSError, ValueError, TypeError, KeyError):
        content = json.loads(kept.read_text(encoding="utf-8"))
        if content["state"] == state:
            return content["words"]
    from .words import words

    made = dict(words())
    with suppress(OSError):  # a folder that cannot be written: found again the next time
        cache.mkdir(parents=True, exist_ok=True)
        write(kept, json.dumps({"state": state, "words": made}))
    return made


class Explained(TyperCommand):
    """A command whose help names what tables and values say of themselves."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Fill in the names, then print the help."""
        known = _words()
        for parameter in self.params:
            if text := getattr(parameter, "help", None):
                parameter.help = text.format_map(known)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


def command(name: str, *options: inspect.Parameter) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command that prints errors as one sentence on standard error, and no traceback when interrupted.

    Args:
        options: further parameters, see `fields.options_of`; the function reads them from its context.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        written = inspect.signature(function, eval_str=True).parameters
        generated = {option.name: option for option in options if option.name not in written}

        @wraps(function)
        def guarded(**values: Any) -> None:
            try:
                with _notices_printed():
                    function(**{name: value for name, value in values.items() if name not in generated})
            except ValueError as error:
                err.print("Error:", error, soft_wrap=True, highlight=False, markup=False)
                raise typer.Exit(2) from None
            except (KeyboardInterrupt, Cancelled):
                err.print("Interrupted. Nothing half-written was left.")
                raise typer.Exit(INTERRUPTED) from None

        keyword = inspect.Parameter.KEYWORD_ONLY
        arguments = [entry for entry in written.values() if _is_argument(entry)]
        others = [entry for entry in written.values() if not _is_argument(entry)]
        parameters = [entry.replace(kind=keyword) for entry in (*arguments, *generated.values(), *others)]
        guarded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return app.command(name, cls=Explained)(guarded)

    return register


def _is_argument(parameter: inspect.Parameter) -> bool:
    """Whether a parameter is the context or has no flag; the help lists options behind these."""
    told = getattr(parameter.annotation, "__metadata__", ())
    return parameter.annotation is typer.Context or any(isinstance(facts, ArgumentInfo) for facts in told)


@contextmanager
def _notices_printed() -> Iterator[None]:
    """Print each `Notice` once, as a sentence on standard error; other warnings as usual."""
    said: set[str] = set()
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Any, category: Any, *rest: Any, **options: Any) -> None:
            if not issubclass(category, Notice):
                usual(message, category, *rest, **options)
            elif str(message) not in said:
                said.add(str(message))
                err.print("Note:", message, soft_wrap=True, highlight=False, markup=False)

        warnings.simplefilter("always", Notice)
        warnings.showwarning = show
        yield


@contextmanager
def advised(advice: str) -> Iterator[None]:
    """If the work inside is interrupted, print how to go on."""
    try:
        yield
    except (KeyboardInterrupt, Cancelled):
        err.print("Interrupted. Nothing half-written was left.", advice, highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None


Checkpoints = Annotated[
    list[Path], typer.Argument(help="Checkpoints (safetensors, .pt with tensors only, or a folder of shards).")
]
Parents = Annotated[list[Path] | None, typer.Argument(help="Parents; the first one gives the architecture.")]
Logits = Annotated[
    str | None,
    typer.Option(
        help="Of networks that return a dict, a tuple or an object: which entry is the logits. Default: the one of that name, "
        "or the only tensor."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def networks_table(networks: dict[str, dict[str, Any]]) -> Table:
    table = new_table("network", "accuracy %", "loss", "calibration error")
    for name, value in networks.items():
        table.add_row(name, f"{value['accuracy']:.2f}", f"{value['loss']:.3f}", f"{value['calibration_error']:.3f}")
    return table


def new_table(*columns: str, title: str = "", figures: bool = False) -> Table:
    """Fits 80 columns; the first column is never cut. With `figures` it is wrapped instead, and no other one is cut."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, no_wrap=(index == 0) != figures)
    return table


def print_json(content: dict[str, Any]) -> None:
    print(json.dumps(content, indent=1, default=str))


def shell(*words: object) -> str:
    """Words as a line for a shell, quoted where that is needed."""
    return shlex.join(map(str, words))


def pixel_words(config: Any) -> list[str]:
    """The options of a `RunConfig` or `TrainConfig` that say how images are read, for a line that goes on with them."""
    return option_words(config, without=vars(config).keys() - {"mean", "std", "size"})


def arch_words(archs: Sequence[str | None]) -> list[str]:
    """The option that allows a user's own code again, for a line that goes on with these architectures."""
    names = dict.fromkeys(name for arch in archs for name in user_code.names_in(arch))
    return ["--arch", ",".join(names)] if names else []


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


def check_alone_with_record(context: typer.Context, of_record: Sequence[str]) -> None:
    """Refuse parameters of a command that the record says already, if they were given.

    Args:
        of_record: their names.
    """
    given = [name for name in of_record if _is_given(context, name)]
    if given:
        positional = {"models": "the checkpoints", "model": "the checkpoint"}
        flags = [positional.get(name, f"--{name}") for name in given]
        raise ValueError(f"--record has networks and data of its own: leave {', '.join(flags)} out.")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def check_checkpoints(paths: Sequence[Path | str]) -> None:
    """Refuse checkpoints that are not there, before anything that takes seconds is imported.

    Those that a training.json in their folder can bring back are left to the run.
    """
    for path in map(Path, paths):
        if not path.exists() and not (path.parent / TRAINING).exists():
            raise ValueError(f"there is no checkpoint at {path}.")


def check_output(out_file: Path | None, record: Path | None) -> None:
    """Refuse outputs that could not be written, before minutes of work."""
    if out_file is None and record is None:
        raise ValueError("say where the fused network goes: --out FILE.safetensors, or --record FOLDER.")
    if out_file is not None:
        if out_file.suffix != ".safetensors":
            raise ValueError(
                f"--out {out_file}: checkpoints are written as safetensors, so end the name in .safetensors."
            )
        parent = out_file.absolute().parent
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise ValueError(f"--out {out_file}: the folder {parent} does not exist or cannot be written to.")
    if record is not None:
        check_folder(record, "--record")


def check_folder(folder: Path, flag: str) -> None:
    """Refuse a folder that cannot be made or written to, before minutes of work."""
    existing = folder.absolute()
    while not existing.exists() and not existing.is_symlink():  # up to the first parent folder that exists
        existing = existing.parent
    if not existing.is_dir():
        raise ValueError(f"{flag} {folder}: {existing} is not a folder. Name a new folder, or one that is there.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(f"{flag} {folder}: the folder {existing} cannot be written to. Name another one.")
