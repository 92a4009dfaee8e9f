"""retrofit landscape"""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..networks import user_code
from ..runs.config import RunConfig
from ..system.monitor import Monitor
from .fields import READING, config_of, options_of
from .progress import progress
from .terminal import (
    Json,
    Logits,
    check_alone_with_record,
    check_checkpoints,
    check_folder,
    command,
    new_table,
    out,
    print_json,
)

if TYPE_CHECKING:
    from torch import nn

    from ..data import Images
    from ..inspection.landscape import Landscape, Plan, Survey
    from ..runs.landscapes import LandscapeConfig

#: Networks that span the plane where nothing else is said, the first three that are there.
FIRST = ("parent 0", "parent 1", "fused", "fine-tuned", "aligned parent 1", "parent 2")
#: Parameters that a record decides.
OF_RECORD = ("models", "fused", "data", "arch", "logits", "weights", "mean", "std", "size")


@command("landscape", *options_of(RunConfig, *READING, "seed"))
def landscape_command(
    context: typer.Context,
    models: Annotated[list[Path] | None, typer.Argument(help="Parents, all of one architecture.")] = None,
    record: Annotated[
        Path | None, typer.Option(help="A finished run: its parents, its fused network and its data.")
    ] = None,
    fused: Annotated[Path | None, typer.Option(help="Checkpoint of the fused network.")] = None,
    tuned: Annotated[
        Path | None,
        typer.Option(
            help="The fine-tuned network: a checkpoint, or the folder that retrofit finetune --record has written."
        ),
    ] = None,
    align: Annotated[
        str | None,
        typer.Option(help="Also the other parents aligned to parent 0, by {alignments}."),
    ] = None,
    through: Annotated[
        str | None,
        typer.Option(
            help='The three networks that span the plane, as "parent 0, parent 1, fused". Others: "aligned parent 1", '
            "average, fine-tuned. Default: the first three of "
            f"{', '.join(FIRST)} that are there."
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="Split on which the loss is measured: train, val or test.")] = "test",
    resolution: Annotated[int | None, typer.Option(help="{landscape_resolution}")] = None,
    images: Annotated[int | None, typer.Option(help="{landscape_images}")] = None,
    margin: Annotated[float | None, typer.Option(help="{landscape_margin}")] = None,
    norms: Annotated[str | None, typer.Option(help="{landscape_norms}")] = None,
    precision: Annotated[str | None, typer.Option(help="{landscape_precision}")] = None,
    path_points: Annotated[int | None, typer.Option(help="{landscape_path_points}")] = None,
    radius: Annotated[float | None, typer.Option(help="{landscape_radius}")] = None,
    directions: Annotated[int | None, typer.Option(help="{landscape_directions}")] = None,
    clip: Annotated[float | None, typer.Option(help="{landscape_clip}")] = None,
    logits: Logits = None,
    out_folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Write landscape.json and landscape.csv into this folder, again and again while they grow; a file `cancel` "
            "there stops the work.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with what lies in --out: no point that is measured is measured again."),
    ] = False,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Say how many points are measured and how long it takes, and do nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure loss and accuracy on the plane through three networks, barriers between them, and how flat they lie.

    Example: `retrofit landscape --record runs/3f2a --align git-re-basin --clip 4.6 --out landscape`
    """
    device = context.params["device"]
    check_checkpoints(models or ())
    from ..inspection.landscape import Landscape, Survey, keep
    from ..inspection.landscape.survey import JSON
    from ..runs import read_config
    from ..runs.images import read_images
    from ..runs.landscapes import material_of
    from ..runs.store import noted
    from ..system.settings import settings_of

    chosen = {name: context.params[name] for name in settings_of(Landscape)}
    landscape = Landscape(**{name: value for name, value in chosen.items() if value is not None})
    if out_folder is not None:
        check_folder(out_folder, "--out")
    if record is not None:
        check_alone_with_record(context, OF_RECORD)
    kept = None if plan_only else out_folder
    if resume and out_folder is None:
        raise ValueError("--resume goes on with the landscape in a folder: name it with --out.")
    with progress(as_json) as bar, noted(kept, bar) if kept else nullcontext(bar) as monitor:
        if record is not None:
            if kept and through is not None:  # before anything can fail: whoever looks on knows what was asked for
                _note(_config(spanning({}, through), align, landscape, tuned), kept, record, resume)
            user_code.allow(read_config(record).arch)  # a fine-tuned network is read first
            asked = dataclasses.replace(read_config(record), weights=RunConfig.weights, arch=None)
            other = _network(tuned, asked, read_images(asked, split)) if tuned else None
            material = material_of(record, other, align=align, device=device, monitor=monitor)
            config, networks = material.config, material.networks
            measured_on = read_images(config, split)
        else:
            config = config_of(context)
            if not config.models:
                raise ValueError("name the parents' checkpoints, or a record folder with --record.")
            measured_on = read_images(config, split)
            networks = _named(config, measured_on, fused, tuned, align, device, monitor)
        names = spanning(networks, through)
        if record is not None and kept and through is None:
            _note(_config(names, align, landscape, tuned), kept, record, resume)
        plan = landscape.plan(networks, names, measured_on, device=device)
        if plan_only:
            return _say_plan(plan, as_json)
        known = Survey.load(kept) if resume and kept and (kept / JSON).exists() else None
        surveys = landscape.run(plan, monitor, known)
        if kept:
            survey = keep(surveys, kept)
        else:
            *_, survey = surveys
    if as_json:
        return print_json(survey.to_json())
    _print_survey(survey, out_folder)
    return None


def spanning(networks: "Mapping[str, nn.Module]", text: str | None) -> Sequence[str]:
    """The names of the three networks that span the plane.

    Raises:
        ValueError: none are named, and too few are there.
    """
    if text is not None:
        return [name.strip() for name in text.split(",")]
    chosen = [name for name in FIRST if name in networks][:3]
    if len(chosen) < 3:
        raise ValueError(
            f"a plane needs three networks that do not lie on one line; there are {' and '.join(chosen) or 'none'}. Name the "
            "fused one with --fused or --record, or give --align git-re-basin for the aligned parent."
        )
    return chosen


def _config(names: Sequence[str], align: str | None, landscape: "Landscape", tuned: Path | None) -> "LandscapeConfig":
    from ..runs.landscapes import LandscapeConfig
    from ..system.files import digest

    if len(names) != 3:
        raise ValueError(f"a plane goes through three different networks. Found {', '.join(names) or 'none'}.")
    known_by = None if tuned is None else digest(tuned)[:10] if tuned.is_file() else tuned.absolute().name
    return LandscapeConfig((names[0], names[1], names[2]), align, landscape, known_by)


def _note(config: "LandscapeConfig", folder: Path, record: Path, resume: bool) -> None:
    """Write down what is measured in a folder; what is gone on with there has to be the same."""
    if resume:
        config.check_same(folder, record)
    config.save(folder, record)


def _named(
    config: "RunConfig",
    images: "Images",
    fused: Path | None,
    tuned: Path | None,
    align: str | None,
    device: str,
    monitor: Monitor,
) -> "dict[str, nn.Module]":
    """The networks of checkpoints, their classes in one order."""
    from ..data.sampling import balanced
    from ..inspection.landscape import networks_of
    from ..runs.images import read_images
    from ..runs.inputs import read_parents

    parents = read_parents(config, images)
    samples: Any = None
    if align is not None:
        train = read_images(config, "train")
        rows = balanced(train.labels, min(RunConfig.samples, len(train)))
        samples = train.inputs(rows), train.labels[rows]
    others = (_network(path, config, images) for path in (fused, tuned))
    return networks_of(parents, *others, align=align, data=samples, device=device, monitor=monitor)


def _network(path: Path | None, config: "RunConfig", images: "Images") -> "nn.Module | None":
    """Of a checkpoint, or of a fine-tuning's folder."""
    from ..runs.finetunings import read_tuned
    from ..runs.inputs import read_network

    if path is None:
        return None
    is_checkpoint = path.suffix or any(path.glob("*.index.json"))  # one file, or shards
    return read_network(config, path, images) if is_checkpoint else read_tuned(path)


def _say_plan(plan: "Plan", as_json: bool) -> None:
    counts, seconds = plan.evaluations, plan.seconds()
    if as_json:
        return print_json({"evaluations": counts, "seconds": seconds})
    words = ", ".join(f"{count} of {name}" for name, count in counts.items())
    sentence = f"{sum(counts.values())} points of weight space ({words}), about {seconds:.0f} s on this machine."
    out.print(sentence, soft_wrap=True, highlight=False)
    return None


def _print_survey(survey: "Survey", out_folder: Path | None) -> None:
    from ..inspection.landscape.survey import SCALING

    table = new_table("network", "loss", "accuracy %", "off plane", "mean rise", "largest rise")
    rises = {rise.name: rise for rise in survey.rises}
    for marker in survey.markers:
        rise = rises.get(marker.name)
        table.add_row(
            marker.name,
            f"{marker.loss:.3f}",
            f"{marker.accuracy:.2f}",
            "-" if survey.is_on_plane(marker) else f"{marker.distance:.2f}",
            *([f"{rise.mean:.3f}", f"{rise.most:.3f}"] if rise else ["-", "-"]),
        )
    table.caption = (
        "loss and accuracy: of the network itself; off plane: distance between its weights and the plane; rise: of the loss at a "
        f"distance of {survey.facts['radius']:.2f}"
    )
    out.print(table)
    paths = new_table("path", "barrier", "at", "loss at its ends")
    for path in survey.paths:
        ends = f"{path.loss[0]:.3f}, {path.loss[-1]:.3f}"
        paths.add_row(f"{path.first} to {path.last}", f"{path.barrier:.3f}", f"{path.top:.0%}", ends)
    paths.caption = "barrier: how far the loss rises above the line between the ends, at most"
    out.print(paths)
    out.print(survey.caption(), soft_wrap=True, markup=False, highlight=False)
    if survey.facts["clip"] is not None:
        above = int(survey.clipped.sum())
        text = f"{above} of {survey.loss.numel()} points lie above the clip of {survey.facts['clip']:g}."
        out.print(text, soft_wrap=True, markup=False, highlight=False)
    out.print(SCALING, soft_wrap=True, markup=False, highlight=False)
    written = f" Written to {out_folder}." if out_folder else ""
    out.print(f"{survey.total} points in {survey.seconds:.1f} s.{written}", soft_wrap=True, highlight=False)
