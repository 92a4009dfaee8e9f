"""Options that commands which fuse share, and the config that they make."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .terminal import floats, number, size_in_bytes, with_logits

if TYPE_CHECKING:
    from ..runs import RunConfig

Parents = Annotated[list[Path] | None, typer.Argument(help="Parents; the first one gives the architecture.")]
ImportanceData = Annotated[
    str | None,
    typer.Option(
        help="own: each parent's training rows (needs --splits); fusion: the fusion samples. Default: own where "
        "there are splits."
    ),
]
FusionFrom = Annotated[
    str | None,
    typer.Option(
        help="parent0: parent 0's training rows (the paper; needs --splits); iid: all rows. Default: parent0, so without "
        "--splits say iid."
    ),
]
Splits = Annotated[Path | None, typer.Option(help="JSON file that tells which rows each parent was trained on.")]
Samples = Annotated[int, typer.Option(min=1, help="Fusion samples, balanced over the classes.")]
ImportanceSamples = Annotated[int, typer.Option(min=1, help="Samples per parent for the importance.")]
Preset = Annotated[str, typer.Option(help="default, or paper: the paper's hyper-parameters.")]
Ridge = Annotated[str, typer.Option(help="{ridge}")]
Toward = Annotated[str, typer.Option(help="{toward}")]
Memory = Annotated[
    str | None,
    typer.Option(help="Memory for sums and kept tensors, e.g. 2GB; what does not fit is computed again. Default: 8GB."),
]
Base = Annotated[
    Path | None,
    typer.Option(help="Checkpoint of the parents' common ancestor, for methods that add to it what they learned."),
]
Target = Annotated[
    str | None, typer.Option(help="Fused architecture: a checkpoint, preset or JSON spec. Default: parent 0's.")
]


def _strength(text: str) -> str | float:
    return text if text == "auto" or text.endswith("x") else number(text, "--ridge")


#: How parameters become fields of a config, where they are not the same.
READ: Mapping[str, Callable[[Any], Any]] = {
    "models": lambda paths: tuple(map(str, paths)),
    "splits": str,
    "base": str,
    "ridge": _strength,
    "memory": size_in_bytes,
    "mean": floats,
    "std": floats,
}


def config_of(context: typer.Context, **chosen: Any) -> "RunConfig":
    """The config that a command's parameters make: those named like its fields, read where they are texts.

    Args:
        chosen: fields that are not, or not simply, the parameter of their name.
    """
    from ..runs import RunConfig

    fields = [field.name for field in dataclasses.fields(RunConfig)]
    given = {name: value for name, value in context.params.items() if name in fields and value is not None}
    read = {name: READ[name](value) if name in READ else value for name, value in given.items()}
    if "arch" in context.params:
        read["arch"] = with_logits(context.params["arch"], context.params.get("logits"))
    return RunConfig(**{**read, **chosen})
