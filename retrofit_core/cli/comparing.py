"""retrofit compare"""

from dataclasses import dataclass
from pathlib import Path

import typer

from ..runs.config import RunConfig
from ..system.settings import AT_LEAST_ONE, same_as, setting
from .application import OfMethods, command
from .checks import check_checkpoints, check_folder, check_replaced
from .fields import Json, Overwrite, argument, config_of, options_of
from .requests import ReproduceRequest
from .terminal import advised, print_json, progress, say

NOTHING_FUSED = 1  # exit code of a comparison in which no method gave a network


@dataclass(frozen=True, kw_only=True)
class CompareRequest(Json, Overwrite):
    """Parameters of `retrofit compare`, besides the runs' shared config."""

    models: tuple[Path, ...] = argument((), "Checkpoints of the parents. The first determines the architecture.")
    methods: str = setting(
        "all",
        "all, or comma-separated names. Append options with plus signs: all,zipit+repair=true. The same goes for a "
        "grouping, a score and their options: hf-linear+grouping=kmeans+restarts=50+importance=conductance+steps=20.",
    )
    importance: str = setting("uniform", "Comma-separated importance scores: uniform, conductance, deeplift.")
    over: str | None = setting(
        None,
        "One method with a setting at several values, as in ridge=0.01x,0.1x,1x: samples, seed, importance or an option of the "
        "method.",
    )
    seeds: int = setting(1, "Runs of each method, with seeds from --seed on; rows are means.", AT_LEAST_ONE)
    records: Path | None = setting(
        None,
        "Save each run's record in this folder (with --over: runs, by default). Finished runs are not repeated, so you can "
        "resume an interrupted comparison.",
    )
    jobs: int = same_as(ReproduceRequest, "jobs")
    out: Path | None = setting(
        None,
        "Write leaderboard.json to this folder, updated after each row. To stop the work, create a file `cancel` there.",
    )


@command("compare", *options_of(RunConfig, without=("method",)), kind=OfMethods)
def compare_command(context: typer.Context, request: CompareRequest) -> None:
    """Run many methods on the same parents and rank the results, with intervals and costs; or one method with one setting at
    several values (`--over`).

    A method that does not apply gets a row with the reason. Options of methods, such as --ridge, go to all methods that have
    them; those of --methods to one: all,zipit+repair=true.

    Example: `retrofit compare a.safetensors b.safetensors --data cifar10 --splits splits.json --methods all
    --importance uniform,conductance --out leaderboard`

    Example: `retrofit compare a.safetensors b.safetensors --splits splits.json --methods kf-linear --over ridge=0.01x,0.1x,1x`
    """
    if not request.models:
        raise ValueError("name at least one checkpoint.")
    records = request.records or (Path("runs") if request.over else None)
    if records is None and (context.params["analyse"] or request.jobs > 1):
        raise ValueError("--analyse and --jobs keep what they make in records: name their folder (--records).")
    for option, folder in (("--out", request.out), ("--records", records)):
        check_folder(folder, option)
    check_replaced([request.out / "leaderboard.json"] if request.out else [], overwrite=request.overwrite)
    check_checkpoints(request.models)
    from ..methods import METHODS, methods_with
    from ..runs.comparison import compare_runs, configurations, swept

    shared = config_of(context, options=context.obj, importance=RunConfig.importance)  # the flag: several
    configs = configurations(shared, request.methods, request.importance)
    entries = {name for config in configs for name in METHODS[config.method].entries(config.options)}
    if lost := [name for name in context.obj if name not in entries]:
        owners = ", ".join(methods_with(lost[0]))
        raise ValueError(f"none of these methods has a setting {lost[0]!r}. Leave it out; it is a setting of {owners}.")
    if request.over and len(configs) > 1:
        raise ValueError("--over changes one method with one score: name them with --methods and --importance.")
    again = f"Run the same command again{' with --overwrite' * bool(request.out)}"
    advice = f": finished runs in {records} are kept." if records else ", and with --records FOLDER to keep runs."
    with advised(f"{again}{advice}"), progress(request.json, request.out) as monitor:
        runs = swept(configs[0], request.over, request.seeds) if request.over else configs
        ways = {name: getattr(request, name) for name in ("seeds", "out", "jobs")}
        board = compare_runs(runs, records=records, with_parents=not request.over, monitor=monitor, **ways)
    if request.json:
        print_json(board.to_json())
    else:
        print(board)
        if request.out is not None:
            say(f"All accuracies, also per class, and costs: {request.out / 'leaderboard.json'}")
    if not board.fused:
        raise typer.Exit(NOTHING_FUSED)
