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
# 93.0 to 93.6, within 0.4 of the parents.
#
# Seconds: it reads records. What is missing is measured by `retrofit reproduce vgg11-full`.

# %% tags=["parameters"]
SCALE = None  # None: each row at the fullest scale that is measured; smoke, small, evening, paper
RUNS = "../runs"  # results of `retrofit reproduce` on this machine
RESULTS = "../benchmarks/results/experiments"  # results that come with the project

# %%
from IPython.display import display

from retrofit_app.figures import LIGHT
from retrofit_app.figures.paper import differences
from retrofit_core.experiments import table

vgg = table("vgg11-full", scale=SCALE, runs=RUNS, results=RESULTS)
zero_shot, tuned = vgg.columns

# %% [markdown]
# ## The paper's table, and ours
#
# Our number stands beside each of the paper's, with its scale in the heading, or behind it where it is another one. ✓: all
# claims of the row that ours decide agree; ○: some stay open; ✗: one is contradicted. No mark: the row claims nothing, or
# nothing that is measured.

# %%
vgg.beside_the_paper()

# %% [markdown]
# ## Do the signs agree?
#
# Each difference that the paper's numbers claim, and ours with its 95 % interval over the same test images. Rows that lose by
# dozens of points are counted only. Before fine-tuning, then after it.

# %%
for column in vgg.columns:
    if any(claim.ours is not None for claim in column.claims):
        display(differences(column, LIGHT))

# %% [markdown]
# ## What agrees, what does not, and why
#
# **Agrees** (scale `evening`, one seed): where both parents saw all data, every fused network stays below both (82.2 and 82.0),
# and the ensemble gains little (84.3). Fine-tuning brings back most: KF-Linear goes from 43.6 to 77.3 in ten epochs. At `small`
# the gradient fits are about as far below the best parent as in the paper: HF-Gradient 5.5, KF-Gradient 9.0 (paper 5.1 and
# 7.0). Three epochs of fine-tuning make all methods of the paper alike there: from 27.8 to 69.3 before, from 69.2 to 73.3
# after. All stay below the ensemble (76.9), as in the paper.
#
# **Does not:** HF-Linear with uniform scores, 87.0 of 93.2 in the paper, has 30.5 here; with scores, which cost it 13 there, up
# to 65.3. All are below PLeaS (73.3). The fine-tuned network stays 5.5 below the fine-tuned parent (82.8), where the paper has
# all of them level after 200 epochs. Scores help the weight averages at `small`, OTFusion by 2.7 and Git Re-Basin by 5.1, where
# they cost them 26 and 15 in the paper; after fine-tuning the difference is gone.
#
# **Why:** these networks are silent. A neuron of the late layers is active 3 to 9 % of the time, so the mean of two such
# neurons is more silent than either. Grouped by what they hand on behind the activation function (the rows "by activity", ours)
# KF-Linear has 73.6 with uniform scores in place of 43.6; with targets that vary as much as their neurons (REPAIR) 75.0.

# %% [markdown]
# ## Every row, also ours
#
# With the reasons of what has no number.

# %%
vgg.show()

# %% tags=["guard"]
if SCALE is None:  # what is said above is said of the records that come with the project
    before, after = zero_shot.at("evening"), tuned.at("evening")
    for scale in (before, zero_shot.at("small")):
        parents = [scale.number(f"Parent {index}") for index in range(2)]
        fused = [line for line in scale.lines if not line.row.startswith(("Parent", "Ensemble"))]
        assert all(line.mean < min(parents) for line in fused)
    assert before.gap("KF-Linear, uniform, by activity", "KF-Linear, uniform").points > 25
    assert before.gap("HF-Linear, deeplift", "PLeaS").points < 0
    assert after.number("KF-Linear, uniform") > before.number("KF-Linear, uniform") + 30
    assert after.gap("KF-Linear, uniform", "Parent 0").points < -4
    before, after = zero_shot.at("small"), tuned.at("small")
    rows = [line.row for line in after.lines if line.paper and not line.row.startswith(("Parent", "Ensemble"))]
    for scale, most in ((before, 42), (after, 4.2)):
        numbers = [scale.number(row) for row in rows]
        assert max(numbers) - min(numbers) < most
    assert max(rows, key=lambda row: after.number(row) - before.number(row)) == "OTFusion, uniform"
    for method in ("HF-Linear", "KF-Linear", "HF-Gradient", "KF-Gradient"):
        assert before.claim(method, "best parent").verdict == "agreed"
        assert -3.6 < after.claim(method, "best parent").ours < -1.7 > after.claim(method, "best parent").interval[0]
        assert after.claim(method, "Ensemble").verdict == "agreed"
    for method in ("OTFusion", "Git-Re-Basin"):
        assert before.claim(f"{method}, conductance", f"{method}, uniform").verdict == "contradicted"
        assert after.claim(f"{method}, conductance", f"{method}, uniform").verdict == "undecided"
