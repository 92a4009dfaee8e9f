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
# # VGG11 on CIFAR-10, non-IID splits
#
# **What the paper claims** (tables `tab:vgg11-noniid-cifar10-acc` and its short form). Each network saw an uneven share of
# every class, drawn from a Dirichlet distribution. Fused from 400 images of the first network's data, the closed forms come
# within three points of the ensemble and beat the best parent with two networks; with four and eight KF-Linear is level with
# it. Importance scores matter more to Hungarian groups than to k-means. Git Re-Basin and OTFusion stay ten points and more
# below KF-Linear.
#
# Seconds: it reads records. What is missing is measured by `retrofit reproduce vgg11-noniid`.

# %% tags=["parameters"]
SCALE = None  # None: each row at the fullest scale that is measured; smoke, small, evening, paper
RUNS = "../runs"  # results of `retrofit reproduce` on this machine
RESULTS = "../benchmarks/results/experiments"  # results that come with the project
COLUMNS = None  # only these; None: all

# %%
from IPython.display import display

from retrofit_app.figures import LIGHT, Network
from retrofit_app.figures.classes import class_sources
from retrofit_app.figures.paper import differences
from retrofit_core.experiments import table

vgg = table("vgg11-noniid", scale=SCALE, columns=COLUMNS, runs=RUNS, results=RESULTS)
two_way = vgg.column("2-way")
GIVEN = "given VGG11s of full width, 14 epochs"
trained, given = (two_way.at("paper"), two_way.at(GIVEN)) if SCALE is None else (two_way, None)

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
# dozens of points are counted only. First two networks trained as in the paper (200 epochs, three splits), then the given pair
# (14 epochs, three fusion seeds).

# %%
differences(trained, LIGHT)

# %%
if given is not None:
    display(differences(given, LIGHT))

# %% [markdown]
# ## Where does each class's knowledge come from?
#
# The parents are strong where they saw many images; the fused network takes from both.

# %%
ROWS = ["Parent 0", "Parent 1", "Ensemble", "KF-Linear, conductance", "HF-Linear, conductance"]
ROWS += ["Git-Re-Basin, conductance"]
networks = [
    Network(row, "fused" if "F-" in row else "reference", trained.number(row), trained.per_class(row)) for row in ROWS
]
class_sources(networks[:2], networks[2:], trained.classes, LIGHT)

# %% [markdown]
# ## What agrees, what does not, and why
#
# **Trained as in the paper** (three splits): of 40 signs 23 are the paper's, 13 undecided and 4 contradicted; of the seven that
# are clear in the paper and not easy 5, 2 and 0. KF-Linear with its best scores is 4.8 above the best parent (-0.1 to 10.0;
# paper 2.8) and 3.4 below the ensemble (paper 2.5). The contradicted ones are within the paper's noise: KF-Gradient is 1.1
# above LP, OTFusion is better with DeepLIFT than with conductance, and conductance costs KF-Gradient 1.0 and KF-Linear 1.2,
# where it brings 0.6 and 1.1 in the paper. It brings HF-Linear 5.6.
#
# **The given pair:** 28 of 40 signs agree, 11 are undecided, one is contradicted (KF-Gradient is 1.2 above LP). KF-Linear and
# KF-Gradient with conductance beat the best parent by 3.9 and 4.0.
#
# **More networks:** of four, the fused one falls further below the best parent than in the paper: KF-Linear by 5.8, KF-Gradient
# by 4.4 (paper 0.3 and 2.0). Of eight, KF-Linear is 1.2 above the best parent (paper 0.9 below), and LP 11 *below* it, not 2
# above: it keeps the features of parent 0, the weakest of our eight.
#
# **Why:** silent neurons. Grouped by activity (ours) KF-Linear of four has 66.8 in place of 55.0 with uniform scores. Groups
# matter, not the fit alone: neurons grouped at random and fitted in the same way lose 11 points with two networks, 35 with four
# and 15 with eight.

# %% [markdown]
# ## Every row, also ours
#
# With the reasons of what has no number.

# %%
vgg.show()

# %% tags=["guard"]
if SCALE is None:  # what is said above is said of the records that come with the project, at these scales
    pair, four_way, eight_way = given, vgg.column("4-way").at("evening"), vgg.column("8-way").at("evening")
    assert trained.claim("KF-Linear", "best parent").verdict == "undecided"
    assert trained.claim("KF-Gradient", "LP").verdict == "contradicted"
    assert max(trained.gap("KF-Linear, conductance", "KF-Linear, uniform").seeds) < -0.7
    assert trained.gap("HF-Linear, conductance", "HF-Linear, uniform").points > 5
    assert pair.claim("KF-Linear", "best parent").verdict == "agreed"
    assert pair.claim("KF-Gradient", "best parent").verdict == "agreed"
    assert pair.claim("KF-Gradient", "LP").verdict == "contradicted"
    for column, least in ((pair, 5), (four_way, 30), (eight_way, 10)):
        assert column.gap("KF-Linear, conductance", "Random-Linear, conductance").points > least
    assert four_way.claim("KF-Linear", "best parent").ours < -5 < four_way.claim("KF-Gradient", "best parent").ours < 0
    assert four_way.gap("KF-Linear, uniform, by activity", "KF-Linear, uniform").points > 10
    assert 0 < eight_way.claim("KF-Linear", "best parent").ours < 2
    assert eight_way.claim("KF-Linear", "LP").verdict == "contradicted"
