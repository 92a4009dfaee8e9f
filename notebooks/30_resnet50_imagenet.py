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
# # ResNet-50s on two halves of 400 ImageNet classes, against ZipIt!
#
# **What the paper claims** (table `tab:zipit_comparison`). Two ResNet-50s know 200 classes each (41.1 of all 400). Joint
# accuracy grows with the fusion samples, all of task A's classes: KF-Gradient has 25.1 with 1,000 and 58.9 with 25,000; ZipIt!,
# merging all layers, 37.7 with 25,000; the ensemble 65. Task B, of whose classes there are no samples, keeps more than task A
# (71.7 against 46.1).
#
# Seconds: it reads records. What is missing is measured by `retrofit reproduce resnet50-imagenet`.

# %% tags=["parameters"]
SCALE = None  # None: each row at the fullest scale that is measured; smoke, small, evening, paper
RUNS = "../runs"  # results of `retrofit reproduce` on this machine
RESULTS = "../benchmarks/results/experiments"  # results that come with the project
COLUMNS = None  # only these; None: all

# %%
from retrofit_core.experiments import table

resnet = table("resnet50-imagenet", scale=SCALE, columns=COLUMNS, runs=RUNS, results=RESULTS)

# %% [markdown]
# ## The paper's table, and ours
#
# Our number stands beside each of the paper's, with its scale in the heading, or behind it where it is another one. ✓: all
# claims of the row that ours decide agree; ○: some stay open; ✗: one is contradicted. No mark: the row claims nothing, or
# nothing that is measured.

# %%
resnet.beside_the_paper()

# %% [markdown]
# ## What agrees, what does not, and why
#
# ImageNet is not here, and two ResNet-50s want a GPU. **Accuracies at `smoke`** (digits, narrow networks, two epochs) are
# hardly above chance (30 % of a task's classes at most): they show that every row runs. Two rows that the paper lacks will say
# whether the imbalance between tasks comes from where the samples come from: "samples of B", and samples of both.

# %% [markdown]
# ## Every row, also ours
#
# With the reasons of what has no number.

# %%
resnet.show()

# %% tags=["guard"]
if SCALE is None:  # what is said above is said of the records that come with the project
    for column in resnet.columns:
        assert column.says or all(line.mean <= 30 for line in column.lines)
