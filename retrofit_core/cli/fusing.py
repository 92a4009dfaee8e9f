"""retrofit fuse"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from ..catalogue import CATALOGUE
from ..runs.config import RunConfig, choice_of
from ..system.registry import known_name
from ..system.settings import setting
from .application import OfMethods, command
from .checks import check_alone, check_checkpoints, check_output, check_replaced, read_by
from .fields import Json, Overwrite, argument, config_of, options_of
from .terminal import (
    networks_table,
    new_table,
    out,
    print_json,
    progress,
    say_normalisation,
)

if TYPE_CHECKING:
    from ..fusion.results import LevelReport

#: Parameters allowed with --record and without checkpoints.
BESIDE_RECORD = ("record", "out", "overwrite", "json", "analyse")


@dataclass(frozen=True, kw_only=True)
class FuseRequest(Json, Overwrite):
    """Parameters of `retrofit fuse`, besides the run's config."""

    models: tuple[Path, ...] = argument((), "Checkpoints of the parents. The first determines the architecture.")
    out: Path | None = setting(None, "File for the fused checkpoint (.safetensors).")
    record: Path | None = setting(
        None,
        "Also write a run record to this folder, for the workbench. Without checkpoints: run what the record there says; if it "
        "is finished, --analyse adds the analysis of its levels.",
    )


@command("fuse", *options_of(RunConfig), kind=OfMethods)
def fuse_command(context: typer.Context, request: FuseRequest) -> None:
    """Fuse parents into one network. With `--method NAME`, this help also lists the method's own options.

    Example: `retrofit fuse a.safetensors b.safetensors --data cifar10 --splits splits.json --method kf-linear
    --importance conductance --samples 400 --out fused.safetensors`
    """
    folder, again = request.record, None if request.models else request.record
    if again is not None:
        check_alone(context, "without checkpoints, --record says all settings", beside=BESIDE_RECORD)
        if context.params["analyse"] and request.out is None:
            return _analyse(again, request.json)
    elif not request.models:
        raise ValueError("name at least one checkpoint, or the folder of a run with --record.")
    else:
        known_name(CATALOGUE, context.params["method"], "method")
    check_output(request.out, folder)
    read = [*read_by(context.params), *filter(None, [again])]
    check_replaced([request.out], overwrite=request.overwrite, read=read)
    check_checkpoints(request.models)
    from ..networks.checkpoints import save_model
    from ..runs import checkpoint_metadata, execute, read_config
    from ..runs.comparison import title
    from ..runs.inputs import read_images

    config = config_of(context, options=context.obj) if again is None else read_config(again)
    check_replaced([request.out], overwrite=request.overwrite, read=read_by(vars(config)))
    with progress(request.json) as monitor:
        result, metrics = execute(config, folder, monitor)
    if request.out is not None:
        save_model(result.model, request.out, **checkpoint_metadata(config, read_images(config, "train")))
    networks = metrics.get("networks", {})
    if request.json:
        return print_json(
            {
                "out": str(request.out) if request.out else None,
                "record": str(folder) if folder else None,
                "seconds": result.seconds,
                "config": config.to_json(),
                "levels": json.loads(result.to_frame().to_json(orient="records") or "[]"),
                "note": result.note,
                "importance": result.importance,
                "networks": networks,
                **({"accuracy": networks["fused"]["accuracy"]} if networks else {}),
            }
        )
    if result.levels:
        out.print(_levels_table(result.levels, title(config)))
    if result.note:
        out.print(result.note, soft_wrap=True)
    if networks:
        say_normalisation(config, config.models, read_images(config, "train"))
        out.print(networks_table(networks))
    where = f", written to {request.out}" if request.out else ""
    out.print(f"{made_words(result.config, len(config.models))} in {result.seconds:.1f} s{where}.")
    return None


def made_words(decided: Mapping[str, Any], parents: int) -> str:
    """What was done, from a result's `config`: Auto keeps a parent that no fusion beats."""
    name = choice_of(decided)
    return f"Kept {name}" if name.startswith("parent ") else f"Fused {parents} parents"


def _analyse(record: Path, quiet: bool) -> None:
    """Add the analysis of its levels to a finished record."""
    from ..runs import analyse_record

    with progress(quiet) as monitor:
        analysis = analyse_record(record, monitor)
    if quiet:
        facts = {name: getattr(analysis, name) for name in ("accuracy", "samples", "missing", "seconds")}
        return print_json({"levels": [level.name for level in analysis.levels], **facts})
    out.print(f"The analysis of {len(analysis.levels)} levels is in {record}; `retrofit app` draws it.", soft_wrap=True)
    for what, why in analysis.missing.items():
        out.print(f"No {what}: {why}", soft_wrap=True)
    return None


def _levels_table(levels: "Sequence[LevelReport]", title: str) -> Table:
    table = new_table("level", "kind", "parents", "fused", "grouping", "approx.", "form", "seconds", title=title)
    table.caption = "grouping and approximation error in % of the parents' importance-weighted energy"
    for level in levels:
        table.add_row(
            level.name,
            level.kind,
            "+".join(map(str, level.widths)),
            str(level.width),
            f"{100 * level.share('grouping'):.2f}",
            f"{100 * level.share('approximation'):.2f}",
            level.form,
            f"{sum(level.seconds.values()):.2f}",
        )
    return table
