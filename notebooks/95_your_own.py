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
# # Your own networks
#
# The study of the other notebooks on networks of your own: fuse them by several methods, see who wins and why. As it stands it
# trains two small networks on digits, so that it runs anywhere in half a minute. To use yours, replace the second and third
# cell.
#
# What is needed: two or more `torch.nn.Module`s that torch.fx can trace, with the same classes; some hundred samples to fuse
# on; test images. For importance scores by conductance also samples of each network's own data.

# %%
import pandas as pd

from retrofit_app.figures import LIGHT, Network, level_losses
from retrofit_app.figures.classes import class_sources
from retrofit_core import METHODS, ensemble, evaluate, train
from retrofit_core.data import load, splits
from retrofit_core.networks.architectures import build

# %% [markdown]
# **Your data.** `load` reads published data sets, and folders of images; anything else may come as tensors: samples
# and labels.

# %%
images, test = load("digits", "train"), load("digits", "test")
parts = splits.sharded(images.labels, 2, seed=0)  # five classes each
own = [(images.inputs(rows), images.labels[rows]) for rows in parts]  # each network's own samples and labels
samples = own[0]  # to fuse on: those of the first network alone

# %% [markdown]
# **Your networks.** In place of this: `load_model(file)` of `retrofit_core`, or your own modules in `eval()`.

# %%
parents = [build({"architecture": "cnn"}, seed=seed) for seed in range(2)]
for parent, rows in zip(parents, parts, strict=True):
    train(parent, images, rows)

# %% [markdown]
# ## Who wins?

# %%
SCORED = {"importance": "conductance", "importance_data": own}
results = {
    "KF-Linear, conductance": METHODS["KF-Linear"](parents, samples, **SCORED),
    "HF-Linear, conductance": METHODS["HF-Linear"](parents, samples, **SCORED),
    "KF-Linear, uniform": METHODS["KF-Linear"](parents, samples),
    "Git-Re-Basin": METHODS["Git-Re-Basin"](parents, samples),
}
rated = {
    "Parent 0": parents[0],
    "Parent 1": parents[1],
    "Ensemble": ensemble(parents),
    **{name: result.model for name, result in results.items()},
}
scores = {name: evaluate(network, test) for name, network in rated.items()}
networks = [
    Network(name, "fused" if name in results else "parent", score["accuracy"], score["per_class"])
    for name, score in scores.items()
]
pd.DataFrame({"accuracy %": {network.name: network.accuracy for network in networks}}).round(1)

# %% [markdown]
# ## Where each class's knowledge came from

# %%
class_sources(networks[:2], networks[2:], test.classes, LIGHT)

# %% [markdown]
# ## Where something was lost
#
# The errors of each level: grouping error, for neurons are not their group's mean, and approximation error, for the level does
# not reach the mean.

# %%
level_losses(results["KF-Linear, conductance"].to_frame(), [], LIGHT)

# %% [markdown]
# ## Keep it
#
# `results[...].save(folder)` keeps the result with all its errors, `save_model` of `retrofit_core` the network
# alone; `retrofit app` shows runs in the browser. A whole leaderboard with intervals is `retrofit compare` on the command line.

# %%
fused = max(results, key=lambda name: scores[name]["accuracy"])
print(f"the best fused network: {fused}, {scores[fused]['accuracy']:.1f} %")
assert scores[fused]["accuracy"] > max(scores["Parent 0"]["accuracy"], scores["Parent 1"]["accuracy"])
