"""One image followed through the networks of a run: what each says, what the fusion says if it stops after each level, and
which neurons answer most strongly. Computed when somebody looks at it, and kept for all sessions."""

import base64
import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from retrofit_app import runs
from retrofit_app.figures.followed import Answer, Step, Strong
from retrofit_app.memory import MEBI, cached
from retrofit_app.runs import methods

from . import activity, predictions
from .predictions import Network

LISTED = 400  # images that can be chosen from, at most
RANGED = 300  # images on which the range of every neuron is measured, at most
STRONGEST = 3  # groups of a level that are named
NAMED = 2  # members of such a group that are named
FINE = 16  # points across a pixel while a drawing is made into an image
PEN = 0.11  # width of a pen's line, in heights of the digit
EMPTY = 1 / 7  # of an image's height stays empty around a digit; of 8 x 8 images nothing does
DIGITS = tuple("0123456789")

Strokes = Sequence[Sequence[tuple[float, float]]]
"""Lines of a pen, point by point, in any unit"""


def is_possible(entry: runs.Entry) -> bool:
    """Whether a run has networks that name classes, and one that is fused of them."""
    has_answers = bool(entry.metrics.get("networks") and entry.metrics.get("classes"))
    return has_answers and (entry.folder / "fused.safetensors").is_file() and not methods.keeps_parents(entry)


def names(entry: runs.Entry) -> list[str]:
    """The networks that are asked: parents, average, fused, ensemble, as far as the run has them."""
    parents = [f"parent {index}" for index in range(len(entry.config["models"]))]
    return [name for name in (*parents, "average", "fused", "ensemble") if name in entry.metrics["networks"]]


def images_of(entry: runs.Entry) -> Any:
    """The test images of a run (an `Images`, shared by all sessions: do not change it).

    Raises:
        ValueError: the data set is not there, or damaged.
    """
    return predictions.test_images(entry)


def are_digits(entry: runs.Entry) -> bool:
    """Whether its images are grey digits, which can be drawn by hand.

    Raises:
        ValueError: as `images_of`.
    """
    images = images_of(entry)
    return images.shape[0] == 1 and tuple(images.classes) == DIGITS and "fashion" not in images.name.lower()


def listed(entry: runs.Entry) -> list[int]:
    """The test images that can be chosen from: all, or as many of each class.

    Raises:
        ValueError: as `images_of`.
    """
    from retrofit_core.data.sampling import balanced

    images = images_of(entry)
    return balanced(images.labels, min(LISTED, len(images))).sort().values.tolist()


def right(entry: runs.Entry) -> dict[str, Any]:
    """For each network (n,) bool, which test images it knows, where asking takes a moment or was done; else {}.

    Raises:
        ValueError: a file is missing, damaged or another one than the record's.
    """
    networks = [_network(entry, name) for name in names(entry)]
    if len(images_of(entry)) > predictions.IMAGES or not predictions.is_quick(networks):
        return {}
    return {network.which: predictions.ask(network).right for network in networks}


def answers(entry: runs.Entry, pixels: bytes) -> list[Answer]:
    """What each network says of an image.

    Args:
        pixels: C x H x W bytes.
    Raises:
        ValueError: as `right`.
    """
    return _answers(*entry.version, activity.version_of_data(entry), pixels, _entry=entry)


def steps(entry: runs.Entry, pixels: bytes, reports: Sequence[Any]) -> list[Step]:
    """What becomes of an image level by level; [] for a method without levels.

    Args:
        pixels: as for `answers`.
        reports: the levels of the run's record.
    Raises:
        ValueError: as `right`.
    """
    if not methods.goes_level_by_level(entry):
        return []
    return _steps(*entry.version, activity.version_of_data(entry), pixels, _entry=entry, _reports=reports)


def pixels_of(entry: runs.Entry, row: int) -> bytes:
    """A test image.

    Raises:
        ValueError: as `images_of`; or there is no such image.
    """
    return images_of(entry).pixels([row])[0].numpy().tobytes()


def picture(entry: runs.Entry, pixels: bytes) -> str:
    """An image as a data address."""
    from PIL import Image

    image = _tensor(entry, pixels)[0].permute(1, 2, 0).numpy()
    one, file = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image), io.BytesIO()
    one.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def drawn(strokes: Strokes, side: int) -> bytes:
    """A digit that was drawn by hand as these data sets have them: as high as there is room for, in the middle, white on
    black, `side` x `side` bytes."""
    from PIL import Image, ImageDraw

    points = [point for stroke in strokes for point in stroke]
    (left, right), (top, bottom) = ((min(axis), max(axis)) for axis in zip(*points, strict=True))
    room = side * FINE * (1.0 if side <= 8 else 1 - 2 * EMPTY)
    width = PEN * room
    factor = (room - width) / max(bottom - top, right - left, 1e-9)
    middle = ((left + right) / 2, (top + bottom) / 2)

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x, y = (side * FINE / 2 + factor * (at - centre) for at, centre in zip(point, middle, strict=True))
        return x, y

    image = Image.new("L", (side * FINE, side * FINE))
    pen = ImageDraw.Draw(image)
    for stroke in strokes:
        places = [place(point) for point in stroke]
        pen.line(places, fill=255, width=round(width), joint="curve")
        for x, y in places:  # round ends, and a dot where nothing moved
            pen.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), fill=255)
    return image.resize((side, side), Image.Resampling.BOX).tobytes()


# --- computing ------------------------------------------------------------------------------------


def _network(entry: runs.Entry, name: str) -> Network:
    return Network(entry, name, entry.folder / "fused.safetensors", entry.metrics["networks"][name]["accuracy"])


def _tensor(entry: runs.Entry, pixels: bytes) -> Any:
    """(1, C, H, W) uint8."""
    import torch

    return torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(1, *images_of(entry).shape)


@cached(256 * MEBI, "Reading the networks…")
def _models(folder: str, updated: float, data: tuple[str, float], *, _entry: runs.Entry) -> dict[str, Any]:
    return {name: predictions.model(_network(_entry, name)) for name in names(_entry)}


@cached(8 * MEBI)
def _answers(
    folder: str, updated: float, data: tuple[str, float], pixels: bytes, *, _entry: runs.Entry
) -> list[Answer]:
    import torch

    from retrofit_core.training.evaluation import evaluating

    x = images_of(_entry).normalise(_tensor(_entry, pixels))
    found = []
    for name, model in _models(folder, updated, data, _entry=_entry).items():
        with evaluating(model), torch.inference_mode():
            found.append(Answer(name, tuple(model(x).double().softmax(-1)[0].tolist())))
    return found


@cached(64 * MEBI, "Looking at images…")
def _ranges(folder: str, updated: float, data: tuple[str, float], *, _entry: runs.Entry) -> list[list[Any]]:
    """For each network and level (2, width): the least and the most active that each neuron is on test images."""
    import torch

    from retrofit_core.data.sampling import balanced

    images = images_of(_entry)
    rows = balanced(images.labels, min(RANGED, len(images)), generator=torch.Generator().manual_seed(0))
    found = []
    for levels in activity.levels(_entry).networks:
        batches = [activity.largest(levels, images.inputs(batch)) for batch in rows.split(activity.BATCH)]
        found.append([torch.stack(torch.aminmax(torch.cat(each), dim=0)) for each in zip(*batches, strict=True)])
    return found


@cached(8 * MEBI)
def _steps(
    folder: str,
    updated: float,
    data: tuple[str, float],
    pixels: bytes,
    *,
    _entry: runs.Entry,
    _reports: Sequence[Any],
) -> list[Step]:
    import torch

    from retrofit_core.inspection.analysis.accuracy import readings, stopped

    plan, x = activity.levels(_entry), images_of(_entry).normalise(_tensor(_entry, pixels))
    ranges = _ranges(folder, updated, data, _entry=_entry)
    shares = [
        [
            ((value[0] - low) / (high - low).clamp_min(1e-9)).clamp(0, 1)
            for value, (low, high) in zip(activity.largest(levels, x), of_network, strict=True)
        ]
        for levels, of_network in zip(plan.networks, ranges, strict=True)
    ]
    representatives = {index: readings(report, torch.device("cpu")) for index, report in enumerate(_reports)}
    found, h = [], x
    with torch.inference_mode():
        for index, (level, report) in enumerate(zip(plan.fused, _reports, strict=True)):
            h = level.module(h)
            chances = stopped(h, plan, index, representatives).double().softmax(-1)[0].tolist()
            strongest = _strongest(report, [each[index] for each in shares])
            found.append(Step(Answer(level.name, tuple(chances)), strongest))
    fused = next(each for each in _answers(folder, updated, data, pixels, _entry=_entry) if each.name == "fused")
    return [*found[:-1], replace(found[-1], answer=replace(found[-1].answer, chances=fused.chances))]


def _strongest(report: Any, shares: Sequence[Any]) -> tuple[Strong, ...]:
    """The groups of a level whose fused neurons answer most strongly, each with its most important members."""
    import torch

    *of_parents, of_fused = shares
    of_members = torch.cat(list(of_parents))
    places = [(parent, number) for parent, width in enumerate(report.widths) for number in range(width)]
    groups = []
    for group in of_fused.topk(min(STRONGEST, len(of_fused))).indices.tolist():
        members = (report.labels == group).nonzero()[:, 0]
        ranked = members[report.scores[members].argsort(descending=True, stable=True)][:NAMED].tolist()
        groups.append(
            Strong(group, float(of_fused[group]), tuple((*places[row], float(of_members[row])) for row in ranked))
        )
    return tuple(groups)
