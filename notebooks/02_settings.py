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
# # The paper's settings, and ours
#
# **What the paper prints** (table `tab:appendix-hp` and the text above it, table `tab:traininghyperparams`, and the tables of
# fine-tuning and of vision transformers). One configuration of gradient fits for all data sets and architectures; a strength
# for each linear variant; one recipe of training.
#
# `preset="paper"` of every method uses them, `recipe("paper", ...)` trains with them, and tests compare both with the paper.
# Our defaults differ where that is better or safer: `docs/defaults.md` gives each reason. Seconds; nothing is measured
# but the last table, which reads records.

# %% tags=["parameters"]
SCALE = None  # None: each row at the fullest scale that is measured; smoke, small, evening, paper
RUNS = "../runs"  # results of `retrofit reproduce` on this machine
RESULTS = "../benchmarks/results/experiments"  # results that come with the project

# %%
import pandas as pd

from retrofit_core import METHODS
from retrofit_core.data import load
from retrofit_core.experiments import table
from retrofit_core.fusion.fit import Gradient, Ridge
from retrofit_core.networks.architectures import build
from retrofit_core.system.presets import preset_settings
from retrofit_core.training.recipes import recipe

PRINTED = {
    "gradient fits": {
        "learning_rate": 1e-3,
        "epochs": 100,
        "weight_decay": 1e-4,
        "perturbation": 1.0,
        "batch_size": 32,
        "validation": 0.1,
    },
    "linear fits": {"lambda, hungarian": 1e-3, "lambda, kmeans": 10.0},
    "training of parents": {
        "warmup": 5,
        "floor": 1e-5,
        "learning_rate": 1e-3,
        "label_smoothing": 0.1,
        "batch": 128,
    },
    "fine-tuning, cifar100": {"learning_rate": 3e-4, "floor": 1e-6, "label_smoothing": 0.1, "epochs": 200},
    "fine-tuning, tiny-imagenet": {"learning_rate": 1e-5, "floor": 1e-6, "label_smoothing": 0.1, "epochs": 200},
    "network vit": {"patch": 4, "depth": 7, "heads": 12, "hidden": 384, "mlp_width": 1536},
    "network vit-tiny-imagenet": {"patch": 8, "depth": 7, "heads": 12, "hidden": 384, "mlp_width": 384},
}
RIDGES = {f"lambda, {name}": preset_settings("paper", name, "ridge")["ridge"] for name in ("hungarian", "kmeans")}
OURS = {
    "gradient fits": preset_settings("paper", "kmeans", "gradient"),
    "linear fits": RIDGES,
    "training of parents": recipe("paper", "cifar100", architecture="vit"),
    "fine-tuning, cifar100": recipe("finetune", "cifar100"),
    "fine-tuning, tiny-imagenet": recipe("finetune", "tiny-imagenet"),
    "network vit": build("vit").spec,
    "network vit-tiny-imagenet": build("vit-tiny-imagenet").spec,
}
DEFAULTS = {"gradient fits": vars(Gradient()), "linear fits": dict.fromkeys(RIDGES, Ridge().ridge)}
settings = pd.DataFrame(
    [
        (name, setting, value, OURS[name][setting], DEFAULTS.get(name, {}).get(setting))
        for name, printed in PRINTED.items()
        for setting, value in printed.items()
    ],
    columns=["table", "setting", "paper", "ours", "default"],
    dtype=object,  # keeps 128 an integer beside 0.0003
)
settings["same"] = settings["paper"] == settings["ours"]

# %% [markdown]
# ## How the methods fit
#
# "paper" is printed there, "ours" is what `preset="paper"` uses, "default" is what is used without it. `auto` is a hundredth of
# the mean diagonal of x'x at each level: levels differ by orders of magnitude in rows and energy, so one number is too weak for
# one and too strong for another.

# %%
settings[settings["table"].isin(["gradient fits", "linear fits"])]

# %% [markdown]
# ## How parents are trained and fine-tuned

# %%
settings[settings["table"].str.contains("training|tuning")].drop(columns="default")

# %% [markdown]
# ## The vision transformers

# %%
settings[settings["table"].str.startswith("network")].drop(columns="default")

# %% [markdown]
# ## Does a fusion really use them?
#
# A result keeps what it was made with.

# %%
digits = load("digits", "train")
rows = list(range(60))
pair = [build({"architecture": "mlp", "sizes": [64, 16, 10]}, seed=seed) for seed in range(2)]
used = METHODS["KF-Gradient"](pair, (digits.inputs(rows), digits.labels[rows]), preset="paper", patience=1).config
gradient = settings[settings["table"] == "gradient fits"]
{name: used[name] for name in gradient["setting"]}

# %% [markdown]
# ## What do they change?
#
# The paper's settings beside our defaults, on two VGG11s. The paper's numbers were measured with its settings.

# %%
two_way = table("vgg11-noniid", scale=SCALE, columns=["2-way"], runs=RUNS, results=RESULTS)
two_way = two_way.column()
two_way = next((each for each in two_way.scales if each.given), two_way)  # both settings on one pair
ROWS = [f"KF-Linear, {score}{words}" for score in ("uniform", "conductance") for words in ("", ", paper's settings")]
two_way.show(["Ensemble", "Parent 0", *ROWS])

# %% [markdown]
# ## What agrees, what does not, and why
#
# **Agrees:** 28 of the 31 numbers that the paper prints are those of our presets and recipes.
#
# **Does not:** the width inside of the transformers' blocks is the other way round in the earlier code (384 for CIFAR-100, 1536
# for Tiny-ImageNet), and we follow the code; `vit-mlp1536` and `vit-tiny-imagenet-mlp384` are the printed ones. Fine-tuning has
# one rate for all data sets; `retrofit reproduce` gives Tiny-ImageNet its own.
#
# **What the settings change:** on the given pair of non-IID VGG11s (scale `paper`) less than a point: KF-Linear with
# conductance has 74.5 with our defaults and 75.0 with the paper's settings, with uniform scores 71.3 and 71.8 (three seeds each).

# %% tags=["guard"]
assert list(settings.loc[~settings["same"], "setting"]) == ["learning_rate", "mlp_width", "mlp_width"]
assert all(used[row.setting] == row.paper for row in gradient.itertuples())
if SCALE is None:  # what is said above is said of the records that come with the project
    assert abs(two_way.gap(ROWS[2], ROWS[3]).points) < 2
    assert abs(two_way.gap(ROWS[0], ROWS[1]).points) < 2
