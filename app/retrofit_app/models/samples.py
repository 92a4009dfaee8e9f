"""Sample training images of each network of a run, read from the run's data set."""

import base64
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_app.figures import letter
from retrofit_app.figures.sheets import Sheet, columns_of, rows_of
from retrofit_core.system.files import json_of

from . import sources

SIDE = 48  # most pixels of an image in a sheet
KEPT = "16 MB"  # of sheets


def blank(entry: runs.Entry, counts: Sequence[Sequence[int]]) -> list[Sheet]:
    """The sheets of a run's networks without their images.

    Args:
        counts: each network's training images per class.
    """
    columns = columns_of(counts)
    classes = tuple(entry.metrics["classes"][column] for column in columns)
    of_columns = [tuple(row[column] for column in columns) for row in counts]
    most = max(max(row) for row in of_columns) or 1
    return [
        Sheet(f"network {letter(index)}", classes, row, sum(counts[index]), rows_of(row, most))
        for index, row in enumerate(of_columns)
    ]


def filled(entry: runs.Entry, counts: Sequence[Sequence[int]]) -> list[Sheet]:
    """The sheets with images, read once for a run's data and split.

    Raises:
        ValueError: the data set or the splits file is missing, damaged or not the run's.
    """
    path = entry.base / entry.config["splits"]
    names = tuple(Path(model).name for model in entry.config["models"])
    source = sources.source_of(entry)
    try:
        changed = path.stat().st_mtime
    except OSError as error:
        raise ValueError(f"the splits file of this run is not there ({error.strerror}).") from error
    return _filled(str(path), changed, names, source, sources.changed(source.data), tuple(blank(entry, counts)))


@st.cache_data(max_size=KEPT, show_spinner=False)
def _filled(
    path: str,
    written: float,
    names: tuple[str, ...],
    source: sources.Source,
    changed: float,
    sheets: tuple[Sheet, ...],
) -> list[Sheet]:
    images = sources.images(source)
    parts = {part.get("model"): part for part in json_of(path)["parts"]}
    return [replace(sheet, image=_drawn(sheet, images, parts[name])) for sheet, name in zip(sheets, names, strict=True)]


def _drawn(sheet: Sheet, images: Any, part: dict[str, Any]) -> str:
    """One sheet's picture: the first images of each class in a fixed random order, on a transparent background."""
    import torch
    from PIL import Image

    rows = torch.as_tensor(part["train_rows"])
    if len(images) <= int(rows.max()) or images.labels[rows].bincount(minlength=len(images.classes)).tolist() != list(
        part["class_counts"]
    ):
        raise ValueError("the images in that folder are not those of this run.")
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]
    labels = images.labels[rows]
    chosen_rows = [
        rows[labels == images.classes.index(name)][:height]
        for name, height in zip(sheet.classes, sheet.rows, strict=True)
    ]
    pixels = iter(images.pixels(torch.cat(chosen_rows)))
    side = min(max(images.shape[1:]), SIDE)
    step = side + max(2, side // 10 // 2 * 2)  # an even gap, half of it on either side
    whole = Image.new("RGBA", (step * len(chosen_rows), step * max(*sheet.rows, 1)), (0, 0, 0, 0))
    for column, column_rows in enumerate(chosen_rows):
        for row in range(len(column_rows)):
            one = image_of(next(pixels))
            one.thumbnail((side, side))
            corner = (step * column + (step - one.width) // 2, step * row + (step - one.height) // 2)
            whole.paste(one.convert("RGBA"), corner)
    return url_of(whole)


def image_of(pixels: Any) -> Any:
    """A PIL image of pixels (channels, height, width)."""
    from PIL import Image

    image = pixels.permute(1, 2, 0).numpy()
    return Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)


def url_of(image: Any) -> str:
    """A PIL image as a data URL."""
    file = io.BytesIO()
    image.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
