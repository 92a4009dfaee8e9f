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
# **How long it takes.** Seconds: the notebook reads records. What is missing is measured by `retrofit reproduce`;
# without a name, it says which tables there are. The scale stands on every number. This table is measured by `retrofit
# reproduce resnet50-imagenet --scale small`; ImageNet has to be on disk for more than that it runs.

# %% tags=["parameters"]
SCALE = None  # None: each row at the fullest scale that is measured; smoke, small, evening, paper
RUNS = "../runs"  # results of `retrofit reproduce` on this machine
RESULTS = "../benchmarks/results/experiments"  # results that come with the project
COLUMNS = None  # only these; None: all

# %%
from IPython.display import display

from retrofit_app.figures import LIGHT
from retrofit_app.figures.across import across, measured_in
from retrofit_app.figures.paper import beside_in_parts
from retrofit_core.experiments import table

resnet = table("resnet50-imagenet", scale=SCALE, columns=COLUMNS, runs=RUNS, results=RESULTS)
tasks = {
    task: [column for column in resnet.columns if column.name.startswith(task) and column.says and column.lines]
    for task in ("joint", "task A", "task B")
}

# %% [markdown]
# ## With how many samples?
#
# **How to read it.** One row of pictures for both tasks together, and one for each; the paper at the left, ours at the right,
# from what needs no samples to 25,000. What is measured at `smoke` alone (digits, narrow networks, two epochs) says nothing of
# accuracy, and has no picture.

# %%
ROWS = ["Ensemble", "Parent 0", "Parent 1", "KF-Gradient, uniform", "ZipIt"]
for columns in tasks.values():
    if columns and len(measured_in(columns, ROWS)) > 1:
        display(across(columns, ROWS, LIGHT, "fusion samples"))

# %% [markdown]
# ## Number by number

# %%
for column in tasks["joint"]:
    display(*beside_in_parts(column, LIGHT))

# %% [markdown]
# ## All numbers

# %%
resnet.show()

# %% [markdown]
# ## What agrees, what does not, and why
#
# ImageNet is not here, and two ResNet-50s want a GPU. **Accuracies at `smoke`** are hardly above chance (30 % of a task's
# classes at most): they show that every row runs. The cell below says which columns have others, and what measures the rest.
# Two rows that the paper lacks will say whether the imbalance between tasks comes from where the samples come from: "samples
# of B", and samples of both.

# %%
if SCALE is None:  # what is said above is said of the records that come with the project
    for column in resnet.columns:
        assert column.says or all(line.mean <= 30 for line in column.lines)
print(resnet, *resnet.commands, sep="\n")
