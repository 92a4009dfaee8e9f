"""retrofit methods | fuse | analyse"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from ..catalogue import CATALOGUE
from ..runs.config import OptionFlags, RunConfig
from ..system.registry import known_name
from .fields import config_of, options_of
from .progress import progress
from .terminal import (
    Json,
    Logits,
    Parents,
    advised,
    arch_words,
    check_checkpoints,
    check_output,
    command,
    networks_table,
    new_table,
    out,
    pixel_words,
    print_json,
    shell,
)

if TYPE_CHECKING:
    from ..inspection.analysis import Analysis

#: Parameters that may be given with --resume: where the result goes, and in which form.
BESIDE_RESUME = ("resume", "out_file", "as_json")


@command("methods")
def methods_command(
    name: Annotated[
        str | None, typer.Argument(help="One method, to list its options. Without a name: all methods.")
    ] = None,
    grouping: Annotated[
        str | None, typer.Option(help="With this grouping in place of the method's own: {groupings}.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the methods, or the options of one.

    Example: `retrofit methods otfusion`
    """
    if name is None:
        if grouping is not None:
            raise ValueError(
                "--grouping shows the options of one method with another grouping: name the method too, as in `retrofit "
                "methods kf-linear --grouping local_search`."
            )
        if as_json:
            return print_json({method_name: line.description for method_name, line in CATALOGUE.items()})
        table = new_table("method", "what it does")
        table.caption = "`retrofit methods NAME` lists what a method can be told with --option"
        for method_name, line in CATALOGUE.items():
            table.add_row(method_name, escape(line.description))
        out.print(table)
        return None
    name = known_name(CATALOGUE, name, "method")
    from ..methods import METHODS, methods_with
    from ..runs.options import options_of as method_options
    from .words import of_importance

    if grouping is not None and "grouping" not in METHODS[name].parts:
        raise ValueError(
            f"{METHODS[name].name} takes no grouping. Leave --grouping out, or name one of "
            f"{', '.join(methods_with('grouping'))}."
        )
    options = method_options(name, grouping=grouping)
    if as_json:
        facts = {key: (value.default, value.description, value.help) for key, value in options.items()}
        return print_json(
            {key: dict(zip(("default", "takes", "help"), fact, strict=True)) for key, fact in facts.items()}
        )
    table = new_table("option", "default", "takes", "what it does", title=METHODS[name].name)
    for key, value in options.items():
        default = "none" if value.default in (None, ()) else json.dumps(value.default)
        cells = (default, value.description, value.help + of_importance(key))
        table.add_row(key, *map(escape, cells))  # a pair of brackets is no markup
    out.print(table)
    return None


@command("fuse", *options_of(RunConfig), *options_of(OptionFlags))
def fuse_command(
    context: typer.Context,
    models: Parents = None,
    out_file: Annotated[Path | None, typer.Option("--out", help="Fused checkpoint (.safetensors).")] = None,
    record: Annotated[
        Path | None, typer.Option(help="Also write a run record into this folder; the workbench shows it.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=VALUE, repeatable: what this method alone can be told; `retrofit methods NAME` lists it."
        ),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the run in this record folder; takes its settings.")
    ] = None,
    logits: Logits = None,
    as_json: Json = False,
) -> None:
    """Fuse parents into one network.

    Example: `retrofit fuse a.safetensors b.safetensors --data cifar10 --splits splits.json --method kf-linear
    --importance conductance --samples 400 --out fused.safetensors`
    """
    if resume is not None:
        _check_alone_with_resume(context)
    elif not models:
        raise ValueError("name at least one checkpoint, or a record folder with --resume.")
    else:
        known_name(CATALOGUE, context.params["method"], "method")
    folder = record or resume
    check_output(out_file, folder)
    check_checkpoints([*(models or ()), *filter(None, [context.params["base"]])])
    from ..networks.checkpoints import save_model
    from ..runs import checkpoint_metadata, execute, read_config, with_options
    from ..runs.comparison import title
    from ..runs.images import read_images

    config = read_config(resume) if resume is not None else with_options(config_of(context), {})
    with advised(_going_on(folder, out_file)), progress(as_json) as monitor:
        result, metrics = execute(config, folder, monitor)
    if out_file is not None:
        images = read_images(config, "train")
        save_model(result.model, out_file, **checkpoint_metadata(config, images))
    networks = metrics.get("networks", {})
    if as_json:
        frame = result.to_frame()
        return print_json(
            {
                "out": str(out_file) if out_file else None,
                "record": str(folder) if folder else None,
                "seconds": result.seconds,
                "config": config.to_json(),
                "levels": json.loads(frame.to_json(orient="records") or "[]"),
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
    for index, report in enumerate(result.importance):
        if gaps := report.get("completeness_gap"):
            out.print(
                f"completeness gap of parent {index}'s {config.importance} per level: "
                + " ".join(f"{gap:.1%}" for gap in gaps)
            )
    if networks:
        out.print(networks_table(networks))
    where = f", written to {out_file}" if out_file else ""
    out.print(f"Fused {len(config.models)} parents in {result.seconds:.1f} s{where}.")
    if out_file and not networks:
        next_words = ["retrofit", "evaluate", out_file, "--data", config.data, *pixel_words(config)]
        next_words += arch_words([config.arch, config.target])
        out.print("Next:", shell(*next_words), soft_wrap=True, markup=False, highlight=False)
    return None


def _check_alone_with_resume(context: typer.Context) -> None:
    """Refuse settings beside --resume: a resumed run has its record's, and others would be ignored."""
    sources = {parameter: context.get_parameter_source(parameter.name or "") for parameter in context.command.params}
    refused = [
        parameter.opts[0] if parameter.param_type_name == "option" else "the checkpoints"
        for parameter, source in sources.items()
        if parameter.name not in BESIDE_RESUME and source is not None and source.name == "COMMANDLINE"
    ]
    if refused:
        raise ValueError(
            f"--resume takes the settings of its record, beside which {', '.join(refused)} would do nothing: leave that out, "
            "or start a new run without --resume."
        )


def _going_on(folder: Path | None, out_file: Path | None) -> str:
    if folder is None:
        return "With --record FOLDER a run can go on after its last finished level."
    return f"Go on with: {shell('retrofit', 'fuse', '--resume', folder, *(['--out', out_file] if out_file else []))}"


@command("analyse")
def analyse_command(
    records: Annotated[list[Path], typer.Argument(help="Folders of finished runs, as written by fuse --record.")],
    as_json: Json = False,
) -> None:
    """Add to finished runs what the workbench's pictures of the levels need, as `fuse --analyse` does.

    Checkpoints and data that a run names without a full path are looked for in the current folder.

    Example: `retrofit analyse runs/*`
    """
    from ..runs import analyse_record

    analyses = {}
    with progress(as_json) as monitor:
        for record in records:
            analyses[str(record)] = analyse_record(record, monitor)
    if as_json:
        return print_json(
            {
                "records": {
                    name: {
                        "levels": [level.name for level in analysis.levels],
                        "accuracy": analysis.accuracy,
                        "samples": analysis.samples,
                        "missing": analysis.missing,
                        "seconds": analysis.seconds,
                    }
                    for name, analysis in analyses.items()
                }
            }
        )
    for name, analysis in analyses.items():
        out.print(_analysis_table(analysis, name))
        for what, why in analysis.missing.items():
            out.print(f"No {what}: {why}", soft_wrap=True)
    return None


def _analysis_table(analysis: "Analysis", title: str) -> Table:
    table = new_table("level", "kept %", "accuracy %", title=title)
    table.caption = (
        "kept: variance of the parents' neurons that their fused neurons explain, on average; accuracy: had the fusion "
        f"stopped after the level, on {analysis.samples} test images"
    )
    accuracy = [f"{value:.2f}" for value in analysis.accuracy] or ["-"] * (len(analysis.levels) + 1)
    table.add_row("(the ensemble)", "", accuracy[0])
    for level, value in zip(analysis.levels, accuracy[1:], strict=True):
        table.add_row(level.name, f"{100 * level.kept.mean().item():.1f}", value)
    return table


def _levels_table(levels: Sequence[Any], title: str) -> Table:
    table = new_table("level", "kind", "parents", "fused", "grouping", "approx.", "form", "seconds", title=title)
    table.caption = "grouping and approximation error in % of the parents' importance-weighted energy"
    for level in levels:
        energy = level.energy or 1.0
        table.add_row(
            level.name,
            level.kind,
            "+".join(map(str, level.widths)),
            str(level.width),
            f"{100 * level.grouping_error / energy:.2f}",
            f"{100 * level.approximation_error / energy:.2f}",
            level.form,
            f"{sum(level.seconds.values()):.2f}",
        )
    return table
