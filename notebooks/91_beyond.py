# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Beyond the paper: the closed form everywhere, and closer to the ensemble
#
# **What the paper claims.** Its closed form fuses networks of linear and convolutional layers; residual networks and transformers
# it fuses by gradient descent, block by block. Its fused networks come close to the parents' ensemble, and how to come closer
# it does not ask. So both halves of this notebook are ours: no table of the paper stands beside them.
#
# 1. The closed form *inside* of blocks: each layer of a branch is a level, and the last one of a branch is fitted to what is
#    still missing in the residual stream (docs/method.md).
# 2. From the fused network on, all levels are trained together for three epochs towards the parents' mean prediction, on the
#    same 400 images without their labels (`KF-Linear-KD`).
# 3. What the next image and the next minute bring: both changed over a wide range.
#
# **How long it takes.** Seconds: the notebook reads records. To measure what is missing, name a scale and seconds below;
# `retrofit reproduce --list` tells what there is. The scale stands on every number.

# %% tags=["parameters"]
SCALE = None  # None: each row at the fullest scale that is measured; smoke, small, evening, paper
SEEDS = None  # fusions of the same parents; None: as many as the scale has
SECONDS = 0  # for measuring what is missing; needs a scale
RUNS = "../runs"  # where new results go
RESULTS = "../benchmarks/results/experiments"  # results that come with the project
COLUMNS = None  # only these; None: all
ROWS = None  # measure only those that begin so; None: all

# %%
import json

import pandas as pd
import plotly.express as px

from retrofit_app.figures import LIGHT
from retrofit_app.figures.parts import parts
from retrofit_app.figures.picture import Picture
from retrofit_app.runs.paper import RECORDS
from retrofit_core.experiments import table
from retrofit_core.experiments.beyond import CLOSER, FUSED, INSIDE, TRAINED

asked = {"scale": SCALE, "columns": COLUMNS, "seeds": SEEDS, "runs": RUNS, "results": RESULTS}
beyond = table("beyond", **asked).measure(SECONDS, ROWS)
measured = [column for column in beyond.columns if column.lines]
blocks = [column for column in measured if column.name in ("ResNet-18, sharded", "ViT, sharded")]
given = [
    next((each for each in column.scales if each.setting.given), column) for column in measured if column not in blocks
]

# %% [markdown]
# ## The closed form inside of blocks
#
# **How to read it.** 0 is the gradient fit of whole blocks with the same grouping, scores and images. A dot is what the closed
# form reaches beside it, in points of accuracy, with the 95 % interval of the difference on the same test images. Two networks
# that saw five of the ten digits each.

# %%
parts(blocks, INSIDE, LIGHT, farthest=(-20, 20))

# %% [markdown]
# And the seconds that each of them took:

# %%
METHODS = ["HF-Gradient, uniform", "HF-Linear, uniform", "KF-Gradient, uniform", "KF-Linear, uniform", "PLeaS", "KD"]
pd.DataFrame(
    {
        column.name: {row: column.results(row)[0].metrics["seconds"] for row in METHODS if column.results(row)}
        for column in blocks
    }
).round(1)

# %% [markdown]
# ## Closer to the ensemble
#
# 0 is KF-Linear with conductance and 400 images of parent 0. How much of the way to the ensemble does each change go?

# %%
parts(given, CLOSER, LIGHT)

# %% [markdown]
# The same for the networks of blocks. Here few images say much: ten digits of 8 x 8 pixels.

# %%
parts(blocks, CLOSER, LIGHT, farthest=(-20, 20))

# %% [markdown]
# ## The next image and the next minute
#
# **How to read it.** A line is a method from few images to many; filled marks have images of all
# parents, open ones of parent 0 alone. To the right costs time, upwards is more accurate: whoever has a minute takes the
# highest mark left of 60. One fusion each, with the seconds of one thread; those of the scores count. The centred ensemble is
# that of parents whose mean logits are subtracted.

# %%
record = json.loads(RECORDS.with_name("frontier.json").read_text())
keys = ["network", "way", "of", "samples"]
frame = (
    pd.DataFrame(record["rows"])
    .query("not augmented")
    .groupby(keys, sort=False)[["seconds", "accuracy"]]
    .mean()
    .reset_index()
)
figure = px.line(
    frame.sort_values("samples"), x="seconds", y="accuracy", color="way", line_dash="of", symbol="of", facet_col="network",
    hover_data=["samples"], markers=True, log_x=True, template="plotly_white",
    symbol_map={"all parents": "circle", "parent 0": "circle-open"}, line_dash_map={"all parents": "solid", "parent 0": "dot"},
)  # fmt: skip
figure.for_each_annotation(lambda note: note.update(text=note.text.removeprefix("network=")))
for number, network in enumerate(dict.fromkeys(frame["network"]), 1):
    for name, accuracy in record["references"][network].items():
        if name != "test images":
            figure.add_hline(accuracy, annotation_text=name, line_dash="dot", line_width=1, row=1, col=number)
figure.update_yaxes(matches=None, showticklabels=True)
figure.update_layout(
    height=560, margin={"t": 40, "b": 190, "l": 50, "r": 20}, legend={"orientation": "h", "y": -0.18, "title": ""}
)
top = frame.loc[frame.groupby("network", sort=False)["accuracy"].idxmax()]
found = [
    f"{row.network}: {row.way} with {row.samples:,} images of {row.of}, {row.accuracy:.1f} %"
    for row in top.itertuples()
]
Picture(
    figure,
    "Lines of accuracy over the seconds of a fusion",
    f"{'; '.join(found)}.",
    title="Accuracy for the next image and the next minute",
)

# %% [markdown]
# With 400 images; the copies of the last column are moved by up to four pixels (digits: one):

# %%
of_400 = pd.DataFrame(record["rows"]).query("samples == 400")
of_400["images"] = of_400["of"] + of_400["augmented"].map({True: " and copies", False: ""})
of_400.pivot_table(["accuracy", "seconds"], ["network", "way"], "images", sort=False).round(1)

# %% [markdown]
# ## All numbers

# %%
beyond.show([column.name for column in measured])

# %%
measured[0].recipe(TRAINED)

# %% [markdown]
# ## What agrees, what does not, and why
#
# Nothing here can agree with the paper, which has no such numbers. It agrees with what its method lets one expect:
#
# - **Inside of blocks** the closed form needs a twelfth to a third of the gradient fit's time on the ViT and a fiftieth to a
#   twelfth on the ResNet-18, and is clearly ahead of it with pairs of neurons and samples of parent 0 (10.9 and 3.9 points on
#   the ResNet, 5.3 on the ViT with conductance). All other differences have intervals that contain 0. PLeaS, which solves
#   layers too, is far behind on samples of parent 0 (53.8 against 81.3 and 69.6 on the ResNet).
# - **A training behind the fusion** helps where the fused network is well below the ensemble and the samples say enough: the
#   ResNet-18 gains 6.4 points, and 7.8 with samples of both parents, which takes it to its ensemble (87.7 and 86.9).
#
# **Does not** help where one would want it most: it brings nothing on the non-IID VGGs and at most 0.8 on the sharded ones,
# whoever's samples it gets, although the ensemble is 3.4 and 4.5 points ahead. The ViT is level with its ensemble before any
# training.
#
# **Why, probably:** 400 photographs are too few to move millions of weights by, the more so where five classes are missing; the
# closed form moves each level on its own, in the directions that its inputs show, and leaves the others. On digits 400 images are
# half of what parent 0 saw. What was tried besides and is in no table stands in docs/findings_beyond.md.

# %%
if SCALE is None:  # what is said above is said of the records that come with the project
    pair = next(column for column in given if column.name == "VGG11, non-IID")
    resnet, vit = (beyond.column(name).at("evening") for name in ("ResNet-18, sharded", "ViT, sharded"))
    for column, linear, gradient in (
        (resnet, "HF-Linear, uniform", "HF-Gradient, uniform"),
        (resnet, "HF-Linear, conductance", "HF-Gradient, conductance"),
        (vit, "HF-Linear, conductance", "HF-Gradient, conductance"),
        (resnet, TRAINED, FUSED),
    ):
        assert column.gap(linear, gradient).interval[0] > 0, (column.name, linear)
    assert resnet.gap("KF-Linear, uniform", "PLeaS").points > 10
    for row in (TRAINED, f"{TRAINED}, towards parents", f"{TRAINED}, all data"):
        assert pair.gap(row, FUSED).interval[0] < 0.3 and pair.gap("Ensemble", row).interval[0] > 2
    assert (
        resnet.gap(f"{TRAINED}, all data", "Ensemble").points > 0 > resnet.gap(f"{FUSED}, all data", "Ensemble").points
    )
