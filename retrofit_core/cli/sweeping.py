"""retrofit sweep"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

import typer

from ..runs.config import RunConfig
from ..system.settings import AT_LEAST_ONE, same_as, setting
from .application import command
from .checks import check_checkpoints, check_folder, check_replaced
from .comparing import NOTHING_FUSED
from .fields import Json, Logits, Overwrite, argument, config_of, options_of
from .method_options import OfMethods
from .progress import advised, progress
from .requests import ReproduceRequest
from .terminal import new_table, out, print_json, say


@dataclass(frozen=True, kw_only=True)
class SweepRequest(Json, Logits, Overwrite):
    """Parameters of `retrofit sweep`, besides the runs' shared config."""

    models: tuple[Path, ...] = argument(MISSING, "Checkpoints of the parents. The first determines the architecture.")
    over: str = setting(
        MISSING,
        "A numeric setting and three to nine values, as in ridge=0.01x,0.1x,1x: samples, seed, width (of the fused network's "
        "hidden levels, as multiples) or an option of the method.",
    )
    seeds: int = setting(1, "Runs of each value, with seeds from --seed on; a point is their mean.", AT_LEAST_ONE)
    records: Path = setting(
        Path("runs"), "Folder of the runs' records. Finished runs are not repeated, so an interrupted sweep goes on."
    )
    also: tuple[Path, ...] = setting(
        (), "The record of a finished run, to reuse instead of repeating that run. Repeatable."
    )
    jobs: int = same_as(ReproduceRequest, "jobs")
    backend: str = same_as(ReproduceRequest, "backend")
    scheduler: str | None = same_as(ReproduceRequest, "scheduler")
    out: Path | None = setting(
        None,
        "Write sweep.json to this folder, updated after each value. To stop the work, create a file `cancel` there.",
    )


@command("sweep", *options_of(RunConfig), kind=OfMethods)
def sweep_command(context: typer.Context, asked: SweepRequest) -> None:
    """Run one method with one setting at several values, and compare the results image by image.

    Example: `retrofit sweep a.safetensors b.safetensors --splits splits.json --method kf-linear --over ridge=0.01x,0.1x,1x`
    """
    for name in ("out", "records"):
        check_folder(getattr(asked, name), f"--{name}")
    check_replaced("--out", [asked.out and asked.out / "sweep.json"], overwrite=asked.overwrite)
    check_checkpoints([*asked.models, *filter(None, [context.params["base"]])])
    from ..experiments.runner import record_in_parallel
    from ..runs.sweep import Sweep, places, sweep

    wanted = Sweep.read(config_of(context, options=context.obj), asked.over, asked.seeds)
    with (
        advised(f"Run the same command again: finished runs in {asked.records} are kept."),
        progress(asked.json, asked.out) as monitor,
    ):
        if asked.jobs > 1 or asked.backend != "loky" or asked.scheduler:
            runs = [run for point in places(wanted, asked.records, asked.also) for run in point]
            ways: dict[str, Any] = {"jobs": asked.jobs, "backend": asked.backend, "scheduler": asked.scheduler}
            record_in_parallel(runs, asked.records, **ways, monitor=monitor)
        curve = sweep(wanted, asked.records, also=asked.also, out=asked.out, monitor=monitor)
    if asked.json:
        print_json(curve)
    else:
        _print_curve(curve)
    if all(row["reason"] is not None for row in curve["rows"]):
        raise typer.Exit(NOTHING_FUSED)


def _print_curve(curve: Mapping[str, Any]) -> None:
    """A row for each value, then parents and ensemble; and why a value has no network."""
    measured = [row for row in curve["rows"] if row["reason"] is None]
    spread = ["seeds"] if curve["seeds"] > 1 else []
    images = f"{measured[0]['samples']} test images" if measured else "nothing was measured"
    table = new_table(curve["over"], "acc. %", *spread, "to the best value", "sec.", title=images, figures=True)
    table.caption = "to the best value: 95 % interval in points, paired image by image" + "; seeds: all of them" * bool(
        spread
    )
    for row in measured:
        ends = "-" if tuple(row["interval"]) == (0, 0) else ", ".join(f"{end:.1f}" for end in row["interval"])
        seeds = [" ".join(f"{accuracy:.1f}" for accuracy in row["per_seed"])] if spread else []
        table.add_row(f"{row['value']}", f"{row['accuracy']:.2f}", *seeds, ends, f"{row['seconds']:.1f}")
    for name, facts in curve["networks"].items():
        table.add_row(name, f"{facts['accuracy']:.2f}", *[""] * len(spread), "", "")
    out.print(table)
    for row in curve["rows"]:
        if row["reason"] is not None:
            say(f"{curve['over']} {row['value']}: {row['reason']}")
