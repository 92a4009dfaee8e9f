"""What holds for every figure: words with a number, something drawn in each trace, no other host, the same twice, and lettering
for a projector."""

import re

import numpy as np

from retrofit_app import figures, runs
from retrofit_app.figures import DARK, LIGHT, Network
from retrofit_app.figures.classes import class_sources
from retrofit_app.figures.ingredients import two_by_two
from retrofit_app.runs import ingredients
from retrofit_app.widgets.charts import signed
from retrofit_core.fusion.results import frame
from retrofit_core.runs import read_run
from tests.marks import each_case

from .surveys import invented
from .test_diagnosis import course

RUN, GRADIENT = (read_run(runs.BUNDLED / name) for name in ("kf-linear", "kf-gradient"))
REPORT, TABLE, GROUPED = RUN.levels[0], frame(RUN.levels), figures.neurons(RUN.levels[0])
assert RUN.analysis is not None
ACCURACY, ANALYSIS = RUN.analysis.accuracy, RUN.analysis.levels[0]
PARENT = Network("network A", "parent", 49.6, [100.0, 0.0])
FUSED = Network("KF-Linear", "fused", 93.0, [92.0, None])
CORNERS, AVERAGE = ingredients.read(runs.read_entry(RUN.folder, shipped=True))
TARGETS, OUTPUTS = (values[:, 0].double().numpy() for values in (ANALYSIS.targets, ANALYSIS.outputs))
FIGURES = {
    "sources": lambda palette: class_sources([PARENT], [FUSED], ["cat", "owl"], palette),
    "losses": lambda palette: figures.level_losses(TABLE, course(ACCURACY, 359), palette, 1),
    "curve": lambda palette: figures.loss_curve(GRADIENT.levels[0].curve, palette),
    "activations": lambda palette: figures.activations(GROUPED, palette, height=400),
    "ribbon": lambda palette: figures.ribbon(GROUPED, palette),
    "clusters": lambda palette: figures.clusters(GROUPED, palette),
    "scores": lambda palette: figures.score_histogram(GROUPED, "Conductance", palette),
    "fit": lambda palette: figures.fit_scatter(TARGETS, OUTPUTS, "Fused neuron 0", palette),
    "ingredients": lambda palette: two_by_two(CORNERS, AVERAGE, palette),
    "landscape": lambda palette: figures.landscape_plane(invented(), "loss", palette, path=("parent 0", "fused")),
    "path": lambda palette: figures.loss_path(invented().paths[0], palette),
}


@each_case("palette", [LIGHT, DARK])
@each_case("name", FIGURES)
def test_a_figure_has_words_with_numbers_marks_and_no_other_host_and_grows_for_a_projector(name, palette):
    picture = FIGURES[name](palette)
    assert re.search(r"\d", picture.alt)
    drawn = picture.figure.to_plotly_json()["data"]
    assert drawn and all(any(np.size(trace.get(axis, ())) for axis in ("x", "y", "z", "link")) for trace in drawn)
    text = str(picture.figure.to_json())
    assert FIGURES[name](palette).figure.to_json() == text, "another figure would lose a selection"
    assert not re.search(r"https?://", text)
    # Plotly takes another array of the same numbers for new ones, unless it is a plain list under one revision.
    assert name != "clusters" or ("bdata" not in text and picture.figure.layout.datarevision == 1)
    large = figures.enlarged(picture, 250)
    sizes = [int(size) for size in re.findall(r'font":\{[^{}]*"size":(\d+)', str(large.figure.to_json()))]
    assert min(sizes) >= 16 and large.figure.layout.height == 250 and large.alt == picture.alt
    assert signed(picture, palette, runs.read_entry(RUN.folder, shipped=True)).figure.to_json() != text
    assert picture.figure.to_json() == text  # the picture itself, which all sessions share, stays as it was
