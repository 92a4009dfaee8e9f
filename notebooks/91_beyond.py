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
# is left to future work. So both halves of this notebook are ours: no table of the paper stands beside them.
#
# 1. The closed form *inside* of blocks: each layer of a branch is a level, and the last one of a branch is fitted to what is
#    still missing in the residual stream (docs/method.md).
# 2. From the fused network on, all levels are trained together for three epochs towards the parents' mean prediction, on the
#    same 400 images without their labels (`KF-Linear-KD`).
#
# **How long it takes.** Seconds: the notebook reads records. To measure what is missing, name a scale and seconds below;
# `retrofit reproduce --list` tells what there is. The scale stands on every number.

# %% tags=["parameters"]
SCALE = None  # None: each column at the best scale that is measured; smoke, small, evening, paper
SEEDS = None  # fusions of the same parents; None: as many as the scale has
SECONDS = 0  # for measuring what is missing; needs a scale
RUNS = "../runs"  # where new results go
RESULTS = "../benchmarks/results/experiments.json"  # results that come with the project
COLUMNS = None  # only these; None: all
ROWS = None  # measure only those that begin so; None: all

# %%
import pandas as pd

from retrofit_app.figures import LIGHT
from retrofit_app.figures.parts import parts
from retrofit_core.experiments import table
from retrofit_core.experiments.beyond import CLOSER, INSIDE, TRAINED

asked = {"scale": SCALE, "columns": COLUMNS, "seeds": SEEDS, "runs": RUNS, "results": RESULTS}
beyond = table("beyond", **asked).measure(SECONDS, ROWS)
measured = [column for column in beyond.columns if column.lines]
blocks = [column for column in measured if column.name in ("ResNet-18, sharded", "ViT, sharded")]

# %% [markdown]
# ## The closed form inside of blocks
#
# **How to read it.** 0 is the gradient fit of whole blocks with the same grouping, scores and images. A dot is what the closed
# form reaches beside it, in points of accuracy, with the 95 % interval of the difference on the same test images. Two networks
# that saw five of the ten digits each.

# %%
parts(blocks, INSIDE, LIGHT)

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
parts(measured, CLOSER, LIGHT)

# %% [markdown]
# ## All numbers

# %%
beyond.show([column.name for column in measured])

# %%
measured[0].recipe(TRAINED)

# %% [markdown]
# ## What agrees, what does not, and why
#
# (to be written)
