"""The picture of the method's parts: what is drawn is what was measured."""

from typing import Any

import pytest

from retrofit_app.figures import DARK, LIGHT
from retrofit_app.figures.parts import UNDECIDED, parts
from retrofit_core.experiments import table
from retrofit_core.experiments.ablation import CHANGES, CLOSED_FORM, GRADIENT
from retrofit_core.experiments.results import add
from tests.experiments.made_up import made

#: Row -> images of a hundred that are known, in two columns.
KNOWN = {
    "VGG11, non-IID": {
        CLOSED_FORM: 80,
        "KF-Linear, uniform": 60,
        "KF-Linear, deeplift": 90,
        f"{CLOSED_FORM}, all data": 81,
        f"{CLOSED_FORM}, not refitted": 10,
    },
    "ViT, non-IID": {GRADIENT: 50, f"{GRADIENT}, weighted loss": 30},
}


@pytest.fixture
def columns(tmp_path):
    results = [
        made(row, known + seed, column=column, seed=seed)
        for column, rows in KNOWN.items()
        for row, known in rows.items()
        for seed in range(2)
    ]
    add(tmp_path, "ablation", results)
    return table("ablation", runs=tmp_path).columns


def of(whole: str):
    return [change for change in CHANGES if change.whole == whole]


def dots(picture: Any) -> dict[tuple[str, str], tuple[float, str, str]]:
    """Panel's axis and row -> place, number and verdict."""
    return {
        (trace.xaxis, row): (place, text, trace.name)
        for trace in picture.figure.data
        for row, place, text in zip(trace.y, trace.x, trace.text, strict=True)
    }


@pytest.mark.slow
@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_each_change_stands_beside_the_whole_that_is_0(columns, palette):
    picture: Any = parts(columns, of(CLOSED_FORM), palette)
    assert dots(picture) == {
        ("x", "importance: none (uniform)"): (-12.0, "\N{MINUS SIGN}20.0", "worse than the whole"),
        ("x", "importance: DeepLIFT"): (5.0, "+10.0", "better"),  # beyond the axis, at its end
        ("x", "samples: of all parents"): (pytest.approx(1), "+1.0", UNDECIDED),  # one image of a hundred more
        ("x", "fit: no refit: mean of the parents' weights"): (-12.0, "\N{MINUS SIGN}70.0", "worse than the whole"),
    }
    heads = [note.text for note in picture.figure.layout.annotations]
    assert any("VGG11, non-IID" in words and "80.5" in words for words in heads)  # two seeds: 80 and 81
    assert "VGG11, non-IID: fit, no refit: mean of the parents' weights (\N{MINUS SIGN}70.0 points)" in picture.caption


def test_a_gap_is_that_of_the_same_images_and_none_where_nothing_is_measured(columns):
    gap = columns[0].gap("KF-Linear, uniform", CLOSED_FORM)
    assert gap.points == pytest.approx(-20) and gap.seeds == pytest.approx((-20, -20))
    assert gap.interval[0] < -20 < gap.interval[1] < 0
    assert columns[0].gap("Ensemble", CLOSED_FORM) is None
    with pytest.raises(ValueError, match="unknown row of ablation"):
        columns[0].gap("KF-Linear, by heart", CLOSED_FORM)
