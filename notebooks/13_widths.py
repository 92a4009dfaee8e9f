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
# # VGG11s of different widths
#
# **What the paper claims** (table `tab:fusion_diff_size`). Two VGG11s trained on non-IID parts of CIFAR-10 with 0.5, 1, 2 or 4
# times the usual channels; the fused network has the first one's width. KF-Gradient beats the first network (88.0 against 87.1
# at equal widths), KF-Linear nearly reaches it, whatever the widths. OTFusion stays near 50 at equal widths and falls to 30 and
# 19 where the second network is two and four times as wide.
#
# **How long it takes.** Seconds: the notebook reads records. To measure what is missing, name a scale and seconds below;
# `retrofit reproduce --list` tells what there is. The scale stands on every number. The other pairs of widths are measured by
# `retrofit reproduce widths --scale small`.

# %% tags=["parameters"]
SCALE = None  # None: each column at the best scale that is measured; smoke, small, evening, paper
SEEDS = None  # fusions of the same parents; None: as many as the scale has
SECONDS = 0  # for measuring what is missing; needs a scale
RUNS = "../runs"  # where new results go
RESULTS = "../benchmarks/results/experiments"  # results that come with the project
COLUMNS = None  # only these; None: all

# %%
from IPython.display import display

from retrofit_app.figures import LIGHT
from retrofit_app.figures.across import across
from retrofit_app.figures.paper import beside_the_paper, differences
from retrofit_core.experiments import table

widths = table("widths", scale=SCALE, columns=COLUMNS, seeds=SEEDS, runs=RUNS, results=RESULTS).measure(SECONDS)
print(widths)

# %% [markdown]
# ## Over all pairs of widths
#
# **How to read it.** The first width is that of network 0 and of the fused one. The paper at the left, ours at the right; only
# what is measured has a point there.

# %%
if any(column.lines for column in widths.columns):
    display(
        across(
            widths.columns, ["Parent 0", "KF-Linear, conductance", "KF-Gradient, conductance", "OTFusion", "KD"], LIGHT
        )
    )

# %% [markdown]
# ## Pair by pair
#
# Hollow diamonds are the paper's numbers, dots ours, with the 95 % interval over test images.

# %%
for column in widths.columns:
    if column.lines:
        display(beside_the_paper(column, LIGHT))
        display(differences(column, LIGHT))

# %% [markdown]
# ## All numbers

# %%
widths.show()

# %% [markdown]
# ## What agrees, what does not, and why
#
# **Measured so far** (scale `small`, one seed): equal widths, the pair of notebook 10, and a second parent of half the
# width. KF-Linear and KF-Gradient with conductance beat the best parent with both (by 7.7 and 5.4 points, and by 6.6 and
# 4.0; paper about 0 and +1): the narrow second parent costs about one point, though it is 4.8 points weaker. Both are far
# above OTFusion and above KD with equal widths, as in the paper.
#
# **Does not agree:** KF-Linear is above KF-Gradient here; at the scale `small` a fit has 20 epochs and 400 samples, and
# notebook 14 shows what more samples bring. That KF-Linear beats the best parent at all is not in the paper's table: our
# parents are weaker and differ less.
#
# **Not measured yet:** wider parents.

# %%
if SCALE is None:  # what is said above is said of the records that come with the project
    equal = widths.column("1x, 1x")
    assert equal.claim("KF-Linear", "OTFusion").verdict == "agreed"
    assert equal.claim("KF-Gradient", "best parent").verdict == "agreed"
    other = widths.column("1x, 0.5x")
    assert (
        other.claim("KF-Linear", "best parent").ours > 0
        and other.claim("KF-Gradient", "best parent").verdict == "agreed"
    )
