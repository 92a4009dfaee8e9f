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
# # VGG11 on all of CIFAR-10, with fine-tuning
#
# **What the paper claims** (table `tab:vgg-iid-full-table`). Both networks saw all data (93.2 and 93.0). Without fine-tuning
# HF-Gradient keeps 88.1, KF-Gradient 86.2, Git Re-Basin 77.1, OTFusion 72.6. After 200 epochs of fine-tuning all are alike:
# 93.0 to 93.6, at or slightly above the parents.
#
# **How long it takes.** Seconds: the notebook reads records. To measure what is missing, name a scale and seconds below;
# `retrofit reproduce --list` tells what there is. The scale stands on every number. This table is measured by `retrofit
# reproduce vgg11-full --scale small`.

# %% tags=["parameters"]
SCALE = None  # None: each column at the best scale that is measured; smoke, small, evening, paper
SEEDS = None  # fusions of the same parents; None: as many as the scale has
SECONDS = 0  # for measuring what is missing; needs a scale
RUNS = "../runs"  # where new results go
RESULTS = "../benchmarks/results/experiments"  # results that come with the project
ROWS = None  # what is measured where it is missing, as ("KF-Linear",); None: all

# %%
from IPython.display import display

from retrofit_app.figures import LIGHT
from retrofit_app.figures.across import across
from retrofit_app.figures.paper import beside_the_paper, differences, rank_against_rank
from retrofit_core.experiments import table

vgg = table("vgg11-full", scale=SCALE, seeds=SEEDS, runs=RUNS, results=RESULTS).measure(SECONDS, ROWS)
zero_shot, tuned = vgg.columns
print(vgg)

# %% [markdown]
# ## Before fine-tuning
#
# **How to read it.** Hollow diamonds are the paper's numbers, dots ours, with the 95 % interval over test images. A table that
# is not measured yet has no picture.

# %%
if zero_shot.lines:
    display(beside_the_paper(zero_shot, LIGHT))
    display(rank_against_rank(zero_shot, LIGHT))

# %% [markdown]
# Does each difference that the paper's numbers claim have the same sign here?

# %%
if zero_shot.lines:
    display(differences(zero_shot, LIGHT))

# %% [markdown]
# ## After fine-tuning

# %%
if tuned.lines:
    display(beside_the_paper(tuned, LIGHT))

# %% [markdown]
# What fine-tuning brings, the paper at the left, ours at the right:

# %%
METHODS = ["Parent 0", "KF-Linear, uniform", "KF-Gradient, uniform", "Git-Re-Basin, uniform", "OTFusion, uniform"]
if tuned.lines:
    display(across(vgg.columns, METHODS, LIGHT))

# %% [markdown]
# ## All numbers

# %%
vgg.show()

# %% [markdown]
# ## What agrees, what does not, and why
#
# **Agrees** (scale `small`, one seed): where both parents saw all data, every fused network stays below both (74.3 and 73.8;
# HF-Linear 69.3 with DeepLIFT, KF-Linear 69.2, HF-Gradient 68.8), and the ensemble gains little (76.0). Git Re-Basin and
# OTFusion lose far more (40.8 and 30.8). After fine-tuning the start hardly counts: OTFusion, 38 points below KF-Linear before,
# is 0.7 below it then.
#
# **Does not:** scores cost HF-Linear 13 points in the paper and bring it five here; Git Re-Basin likewise loses 15 there and
# gains 5 here. Fine-tuned networks have 70.2 to 71.8 here, three to five points *below* the fine-tuned parents (74.9 and 75.1),
# where the paper has all of them level.
#
# **Why, probably:** three epochs in place of 200. They take a network from 28 % to 71 %, and do not bring back the rest.

# %%
if SCALE is None:  # what is said above is said of the records that come with the project
    assert zero_shot.number("HF-Linear, deeplift") < zero_shot.number("Parent 1")
    assert zero_shot.number("HF-Linear, deeplift") > zero_shot.number("Git-Re-Basin, deeplift") + 10
    fused = [tuned.number(row) for row in METHODS[1:]]
    assert max(fused) - min(fused) < 3 < zero_shot.number("KF-Linear, uniform") - zero_shot.number("OTFusion, uniform")
    assert max(fused) < min(tuned.number("Parent 0"), tuned.number("Parent 1")) - 2
