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
# **How long it takes.** Seconds: the notebook reads records. What is missing is measured by `retrofit reproduce`;
# without a name, it says which tables there are. The scale stands on every number.

# %% tags=["parameters"]
SCALE = None  # None: each row at the fullest scale that is measured; smoke, small, evening, paper
RUNS = "../runs"  # results of `retrofit reproduce` on this machine
RESULTS = "../benchmarks/results/experiments"  # results that come with the project
COLUMNS = None  # only these; None: all

# %%
from IPython.display import display

from retrofit_app.figures import LIGHT, Network
from retrofit_app.figures.classes import class_sources
from retrofit_app.figures.paper import beside_in_parts, differences
from retrofit_core.experiments import table

vgg = table("vgg11-noniid", scale=SCALE, columns=COLUMNS, runs=RUNS, results=RESULTS)
two_way = vgg.column("2-way")
GIVEN = "given VGG11s of full width, 14 epochs"
trained, given = (two_way.at("paper"), two_way.at(GIVEN)) if SCALE is None else (two_way, None)

# %% [markdown]
# ## Two networks, trained as in the paper
#
# Full width and 200 epochs, three splits and one fusion seed each, on an H100 (some rows on a CPU); KF-Gradient of the first two
# splits only.
#
# **How to read it.** Hollow diamonds are the paper's numbers, dots ours, with their 95 % interval. Our networks
# are weaker than the mean of the paper's five pairs, so all dots lie further left: what counts is how the rows lie to each
# other, above all to the two dotted lines.

# %%
display(*beside_in_parts(trained, LIGHT))

# %% [markdown]
# Does each difference that the paper's numbers claim have the same sign here? The intervals compare two networks on the same
# test images. Average, KD, OTFusion and Git Re-Basin lose by dozens of points, and are counted only.

# %%
differences(trained, LIGHT)

# %% [markdown]
# ## Where each class's knowledge came from
#
# Accuracy on each class: the parents are strong where they saw many images; the fused network takes from both.

# %%
ROWS = [
    "Parent 0",
    "Parent 1",
    "Ensemble",
    "KF-Linear, conductance",
    "HF-Linear, conductance",
    "Git-Re-Basin, conductance",
]
networks = [
    Network(row, "fused" if "F-" in row else "reference", trained.number(row), trained.per_class(row)) for row in ROWS
]
class_sources(networks[:2], networks[2:], trained.classes, LIGHT)

# %% [markdown]
# ## Two networks, given: 14 epochs
#
# The same with three fusion seeds, KF-Gradient and rows that the paper does not have. These networks were trained for a shorter
# time. In further tables, a row that stands at another scale than the others has a square, and the scale behind its name.

# %%
if given is not None:
    display(*beside_in_parts(given, LIGHT), differences(given, LIGHT))

# %% [markdown]
# ## Four and eight networks
#
# How far do the paper's methods carry? With more networks, each saw fewer images and is weaker.

# %%
for column in vgg.columns[1:]:
    display(*beside_in_parts(column, LIGHT))
    if any(claim.ours is not None for claim in column.claims):
        display(differences(column, LIGHT))

# %% [markdown]
# ## All numbers
#
# Deviations are over seeds; "within 2 sigma" needs several seeds on both sides.

# %%
vgg.show()

# %% [markdown]
# How one of them came about: the command, the machine and the commit, and digests of what went in.

# %%
two_way.recipe("KF-Linear, conductance")

# %% [markdown]
# ## What agrees, what does not, and why
#
# **Trained as in the paper** (three splits; five fusion seeds of HF- and KF-Linear on the first one, else one): of 40 signs 23
# are the paper's, 13 undecided and 4 contradicted; of the seven that are clear in the paper and not easy 5, 2 and 0. Splits
# differ by more than methods, so that an interval over three of them is wide: KF-Linear with its best scores is 4.8 above the
# best parent (-0.1 to 10.0; 5.1, 6.7 and 2.6 in the three; paper 2.8) and 3.4 below the ensemble (paper 2.5). The contradicted
# ones are within the paper's noise: KF-Gradient is 1.1 above LP, OTFusion is better with DeepLIFT than with conductance, and
# conductance costs KF-Gradient 1.0 and KF-Linear 1.2 (0.8 to 1.7 in the three), where it brings 0.6 and 1.1 in the paper. It
# brings HF-Linear 5.6. Of methods that the paper's table lacks (first two splits), PLeaS has 76.1 with REPAIR, ZipIt 65.0 and
# OTFusion 60.9, and KF-Linear 80.2. REPAIR and groups by activity, which matter where networks saw the same, bring it 0.2 and
# 0.3: it averages few live neurons here (notebook 51). Random groups, with uniform scores, are 7.2 below KF-Linear (first and
# third split) and 1.7 below HF-Linear.
#
# **Agrees** (the given pair, means of three fusion seeds): 28 of 40 signs; one is contradicted and 11 are undecided, ten of
# these within the paper's own noise. KF-Linear and KF-Gradient with conductance beat the best parent
# clearly (by 3.9 and 4.0) and stay a few points below the ensemble. Conductance is worth most to Hungarian groups and to Git
# Re-Basin; for KF and HF DeepLIFT is level with it. With four networks at half the width all 13 signs are the paper's that are
# measured.
#
# **Does not:** KF-Gradient is
# 1.2 above LP (paper 0.6 below): with conductance KF-Gradient is level with KF-Linear and HF-Gradient 0.9 above HF-Linear, with
# uniform scores both are ahead (1.2 and 6.2), where the paper has them up to 1.7 behind. Networks that hold what their parents
# know are less accurate, because these parents are weaker. With four networks the fused one falls further below the best parent
# than in the paper: KF-Linear by 5.8, KF-Gradient by 4.4 (paper 0.3 and 2.0), the ensemble is 5.1 above it. With eight KF-Linear
# is 1.2 above the best parent (interval 0.3 to 2.2; paper 0.9 below), and LP 11 *below* it, not 2 above: LP keeps the features
# of parent 0, which is the weakest of our eight.
#
# **Why four fall short.** One of the four stands 7 points above the others; of the eight three are level. Not for want of
# samples: those of all four networks bring KF-Linear 0.3 points. Part of it are silent neurons, whose means are more silent
# still the more of them stand in a group: grouped by activity (ours) KF-Linear has 67.3 in place of 64.2 with conductance,
# and 66.8 in place of 55.0 with uniform scores; of eight, 58.6 and 57.7, 58.2 and 51.6. And a row that the paper lacks says
# why the method works: neurons grouped at random and fitted in the same way lose 11 points with two networks, 35 with four
# and 15 with eight, so the grouping counts, not the fit alone.

# %%
if SCALE is None:  # what is said above is said of the records that come with the project, at these scales
    pair, four_way, eight_way = given, vgg.column("4-way").at("evening"), vgg.column("8-way").at("evening")
    assert trained.claim("KF-Linear", "best parent").verdict == "undecided"
    assert trained.claim("KF-Linear", "best parent").ours > 4 > trained.claim("HF-Linear", "best parent").ours > 3
    assert trained.claim("KF-Gradient", "LP").verdict == "contradicted"
    assert max(trained.gap("KF-Linear, conductance", "KF-Linear, uniform").seeds) < -0.7
    assert trained.gap("HF-Linear, conductance", "HF-Linear, uniform").points > 5
    for row in ("PLeaS, REPAIR", "ZipIt, REPAIR", "OTFusion, uniform, REPAIR"):
        assert trained.gap("KF-Linear, uniform", row).points > 4
    for row in ("KF-Linear, uniform, REPAIR", "KF-Linear, uniform, by activity"):
        assert 0 < trained.gap(row, "KF-Linear, uniform").points < 0.4
    assert trained.gap("KF-Linear, uniform", "Random-Linear, uniform").interval[0] > 6
    assert trained.gap("HF-Linear, uniform", "Random-Linear, uniform").interval[0] > 0
    assert pair.claim("KF-Linear", "best parent").verdict == "agreed"
    assert pair.claim("KF-Linear", "Git-Re-Basin").verdict == "agreed"
    assert pair.claim("KF-Gradient", "best parent").verdict == "agreed"
    assert pair.claim("KF-Gradient", "LP").verdict == "contradicted"
    assert abs(pair.gap("KF-Gradient, conductance", "KF-Linear, conductance").points) < 0.5
    assert pair.gap("KF-Gradient, uniform", "KF-Linear, uniform").interval[0] > 0
    assert pair.gap("HF-Gradient, uniform", "HF-Linear, uniform").interval[0] > 5
    for column, least in ((pair, 5), (four_way, 30), (eight_way, 10)):
        assert column.gap("KF-Linear, conductance", "Random-Linear, conductance").points > least
    assert four_way.claim("KF-Linear", "best parent").ours < -5 < four_way.claim("KF-Gradient", "best parent").ours < 0
    assert four_way.gap("KF-Linear, uniform, by activity", "KF-Linear, uniform").points > 10
    assert four_way.gap("KF-Linear, conductance, all data", "KF-Linear, conductance").points < 1
    assert 0 < eight_way.claim("KF-Linear", "best parent").ours < 2
    assert eight_way.claim("KF-Linear", "LP").verdict == "contradicted"
    assert eight_way.gap("KF-Linear, uniform, by activity", "KF-Linear, uniform").points > 5
