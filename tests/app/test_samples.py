"""What each network saw: the contact sheets, their words, and what is said where there are none."""

import base64
import io
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from retrofit_app import runs
from retrofit_app.models import samples


@pytest.fixture
def entry() -> runs.Entry:
    return runs.read_entry(runs.BUNDLED / "kf-linear", shipped=True)


def counts_of(entry: runs.Entry) -> list[list[int]]:
    counts = runs.class_counts(entry)
    assert counts is not None
    return counts


def test_a_sheet_shows_images_of_the_classes_that_the_network_saw(entry):
    from retrofit_core.data import load

    digits = load("digits", "train")
    drawn = samples.filled(entry, counts_of(entry))
    assert [sheet.name for sheet in drawn] == ["network A", "network B"]
    for sheet, blank, counts in zip(drawn, samples.blank(entry, counts_of(entry)), counts_of(entry), strict=True):
        assert replace(sheet, image="") == blank
        picture = Image.open(io.BytesIO(base64.b64decode(sheet.image.partition(",")[2])))
        pixels = np.asarray(picture).reshape(3, 10, 10, 10, 4).swapaxes(1, 2)  # row, class, y, x
        for label, count in enumerate(counts):
            cells = pixels[:, label, 1:9, 1:9]
            assert bool(cells[..., 3].any()) == (count > 0)
            same = digits.images[digits.labels == label, 0].numpy()
            for cell in cells if count else ():
                assert (same == cell[..., 0]).all((1, 2)).any()


def test_images_of_other_data_are_not_shown(entry, tmp_path):
    content = json.loads((runs.BUNDLED / "splits.json").read_text())
    other = replace(entry, config=entry.config | {"splits": str(tmp_path / "splits.json")})
    for rows in (content["parts"][1]["train_rows"], [10**6]):
        content["parts"][0]["train_rows"] = rows
        (tmp_path / "splits.json").write_text(json.dumps(content))
        with pytest.raises(ValueError, match="not those of this run"):
            samples.filled(other, counts_of(entry))
    (tmp_path / "splits.json").unlink()
    with pytest.raises(ValueError, match="splits file of this run is not there"):
        samples.filled(other, counts_of(entry))


@pytest.mark.slow
def test_the_page_shows_sheets_a_question_or_a_sentence(runs_folder, shipped, tmp_path):
    from .pages import page_at
    from .test_fuse_page import words

    pictures = re.findall(r"<img src='data:image/png;base64,[^']+' alt='([^']+)'", words(page_at()))
    assert len(pictures) == 2 and "15 of the 715 training images of network A, of the classes 0, 1, 4, 7" in pictures[0]
    folder = runs_folder / "mine"
    shutil.copytree(shipped.folder, folder)
    whole = json.loads((folder / "config.json").read_text())
    outside = str(tmp_path / "elsewhere")
    for changed, says in (
        ({"splits": None}, "they do not name the images"),
        ({"data": outside}, "images of elsewhere are not shown: there is no folder elsewhere"),
    ):
        (folder / "config.json").write_text(json.dumps(whole | {"config": whole["config"] | changed}))
        page = page_at(run="mine")
        assert not page.exception and "<img" not in words(page)  # the levels are not shown: their record has changed
        assert says in words(page) and str(tmp_path) not in words(page)
