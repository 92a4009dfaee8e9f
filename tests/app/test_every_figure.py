"""What holds for every chart: words with a number, something drawn in each trace, no other host, the same twice, and lettering
for a projector."""

import re

import numpy as np
import pytest

from retrofit_app import figures, runs
from retrofit_app.figures import DARK, LIGHT, Network
from retrofit_app.figures.classes import class_sources
from retrofit_app.runs import followups
from retrofit_app.widgets.charts import signed
from retrofit_app.widgets.pictures import CHARTS
from retrofit_core.runs.store import LANDSCAPE
from tests.marks import each_case

# Its levels have curves, too.
ENTRY = runs.read_entry(runs.BUNDLED / "kf-gradient", shipped=True)
WORK = {"work": followups.works_of(ENTRY, LANDSCAPE)[0]}
#: A chart's own options.
OPTIONS = {
    "scores": {"score": "conductance"},
    "ribbon": {"score": "conductance"},
    "members": {"neuron": 0},
    "fit": {"neuron": 0},
    "loss": WORK,
    "accuracy": {**WORK, "path": ("parent 0", "fused")},
    "path": {**WORK, "line": 0},
}
PARENT = Network("network A", "parent", 49.6, [100.0, 0.0])
FUSED = Network("KF-Linear", "fused", 93.0, [92.0, None])


def drawn_as(name, palette):
    if name == "sources":
        return class_sources([PARENT], [FUSED], ["cat", "owl"], palette)
    return CHARTS[name].draw(ENTRY, 0, palette, **OPTIONS.get(name, {}))


@pytest.mark.slow
@each_case("palette", [LIGHT, DARK])
@each_case("name", ["sources", *CHARTS])
def test_a_figure_has_words_with_numbers_marks_and_no_other_host_and_grows_for_a_projector(name, palette):
    picture = drawn_as(name, palette)
    assert re.search(r"\d", picture.alt)
    drawn = picture.figure.to_plotly_json()["data"]
    assert drawn and all(any(np.size(trace.get(axis, ())) for axis in ("x", "y", "z", "link")) for trace in drawn)
    text = str(picture.figure.to_json())
    assert drawn_as(name, palette).figure.to_json() == text, "another figure would lose a selection"
    assert not re.search(r"https?://", text)
    # Plotly takes another array of the same numbers for new ones, unless it is a plain list under one revision.
    assert name != "clusters" or ("bdata" not in text and picture.figure.layout.datarevision == 1)
    large = figures.enlarged(picture, 250)
    sizes = [int(size) for size in re.findall(r'font":\{[^{}]*"size":(\d+)', str(large.figure.to_json()))]
    assert min(sizes) >= 16 and large.figure.layout.height == 250 and large.alt == picture.alt
    assert signed(picture, palette, ENTRY).to_json() != text
    assert picture.figure.to_json() == text  # the picture itself, which all sessions share, stays as it was
