"""retrofit compare"""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.measure import Measurement
from rich.table import Table

from ..runs.config import SHARED_OPTIONS, OptionFlags, RunConfig
from .fields import config_of, options_of
from .progress import progress
from .terminal import (
    Json,
    Logits,
    Parents,
    advised,
    check_checkpoints,
    check_folder,
    command,
    new_table,
    out,
    print_json,
)

if TYPE_CHECKING:
    from ..runs.leaderboard import Leaderboard

NOTHING_FUSED = 1  # exit code of a comparison in which no method gave a network
WIDE = 10_000  # characters: more than any table


#: What differs from run to run, and what all methods have at its default.
NOT_SHARED = ("method", "augment", "auto_augment")


@command("compare", *options_of(RunConfig, without=NOT_SHARED), *options_of(OptionFlags, *SHARED_OPTIONS))
def compare_command(
    context: typer.Context,
    models: Parents = None,
    methods: Annotated[
        str,
        typer.Option(
            help="all, or names separated by commas, each with options behind plus signs: all,zipit+repair=true. Another "
            "grouping and options of a score stand there too: kf-linear+grouping=local_search+max_swaps=50+steps=20."
        ),
    ] = "all",
    importance: Annotated[str, typer.Option(help="Names separated by commas: {scores}.")] = "uniform",
    images: Annotated[
        int | None, typer.Option(min=1, help="Test images, balanced over the classes. Default: all.")
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option(
            help="Keep each run's record in this folder; a finished one is not run "
            "again, so an interrupted comparison goes on."
        ),
    ] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option(
            help="A finished record, of any name: it is taken in place of a new run of the same work. Repeat it."
        ),
    ] = None,
    evaluate: Annotated[
        bool, typer.Option(help="Measure each run's networks into its record, as `retrofit fuse --evaluate` does.")
    ] = False,
    analyse: Annotated[
        bool, typer.Option(help="Analyse the levels into each record, as `retrofit fuse --analyse` does.")
    ] = False,
    out_folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Write leaderboard.csv and leaderboard.json into this folder, again after each row; a file `cancel` there "
            "stops the work.",
        ),
    ] = None,
    logits: Logits = None,
    as_json: Json = False,
) -> None:
    """Run many methods on the same parents and rank what comes out, with intervals and costs.

    A method that does not apply is a row with its reason.

    Example: `retrofit compare a.safetensors b.safetensors --data cifar10 --splits splits.json --methods all
    --importance uniform,conductance --out leaderboard`
    """
    if not models:
        raise ValueError("name at least one checkpoint.")
    if analyse and records is None:
        raise ValueError(
            "an analysis is kept in a run's record: name their folder (--records), or leave --analyse out."
        )
    for folder, flag in ((out_folder, "--out"), (records, "--records")):
        if folder is not None:
            check_folder(folder, flag)
    check_checkpoints([*models, *filter(None, [context.params["base"]])])
    from ..runs.comparison import compare_runs, configurations
    from ..runs.store import noted

    shared = config_of(context, importance=RunConfig.importance)  # a list of names here
    configs = configurations(shared, methods, importance)
    again = "Run the same command again"
    advice = (
        f"{again}: finished runs in {records} are kept." if records else f"{again} with --records FOLDER to keep runs."
    )
    with (
        advised(advice),
        progress(as_json) as bar,
        noted(out_folder, bar) if out_folder else nullcontext(bar) as monitor,
    ):
        board = compare_runs(configs, images=images, records=records, also=also or (), out=out_folder, monitor=monitor)
    if as_json:
        print_json(board.to_json())
    else:
        _print_board(board, out_folder)
    if not board.fused:
        raise typer.Exit(NOTHING_FUSED)


def _print_board(board: "Leaderboard", out_folder: Path | None) -> None:
    """The tables, and why a method has no network."""
    out.print(leaderboard_table(board))
    classes = _classes_table(board)
    if Measurement.get(out, out.options.update(width=WIDE), classes).maximum <= out.width:
        out.print(classes)
    else:
        out.print("Accuracies class by class need a wider terminal, or --out.")
    for row in board.rows:
        if row["reason"] is not None:
            out.print(f"{row['name']}: {row['reason']}", soft_wrap=True, markup=False)
    if out_folder is not None:
        out.print(f"Every class and cost: {out_folder / 'leaderboard.csv'}", soft_wrap=True)


def leaderboard_table(board: "Leaderboard") -> Table:
    """Accuracy and cost of all networks, best first."""
    table = new_table(
        "network",
        "acc. %",
        "to best",
        "loss",
        "ECE",
        "sec.",
        "M ops",
        title=f"{board.samples} test images of {board.data}",
        figures=True,
    )
    table.caption = (
        "to best: points of accuracy to the first row, 95 % interval (paired bootstrap over images); ECE: expected "
        "calibration error; sec.: of the fusion; M ops: million multiply-adds for an image"
    )
    for row in board.rows:
        if row["reason"] is not None:
            table.add_row(row["name"], *["-"] * 6)
            continue
        table.add_row(
            row["name"],
            f"{row['accuracy']:.2f}",
            _interval(row["interval"]),
            f"{row['loss']:.2f}",
            f"{row['calibration_error']:.2f}",
            "" if row["seconds"] is None else f"{row['seconds']:.1f}",
            f"{row['operations'] / 1e6:.3g}",
        )
    return table


def _interval(interval: tuple[float, float] | None) -> str:
    if interval is None:
        return "-"
    digits = 1 if abs(interval[0]) < 10 else 0
    return ",".join(f"{end:.{digits}f}" for end in interval)


def _classes_table(board: "Leaderboard") -> Table:
    table = new_table("network", *board.classes, title="accuracy % class by class", figures=True)
    for row in board.rows:
        if row["reason"] is None:
            table.add_row(row["name"], *("-" if value is None else f"{value:.0f}" for value in row["per_class"]))
    return table
