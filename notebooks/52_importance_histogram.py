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
# # How many neurons hardly count
#
# **What the paper claims** (figure `fig:importancehistogram`). On non-IID splits many neurons of the last convolution have
# importance scores close to zero, by conductance and by DeepLIFT. That is why gradient fits weigh all neurons alike: with
# weighted errors these neurons would get no gradient, and later levels would suffer.
#
# The figure prints no numbers, so ours stand beside nothing.
#
# Seconds: it reads records. What is missing is measured by `retrofit reproduce importance-histogram`.

# %% tags=["parameters"]
SCALE = None  # None: each row at the fullest scale that is measured; smoke, small, evening, paper
RUNS = "../runs"  # results of `retrofit reproduce` on this machine
RESULTS = "../benchmarks/results/experiments"  # results that come with the project

# %%
from retrofit_app.figures import LIGHT
from retrofit_app.figures.histograms import kept_histograms
from retrofit_core.experiments import table

scores = table("importance-histogram", scale=SCALE, runs=RUNS, results=RESULTS)
conductance, deeplift = scores.column("conductance").main, scores.column("deeplift").main
ROW = "last convolution of parent 0"

# %% [markdown]
# ## The histograms
#
# **How to read it.** Each neuron's score in multiples of the uniform one. What stands left of the dashed line has less than a
# tenth of what it would have if all neurons counted alike.

# %%
(result,) = conductance.results(ROW)
histograms = result.metrics["histograms"]
kept_histograms({name: histograms[name] for name in ("conductance", "deeplift")}, LIGHT)

# %% [markdown]
# ## Every number
#
# CIFAR-10 serves in place of CIFAR-100 where that is not on disk; the scale says so.

# %%
scores.show()

# %% [markdown]
# ## What agrees, what does not, and why
#
# **Agrees** (trained as in the paper, CIFAR-10 in place of CIFAR-100): by conductance and by DeepLIFT 68 % of the 512 neurons
# have less than a tenth of the uniform score. They are the silent ones (notebook 51), and the fullest bin by far.
#
# **How many depends on the training.** In the given pair (14 epochs) 13 % of the neurons have so little. In networks of a quarter
# of the width, trained for ten epochs (scale `small`, 128 neurons), 52 and 51 % have.
#
# **Cannot be compared:** the paper prints no counts, and its network has other data.

# %% tags=["guard"]
if SCALE is None:  # what is said above is said of the records that come with the project
    for name, kept in histograms.items():
        if name != "uniform":
            assert sum(kept["counts"]) == 512 and kept["counts"][0] == max(kept["counts"]) and kept["edges"][-1] > 4
    for column in (scores.column("conductance"), scores.column("deeplift")):
        long, given, small = (each.number(ROW) for each in column.scales)
        assert 67.5 < long < 68.5 and 12.5 < given < 13.5 and 50 < small < 52
