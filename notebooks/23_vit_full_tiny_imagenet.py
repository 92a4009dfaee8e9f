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
# **How long it takes.** Seconds: the notebook reads records. What is missing is measured by `retrofit reproduce`;
# without a name, it says which tables there are. The scale stands on every number. This table is measured by `retrofit
# reproduce vit-full-tiny-imagenet --scale small`.

# %% tags=["parameters"]
SCALE = None  # None: each row at the fullest scale that is measured; smoke, small, evening, paper
RUNS = "../runs"  # results of `retrofit reproduce` on this machine
RESULTS = "../benchmarks/results/experiments"  # results that come with the project

# %%
from IPython.display import display

from retrofit_app.figures import LIGHT
from retrofit_app.figures.across import across, measured_in
from retrofit_app.figures.paper import beside_in_parts, differences
from retrofit_core.experiments import table

vit = table("vit-full-tiny-imagenet", scale=SCALE, runs=RUNS, results=RESULTS)
said = [column for column in vit.columns if column.says]

# %% [markdown]
# ## Before and after fine-tuning
#
# **How to read it.** Hollow diamonds are the paper's numbers, dots ours, with the 95 % interval over test images. What is
# measured at `smoke` alone (digits, networks of a few neurons, two epochs) says nothing of accuracy, and has no picture.

# %%
for column in said:
    display(*beside_in_parts(column, LIGHT))
    if any(claim.ours is not None for claim in column.claims):
        display(differences(column, LIGHT))
METHODS = ["KF-Gradient, uniform", "Transformer-OTFusion-Weights, uniform"]
if len(measured_in(said, METHODS)) > 1:
    display(across(said, METHODS, LIGHT))

# %% [markdown]
# ## All numbers

# %%
vit.show()

# %% [markdown]
# ## What agrees, what does not, and why
#
# **Accuracies at `smoke`** are hardly above chance (30 % at most on ten digits): they show that every row runs. The cell below
# says which columns have others, and what measures the rest. Notebook 21 is the same study on CIFAR.

# %%
if SCALE is None:  # what is said above is said of the records that come with the project
    for column in vit.columns:
        assert column.says or all(line.mean <= 30 for line in column.lines)
print(vit, *vit.commands, sep="\n")
