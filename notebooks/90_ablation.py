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
# # Which part of the method earns the gain
#
# **What the paper claims.** No table of it takes the method apart. Its text claims that each part matters: groups beat pairs
# fixed in advance, weights are fitted again at each level ("retrofitting") so that errors of earlier levels are repaired,
# neurons are compared by what the fused level can make of them, importance decides whom a target follows. So this table is
# ours: the whole method, and one part changed at a time, with nothing else touched.
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

from retrofit_app.figures import LIGHT
from retrofit_app.figures.parts import parts
from retrofit_core.experiments import table
from retrofit_core.experiments.ablation import CHANGES, CLOSED_FORM, GRADIENT

asked = {"scale": SCALE, "columns": COLUMNS, "seeds": SEEDS, "runs": RUNS, "results": RESULTS}
study = table("ablation", **asked).measure(SECONDS, ROWS)
closed_form = [change for change in CHANGES if change.whole == CLOSED_FORM]
gradient = [change for change in CHANGES if change.whole == GRADIENT]

# %% [markdown]
# ## The closed form: KF-Linear with conductance
#
# **How to read it.** 0 is the whole method. A dot is what happens if one part is replaced, in points of accuracy, with the 95 %
# interval of the difference on the same test images (networks are compared image by image). Orange: worse, teal: better,
# hollow: the interval contains 0. What is beyond the axis stands at its end; the number at the right is the dot's.
#
# Each panel is one pair of given networks. *VGG11, non-IID*: full width, unequal shares of CIFAR-10's classes. *VGG11,
# sharded*: half width, five classes of CIFAR-10 each. *MLP, non-IID*: one hidden level of 256, MNIST. *ViT, non-IID*: a small
# vision transformer, BloodMNIST; the closed form does not apply to it.

# %%
parts(study.columns, closed_form, LIGHT)

# %% [markdown]
# ## Gradient descent: KF-Gradient with conductance

# %%
parts(study.columns, gradient, LIGHT)
