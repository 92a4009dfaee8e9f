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
# # How many fusion samples, and does augmentation help?
#
# **What the paper claims** (table `tab:varying-fusion-ds`). Gradient fits need many samples: on two non-IID VGG11s KF-Gradient
# loses three to five points when it has 1,000 samples in place of 5,000. Augmented copies of the 1,000 bring half to four
# fifths of it back.
#
# Seconds: it reads records. What is missing is measured by `retrofit reproduce fusion-set-size`.

# %% tags=["parameters"]
SCALE = None  # None: each row at the fullest scale that is measured; smoke, small, evening, paper
RUNS = "../runs"  # results of `retrofit reproduce` on this machine
RESULTS = "../benchmarks/results/experiments"  # results that come with the project

# %%
import pandas as pd
from IPython.display import display

from retrofit_app.figures import LIGHT
from retrofit_app.figures.paper import differences
from retrofit_core.experiments import table

asked = {"runs": RUNS, "results": RESULTS}
sizes = table("fusion-set-size", scale=SCALE or "small", **asked)
pair = table("fusion-set-size", scale=SCALE or "paper", **asked)
few, augmented, many = (sizes.column(name) for name in ("1k samples", "1k samples, augmented", "5k samples"))

# %% [markdown]
# ## The paper's table, and ours
#
# Our number stands beside each of the paper's, with its scale in the heading, or behind it where it is another one. ✓: all
# claims of the row that ours decide agree; ○: some stay open; ✗: one is contradicted. No mark: the row claims nothing, or
# nothing that is measured.

# %%
sizes.beside_the_paper()

# %% [markdown]
# At the scale `small` "1k" is 400 samples and "5k" is 1,000: a fifth, but at least 400.

# %% [markdown]
# ## At full width
#
# Two pairs of VGG11s on non-IID parts with the paper's numbers of samples, all 10,000 test images, one fusion seed; the 400
# samples of the other tables beside them. One pair was trained as in the paper, for 200 epochs, the given one for 14. What is
# not measured has no number.

# %%
noniid = table("vgg11-noniid", scale=SCALE, columns=("2-way",), **asked).column("2-way")
SIZES = {"400": "2-way", "1,000": "1k samples", "1,000, augmented": "1k samples, augmented", "5,000": "5k samples"}
ROWS = ("KF-Linear, uniform", "KF-Linear, conductance", "KF-Gradient, uniform")


def at_full_width(given):
    """Accuracy (%) of the first fusion of the given pair, or of the one that was trained, for each number of samples."""
    columns = [column for column in (noniid, *noniid.scales, *pair.columns) if bool(column.given) == given]
    first = {column.name: column for column in reversed(columns)}
    known = {words: first[name] for words, name in SIZES.items() if name in first}
    return pd.DataFrame(
        {words: [next(iter(column.line(row).values), "-") for row in ROWS] for words, column in known.items()}, ROWS
    )


trained, first_seed = at_full_width(given=False), at_full_width(given=True)
print("trained as in the paper")
display(trained)
print("the given pair")
display(first_seed)

# %% [markdown]
# ## Do the signs agree?
#
# Each difference that the paper's numbers claim, and ours with its 95 % interval over the same test images. Rows that lose by
# dozens of points are counted only. Between scores, and against the best parent, with the most samples.

# %%
differences(many, LIGHT)

# %% [markdown]
# ## What agrees, what does not, and why
#
# **Agrees** (scale `small`, one seed, intervals of two points to either side): fewer samples cost KF-Gradient 2.6 points with
# conductance (60.5 to 57.9; paper 76.2 to 71.7) and 4.7 with uniform scores (54.7 to 50.05; paper 2.9). Four augmented copies
# bring all of it back: 61.05 and 55.4.
#
# **Does not:** in the paper scores change little here and uniform is best with 1,000; ours differ by five points and more in
# favour of conductance, for our parents are weaker and know less of the classes they saw little of. Augmented copies are worth
# as much as further samples here, where the paper has them a little below.
#
# **Not in the paper:** at the scale `small` the closed form hardly needs the samples (KF-Linear with conductance 60.3, 60.3
# augmented, 61.8 with more). At full width, on the given pair, it does need them: with uniform scores 71.0 from 400 samples,
# 71.8 from 1,000 (0.9 more, interval 0.2 to 1.6), 73.6 from 5,000 (2.6 more, 2.0 to 3.3). The gradient fit gets nothing out of
# 1,000 there (72.6 and 72.6, -0.6 to 0.7).
#
# **Trained as in the paper** the closed form hardly needs them at full width either: with uniform scores 79.1 from 400 samples,
# 79.4 from 1,000, 79.7 from 5,000. Most neurons of these networks are silent (notebook 51), so there is less to fit. The
# paper's three to five points are lost by the gradient fit, which was not measured here.

# %% [markdown]
# ## Every row, also ours
#
# With the reasons of what has no number.

# %%
display(sizes.show())
if pair.columns[0].badge != few.badge:
    display(pair.show())

# %% tags=["guard"]
if SCALE is None:  # what is said above is said of the records that come with the project
    row = "KF-Gradient, conductance"
    assert augmented.number(row) > few.number(row) + 1
    assert many.number(row) > few.number(row) + 1
    assert abs(augmented.number("KF-Linear, conductance") - few.number("KF-Linear, conductance")) < 1
    at_400_and_1000 = first_seed[["400", "1,000"]]
    if "-" not in {*first_seed.loc["KF-Linear, uniform"], *at_400_and_1000.to_numpy().flat}:  # all are measured
        fewest, more, copies, most = first_seed.loc["KF-Linear, uniform"]
        assert fewest + 0.5 < more < copies < most - 1 < fewest + 2
        gains = at_400_and_1000["1,000"] - at_400_and_1000["400"]
        assert 0 < gains["KF-Linear, conductance"] < 1
        assert abs(gains["KF-Gradient, uniform"]) < 0.5
