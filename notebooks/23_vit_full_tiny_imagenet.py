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
# # Vision transformers on all of Tiny-ImageNet, with fine-tuning
#
# **What the paper claims** (tables `tab:vit-ti-iid-ft-full-table` and its short form `tab:vit-iid-ft-ti-acc`). Two ViTs that
# both saw all data (52.7 and 51.7). Without fine-tuning KF-Gradient keeps 42.9, Transformer OTFusion 3.1. After fine-tuning
# they have 54.2 and 53.8, the ensemble 54.9.
#
# Seconds: it reads records. What is missing is measured by `retrofit reproduce vit-full-tiny-imagenet`.

# %% tags=["parameters"]
SCALE = None  # None: each row at the fullest scale that is measured; smoke, small, evening, paper
RUNS = "../runs"  # results of `retrofit reproduce` on this machine
RESULTS = "../benchmarks/results/experiments"  # results that come with the project

# %%
from retrofit_core.experiments import table

vit = table("vit-full-tiny-imagenet", scale=SCALE, runs=RUNS, results=RESULTS)

# %% [markdown]
# ## The paper's table, and ours
#
# Our number stands beside each of the paper's, with its scale in the heading, or behind it where it is another one. ✓: all
# claims of the row that ours decide agree; ○: some stay open; ✗: one is contradicted. No mark: the row claims nothing, or
# nothing that is measured.

# %%
vit.beside_the_paper()

# %% [markdown]
# ## What agrees, what does not, and why
#
# **Accuracies at `smoke`** (digits, networks of a few neurons, two epochs) are hardly above chance (30 % at most on ten
# digits): they show that every row runs, and no sign is counted. Notebook 21 is the same study on CIFAR.

# %% [markdown]
# ## Every row, also ours
#
# With the reasons of what has no number.

# %%
vit.show()

# %% tags=["guard"]
if SCALE is None:  # what is said above is said of the records that come with the project
    for column in vit.columns:
        assert column.says or all(line.mean <= 30 for line in column.lines)
