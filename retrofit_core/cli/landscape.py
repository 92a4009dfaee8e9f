"""retrofit landscape"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..inspection.settings import LandscapeSettings
from ..runs.config import RunConfig
from ..system.monitor import Monitor
from ..system.settings import setting
from .application import command
from .checks import check_alone, check_checkpoints, check_folder, check_replaced
from .fields import READING, Json, Logits, Overwrite, argument, config_of, options_of, value_of
from .terminal import new_table, out, print_json, progress, say

if TYPE_CHECKING:
    from torch import nn

    from ..data import Images
    from ..inspection.landscape import Landscape, Survey

#: Networks that span the plane by default: the first three that exist.
FIRST = ("parent 0", "parent 1", "fused", "fine-tuned", "aligned parent 1", "parent 2")
#: Parameters that a record determines.
OF_RECORD = ("models", "fused", "data", "arch", "logits", "mean", "std", "size")


@dataclass(frozen=True, kw_only=True)
class LandscapeRequest(Json, Overwrite, Logits):
    """Parameters of `retrofit landscape`, besides its settings and those for reading files."""

    models: tuple[Path, ...] = argument((), "Checkpoints of the parents, all of the same architecture.")
    record: Path | None = setting(None, "Record of a finished run, for its parents, fused network and data.")
    fused: Path | None = setting(None, "Checkpoint of the fused network.")
    tuned: Path | None = setting(
        None, "The fine-tuned network: a checkpoint, or a folder written by `retrofit train --record`."
    )
    align: str | None = setting(None, "Also show the other parents aligned to parent 0, by {alignments}.")
    through: str | None = setting(
        None,
        'The three networks that span the plane, such as "parent 0, parent 1, fused". Others: "aligned parent 1", '
        f"average, fine-tuned. Default: the first three available of {', '.join(FIRST)}.",
    )
    split: str = setting("test", "Split on which the loss is measured: train, val or test.")
    out: Path | None = setting(
        None,
        "Write landscape.json and landscape.csv to this folder, updated as points are measured. To stop the work, "
        "create a file `cancel` there.",
    )
    plan: bool = setting(False, "Check everything, print the number of points, and exit.")


@command("landscape", *options_of(RunConfig, *READING), *options_of(LandscapeSettings))
def landscape_command(context: typer.Context, asked: LandscapeRequest) -> None:
    """Measure loss and accuracy on the plane through three networks, the barriers between them, and their flatness.

    Example: `retrofit landscape --record runs/3f2a --align git-re-basin --clip 4.6 --out landscape`
    """
    check_checkpoints(asked.models)
    from ..inspection.landscape import Landscape, keep
    from ..inspection.landscape.survey import CSV, JSON
    from ..runs.inputs import read_images

    settings = value_of(context, Landscape)
    check_folder(asked.out, "--out")
    if asked.record is not None:
        check_alone(context, "--record determines the networks and the data", without=OF_RECORD)
    folder = None if asked.plan else asked.out
    check_replaced([folder / name for name in (JSON, CSV)] if folder else [], overwrite=asked.overwrite)
    with progress(asked.json, folder) as monitor:
        if asked.record is not None:
            config, networks = _of_record(asked, asked.record, settings, folder, context.params["device"], monitor)
        else:
            config = config_of(context)
            if not config.models:
                raise ValueError("name the parents' checkpoints, or a record folder with --record.")
            networks = _of_checkpoints(asked, config, monitor)
        images = read_images(config, asked.split)
        plan = settings.plan(networks, spanning(networks, asked.through), images, device=context.params["device"])
        if asked.plan:
            counts = plan.evaluations
            if asked.json:
                return print_json({"evaluations": counts})
            words = ", ".join(f"{count} of {name}" for name, count in counts.items())
            return say(f"{sum(counts.values())} points of weight space ({words}).")
        surveys = settings.run(plan, monitor)
        if folder:
            survey = keep(surveys, folder)
        else:
            *_, survey = surveys
    if asked.json:
        return print_json(survey.to_json())
    _print_survey(survey, asked.out)
    return None


def spanning(networks: "Mapping[str, nn.Module]", text: str | None) -> Sequence[str]:
    """Names of the networks that span the plane.

    Raises:
        ValueError: none are named, and fewer than three exist.
    """
    if text is not None:
        return [name.strip() for name in text.split(",")]
    chosen = [name for name in FIRST if name in networks][:3]
    if len(chosen) < 3:
        raise ValueError(
            f"a plane needs three networks that are not on one line. Found {' and '.join(chosen) or 'none'}. Name "
            "the fused network with --fused or --record, or add the aligned parent with --align git-re-basin."
        )
    return chosen


def _of_record(
    asked: LandscapeRequest, record: Path, settings: "Landscape", folder: Path | None, device: str, monitor: Monitor
) -> "tuple[RunConfig, Mapping[str, nn.Module]]":
    """The config and networks of a finished run; the request is saved in the folder before anything can fail."""
    from ..runs import read_config
    from ..runs.inputs import read_images
    from ..runs.landscapes import LandscapeConfig, material_of
    from ..system.files import digest

    def note(names: Sequence[str]) -> None:
        if folder is None:
            return
        if len(names) != 3:
            raise ValueError(f"a plane needs three different networks. Found {', '.join(names) or 'none'}.")
        tuned = asked.tuned
        known_by = None if tuned is None else digest(tuned)[:10] if tuned.is_file() else tuned.absolute().name
        config = LandscapeConfig((names[0], names[1], names[2]), asked.align, settings, known_by)
        config.save(folder, record)

    if asked.through is not None:
        note(spanning({}, asked.through))
    config = read_config(record)
    reading = dataclasses.replace(config, arch=None)
    tuned = _network(asked.tuned, reading, read_images(reading, asked.split)) if asked.tuned else None
    material = material_of(record, tuned, align=asked.align, device=device, monitor=monitor)
    if asked.through is None:
        note(spanning(material.networks, None))
    return material.config, material.networks


def _of_checkpoints(asked: LandscapeRequest, config: RunConfig, monitor: Monitor) -> "dict[str, nn.Module]":
    """The networks of checkpoints, with one order of classes."""
    from ..data.sampling import balanced
    from ..inspection.landscape import networks_of
    from ..runs.inputs import read_images, read_parents

    images = read_images(config, asked.split)
    parents = read_parents(config, images)
    samples = None
    if asked.align is not None:
        train = read_images(config, "train")
        rows = balanced(train.labels, min(RunConfig.samples, len(train)))
        samples = train.inputs(rows), train.labels[rows]
    others = [_network(path, config, images) for path in (asked.fused, asked.tuned)]
    return networks_of(parents, *others, align=asked.align, data=samples, device=config.device, monitor=monitor)


def _network(path: Path | None, config: RunConfig, images: "Images") -> "nn.Module | None":
    """The network of a checkpoint or of a fine-tuning folder."""
    from ..runs.finetunings import read_tuned
    from ..runs.inputs import read_network

    if path is None:
        return None
    is_checkpoint = path.suffix or any(path.glob("*.index.json"))  # a file or shards
    return read_network(config, path, images) if is_checkpoint else read_tuned(path)


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
        "loss and accuracy: of the network itself; off plane: distance between its weights and the plane; rise: of "
        f"the loss at a distance of {survey.facts['radius']:.2f}"
    )
    out.print(table)
    paths = new_table("path", "barrier", "at", "loss at its ends")
    for path in survey.paths:
        ends = f"{path.loss[0]:.3f}, {path.loss[-1]:.3f}"
        paths.add_row(f"{path.first} to {path.last}", f"{path.barrier:.3f}", f"{path.top:.0%}", ends)
    paths.caption = "barrier: largest rise of the loss above the line between its values at the ends"
    out.print(paths)
    say(survey.caption())
    if survey.facts["clip"] is not None:
        above = int(survey.clipped.sum())
        say(f"{above} of {survey.loss.numel()} points are above the clip of {survey.facts['clip']:g}.")
    say(SCALING)
    written = f" Written to {out_folder}." if out_folder else ""
    say(f"{survey.total} points in {survey.seconds:.1f} s.{written}")
