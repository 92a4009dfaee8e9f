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
# # Vision transformers on CIFAR-100, sharded splits
#
# **What the paper claims** (table `tab:vit-sharded-cifar100-full-acc`, short form `tab:vit-sharded-cifar100-acc`). Two ViTs
# know 50 classes each. HF-Gradient and KF-Gradient reach 54.5 and 54.4 from 5,000 samples of the first one's classes, 16 points
# above the best parent and 9 below the ensemble; LP has 45.3 and KD 41.0. Transformer OTFusion is at chance. With four and six
# networks KD overtakes KF-Gradient (47.0 against 41.4).
#
# **How long it takes.** Seconds: the notebook reads records. To measure what is missing, name a scale and seconds below;
# `retrofit reproduce --list` tells what there is. The scale stands on every number.

# %% tags=["parameters"]
SCALE = None  # None: each column at the best scale that is measured; smoke, small, evening, paper
SEEDS = None  # fusions of the same parents; None: as many as the scale has
SECONDS = 0  # for measuring what is missing; needs a scale
RUNS = "../runs"  # where new results go
RESULTS = "../benchmarks/results/experiments"  # results that come with the project
COLUMNS = None  # only these; None: all

# %%
from IPython.display import display

from retrofit_app.figures import LIGHT, Network, class_grid
from retrofit_app.figures.across import across
from retrofit_app.figures.paper import beside_the_paper, differences, rank_against_rank
from retrofit_core.experiments import table

vit = table("vit-sharded-cifar100", scale=SCALE, columns=COLUMNS, seeds=SEEDS, runs=RUNS, results=RESULTS).measure(
    SECONDS
)
two_way = vit.column("2-way")

# %% [markdown]
# ## Two networks
#
# **How to read it.** Hollow diamonds are the paper's numbers, dots ours, with the 95 % interval over test images. CIFAR-10
# serves in place of CIFAR-100, which is not on disk: parents know five of ten classes, chance is 10 and not 1, so rows compare
# with rows and not with diamonds.

# %%
beside_the_paper(two_way, LIGHT)

# %% [markdown]
# The same order? The paper's at the left, ours at the right.

# %%
rank_against_rank(two_way, LIGHT)

# %% [markdown]
# And does each difference that the paper's numbers claim have the same sign here?

# %%
differences(two_way, LIGHT)

# %% [markdown]
# ## Where each class's knowledge came from

# %%
SHOWN = ["Parent 0", "Parent 1", "Ensemble", "HF-Gradient, uniform", "KF-Gradient, uniform", "LP", "KD"]
networks = [
    Network(row, "fused" if "F-" in row else "parent", two_way.number(row), two_way.per_class(row))
    for row in SHOWN
    if two_way.line(row).mean is not None
]
class_grid(networks, two_way.classes, LIGHT)

# %% [markdown]
# ## More networks
#
# Only columns that are measured have a point at the right.

# %%
display(across(vit.columns, ["Ensemble", "HF-Gradient, uniform", "KF-Gradient, uniform", "LP", "KD"], LIGHT))

# %% [markdown]
# ## All numbers

# %%
vit.show()

# %% [markdown]
# How one of them came about:

# %%
two_way.recipe("HF-Gradient, uniform")

# %% [markdown]
# ## What agrees, what does not, and why
#
# **Agrees** (scale `small`, CIFAR-10 for CIFAR-100, two networks, one seed): Transformer OTFusion stays far below either parent
# (18 and 19, parents 37.6 and 33.0) and near the plain average; HF-Gradient and KF-Gradient are above KD, and below the ensemble.
# Scores change nothing for KF-Gradient.
#
# **Does not:** both gradient methods, 16 points above the best parent in the paper, are 5 *below* it, and level with LP.
#
# **Why:** fits have 20 epochs, which is too few: with 100 epochs, samples of both parents and all test images KF-Gradient
# reaches 40.3, above either parent (docs/findings.md). These ViTs have a quarter of the width and know their own classes
# badly, too (37.6 of at most 50). DeepLIFT is refused for Transformer OTFusion, because it is not known for neurons
# inside of blocks.

# %%
if SCALE is None:  # what is said above is said of the records that come with the project
    assert two_way.claim("HF-Gradient", "Transformer-OTFusion").verdict == "agreed"
    assert two_way.claim("HF-Gradient", "KD").verdict == "agreed"
    assert two_way.number("Transformer-OTFusion, uniform") < two_way.number("Parent 0") - 10
