"""One image followed through a run's networks: each one's answer, and the answer if the fusion stops after each level. Computed
on demand and kept for all sessions."""

import base64
import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from retrofit_app import runs
from retrofit_app.figures.followed import Answer
from retrofit_app.runs import methods
from retrofit_core.runs.answers import from_bits

from . import outputs, sources
from .keep import keep

LISTED = 400  # most images to choose from
FINE = 16  # points per pixel while rendering a drawing
PEN = 0.11  # width of the pen, as a share of the digit's size
EMPTY = 1 / 7  # margin around a digit, as a share of the image's height; 8 x 8 images have none
DIGITS = tuple("0123456789")

Strokes = Sequence[Sequence[tuple[float, float]]]
"""A pen's lines, point by point, in any unit"""


def is_possible(entry: runs.Entry) -> bool:
    """Whether a run has networks that name classes, and a fused one."""
    has_answers = bool(entry.metrics.get("networks") and entry.metrics.get("classes"))
    return has_answers and (entry.folder / "fused.safetensors").is_file() and not methods.keeps_parents(entry)


def names(entry: runs.Entry) -> list[str]:
    """The networks to ask: parents, average, fused, ensemble, as far as the run has them and they are not one of its parents."""
    parents = [f"parent {index}" for index in range(len(entry.config["models"]))]
    fused = () if methods.keeps_one(entry) else ("fused",)
    every = (*parents, "average", *fused, "ensemble") if len(parents) > 1 else (*parents, *fused)
    return [name for name in every if name in entry.metrics["networks"]]


def are_digits(entry: runs.Entry) -> bool:
    """Whether its images are grey digits, which users can draw.

    Raises:
        ValueError: as `sources.images`.
    """
    images = sources.test_images(entry)
    return images.shape[0] == 1 and tuple(images.classes) == DIGITS and "fashion" not in images.name.lower()


def choices(entry: runs.Entry) -> list[int]:
    """The test images to choose from: all, or equally many of each class.

    Raises:
        ValueError: as `sources.images`.
    """
    from retrofit_core.data.sampling import balanced

    images = sources.test_images(entry)
    return balanced(images.labels, min(LISTED, len(images))).sort().values.tolist()


def right(entry: runs.Entry) -> dict[str, Any]:
    """Network -> (n,) bool, which test images it gets right; {} if the record does not say."""
    facts = {name: entry.metrics["networks"][name] for name in names(entry)}
    told = all(each.get("knows") for each in facts.values())
    return {name: from_bits(each["knows"], each["samples"]) for name, each in facts.items()} if told else {}


@keep(500, of_data=True)
def answers(entry: runs.Entry, pixels: bytes) -> list[Answer]:
    """Each network's answer to an image.

    Args:
        pixels: C x H x W bytes.
    Raises:
        ValueError: a file is missing, damaged or not the record's.
    """
    import torch

    from retrofit_core.training.evaluation import evaluating

    x = sources.test_images(entry).normalise(_tensor(entry, pixels))
    found = []
    for name, model in _models(entry).items():
        with evaluating(model), torch.inference_mode():
            found.append(Answer(name, tuple(model(x).double().softmax(-1)[0].tolist())))
    return found


def steps(entry: runs.Entry, pixels: bytes, reports: Sequence[Any]) -> list[Answer]:
    """An image's course, level by level; [] for a method without levels.

    Args:
        pixels: as for `answers`.
        reports: the levels of the run's record.
    Raises:
        ValueError: as `answers`.
    """
    return _steps(entry, pixels, reports) if methods.goes_level_by_level(entry) else []


def pixels_of(entry: runs.Entry, row: int) -> bytes:
    """A test image.

    Raises:
        ValueError: as `sources.images`; or there is no such image.
    """
    return sources.test_images(entry).pixels([row])[0].numpy().tobytes()


def picture(entry: runs.Entry, pixels: bytes) -> str:
    """An image as a data URL."""
    from PIL import Image

    image, file = _tensor(entry, pixels)[0].permute(1, 2, 0).numpy(), io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def pixels_of_strokes(strokes: Strokes, side: int) -> bytes:
    """A drawn digit in the form of these data sets: centred, as large as fits, white on black, `side` x `side`
    bytes."""
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


def _tensor(entry: runs.Entry, pixels: bytes) -> Any:
    """(1, C, H, W) uint8."""
    import torch

    return torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(1, *sources.test_images(entry).shape)


@keep(2, "Reading the networks…", of_data=True)
def _models(entry: runs.Entry) -> dict[str, Any]:
    from retrofit_core.baselines import average
    from retrofit_core.training.evaluation import ensemble

    *parents, fused = outputs.models(entry)
    joined = {"average": average, "ensemble": ensemble}
    alone = {**{f"parent {index}": model for index, model in enumerate(parents)}, "fused": fused}
    return {name: joined[name](parents) if name in joined else alone[name] for name in names(entry)}


@keep(500, of_data=True)
def _steps(entry: runs.Entry, pixels: bytes, _reports: Sequence[Any]) -> list[Answer]:
    import torch

    from retrofit_core.inspection.analysis.accuracy import answers_by_level

    groups, x = outputs.networks(entry), sources.test_images(entry).normalise(_tensor(entry, pixels))
    with torch.inference_mode():
        said = [after.double().softmax(-1)[0].tolist() for after in answers_by_level(groups, _reports, x)[1:]]
    found = [Answer(report.name, tuple(chances)) for report, chances in zip(_reports, said, strict=True)]
    fused = next(each for each in answers(entry, pixels) if each.name == "fused")
    return [*found[:-1], replace(found[-1], chances=fused.chances)]
