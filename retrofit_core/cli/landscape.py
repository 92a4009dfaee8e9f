"""retrofit landscape"""

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..inspection.settings import LandscapeSettings
from ..runs.config import RunConfig
from ..system.settings import setting
from .application import command
from .checks import check_folder, check_replaced
from .fields import Json, Overwrite, options_of, value_of
from .terminal import new_table, out, print_json, progress, say

if TYPE_CHECKING:
    from ..inspection.landscape import Survey


@dataclass(frozen=True, kw_only=True)
class LandscapeRequest(Json, Overwrite):
    """Parameters of `retrofit landscape`, besides its settings."""

    record: Path = setting(MISSING, "Record of a finished run, for its parents, fused network and data.")
    tuned: Path | None = setting(None, "A folder written by `retrofit train --record`, for the fine-tuned network.")
    align: str | None = setting(None, "Also show the other parents aligned to parent 0, by Git-Re-Basin or OTFusion.")
    through: str = setting(
        "parent 0, parent 1, fused",
        'The three networks that span the plane. Others: "aligned parent 1", average, fine-tuned.',
    )
    out: Path | None = setting(
        None,
        "Write landscape.json to this folder, updated as points are measured. To stop the work, create a file `cancel` there.",
    )


@command("landscape", *options_of(RunConfig, "arch", "device"), *options_of(LandscapeSettings))
def landscape_command(context: typer.Context, request: LandscapeRequest) -> None:
    """Measure loss and accuracy on the plane through three networks, the barriers between them, and their flatness.

    Example: `retrofit landscape --record runs/3f2a --align git-re-basin --clip 4.6 --out landscape`
    """
    from ..inspection.landscape import Landscape, keep
    from ..inspection.landscape.survey import JSON
    from ..runs.finetunings import read_tuned
    from ..runs.landscapes import LandscapeConfig, material_of

    settings, device = value_of(context, Landscape), context.params["device"]
    check_folder(request.out, "--out")
    check_replaced([request.out / JSON] if request.out else [], overwrite=request.overwrite)
    names = [name.strip() for name in request.through.split(",")]
    with progress(request.json, request.out) as monitor:
        if request.out is not None:  # before anything can fail, so that the workbench knows the request
            tuned = request.tuned.absolute().name if request.tuned else None
            LandscapeConfig(tuple(names), request.align, settings, tuned).save(request.out, request.record)
        network = read_tuned(request.tuned) if request.tuned else None
        material = material_of(request.record, network, align=request.align, device=device, monitor=monitor)
        surveys = settings.run(settings.plan(material.networks, names, material.images(), device=device), monitor)
        survey = keep(surveys, request.out) if request.out else list(surveys)[-1]
    if request.json:
        return print_json(survey.to_json())
    _print_survey(survey, request.out)
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
