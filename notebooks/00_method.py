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
# # Two half-blind networks become one: the method, step by step
#
# **What is shown.** Two small networks each learn five of the ten digits. We join them into *one* network of
# the same size that knows all ten. Nothing is trained for that: we watch the two networks work on 400 images,
# group neurons that behave alike and solve linear equations. At the end the library's `fuse` does it in one
# call and gives the same weights.
#
# **How long it takes.** About 20 seconds on one processor core. No network, no graphics card.
#
# The method is Algorithm 1 of the paper "model fusion via activation retrofitting". Its words and symbols:
#
# | | |
# |---|---|
# | **base models** $M_1 \dots M_n$ (also: parents) | the trained networks, here $n = 2$ |
# | **fused model** $\mathcal F$ | the network we build |
# | **level** $l$ | one step of a network, here one linear layer with the activation function before it |
# | $z$ | outputs of a level in all base models, side by side; $z_j$ is neuron $j$ |
# | $s_j$ | importance of neuron $j$ |
# | $R_k$ | the group of base neurons that fused neuron $k$ shall stand for |
# | $T_k$ | the target of fused neuron $k$: the weighted mean of its group |
# | $A$ | the averaging matrix, $T = zA$ |
# | $x$, $V$ | inputs of the fused level and its weights, fitted so that $xV \approx T$ |

# %%
import copy

import matplotlib.pyplot as plt
import torch
from matplotlib.colors import LinearSegmentedColormap

from retrofit_core import METHODS, ensemble, evaluate, fuse, importance_scores, train
from retrofit_core.baselines import average
from retrofit_core.data import load
from retrofit_core.data.sampling import balanced
from retrofit_core.data.splits import sharded
from retrofit_core.fusion.fit import Ridge
from retrofit_core.fusion.grouping import KMeans, SameIndex, ordered_like
from retrofit_core.fusion.importance import Conductance
from retrofit_core.fusion.moments import MomentSums, approximation_error, grouping_error, solve
from retrofit_core.fusion.results import principal_components
from retrofit_core.networks.architectures import build
from retrofit_core.system.runtime import Runtime

BLUE, ORANGE, TEAL, GREY, INK = "#0072B2", "#D55E00", "#0B6E6E", "#8A8A85", "#111111"
PARENTS = (BLUE, ORANGE)  # M1, M2 in every picture
SIGNED = LinearSegmentedColormap.from_list("signed", [BLUE, "white", ORANGE])  # negative, zero, positive
plt.rcParams.update({"figure.dpi": 100, "font.size": 11, "axes.titlesize": 12, "axes.titlelocation": "left"})
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.constrained_layout.use": True})

# %% [markdown]
# ## The two base models
#
# The data are 8 x 8 images of handwritten digits. The ten classes are dealt out: $M_1$ gets all training
# images of five digits, $M_2$ all images of the other five. Nobody sees all ten.

# %%
images, test = load("digits", "train"), load("digits", "test")
parts = sharded(images.labels, 2, seed=1)  # row numbers of each base model's training images
fig, axes = plt.subplots(1, 10, figsize=(9, 1.5))
for k, rows in enumerate(parts):
    for i, digit in enumerate(images.labels[rows].unique().tolist()):
        ax, row = axes[5 * k + i], rows[images.labels[rows] == digit][0]
        ax.imshow(images.pixels([row])[0, 0], cmap="Greys")
        ax.set(xticks=[], yticks=[], title=f"{digit}")
        ax.spines[:].set(visible=True, color=PARENTS[k], linewidth=3)
fig.supxlabel(
    f"left, blue: {len(parts[0])} images for M1        right, orange: {len(parts[1])} images for M2", fontsize=11
)
plt.show()

# %% [markdown]
# Each base model is a plain network, 64 pixels to 32 to 32 neurons to 10 classes. Each is trained by itself,
# from its own random start.
#
# **Claim: neither can do the job, nor can the average of their weights.** A base model cannot get more than
# about half of the test images right. Neuron 5 of $M_1$ and neuron 5 of $M_2$ have nothing to do with each
# other, so the mean of their weights means nothing. Asking both networks and averaging their *answers* (the
# ensemble) works, but it needs both networks for ever. We want one.

# %%
models = [build({"architecture": "mlp", "sizes": [64, 32, 32, 10]}, seed=k) for k in (0, 1)]
for k, model in enumerate(models):
    train(model, images, parts[k], epochs=30, seed=k)
contestants = {"M1": models[0], "M2": models[1], "average of weights": average(models), "ensemble": ensemble(models)}
accuracy = {name: evaluate(model, test)["accuracy"] for name, model in contestants.items()}
for name, value in accuracy.items():
    print(f"{name:20} {value:5.1f} % of the test images")
assert max(accuracy["M1"], accuracy["M2"], accuracy["average of weights"]) < 60 < accuracy["ensemble"]

# %% [markdown]
# ## Levels
#
# **Claim: a network is a chain of levels.** We cut after every linear layer, before its activation function: each
# level reads what the one before puts out. Running the levels one after the other gives the network's output, bit
# for bit. The network to be fused starts as a copy of $M_1$; all its weights will be overwritten.

# %%
samples = balanced(images.labels, 400, rows=parts[0])  # as in the paper: the fusion images come from M1's data
X = images.inputs(samples)  # (400, 1, 8, 8)
fused_model = copy.deepcopy(models[0])
fused = [fused_model.fc1, fused_model.fc2, fused_model.fc3]
for number, layer in enumerate(fused, 1):
    print(f"level {number}: {layer.in_features} inputs, {layer.out_features} neurons")


@torch.no_grad()
def run(model, images):
    """Inputs and outputs of each level, (400, inputs) and (400, neurons)."""
    inputs, outputs = [images.flatten(1)], []
    for layer in (model.fc1, model.fc2, model.fc3):
        outputs.append(layer(inputs[-1]))
        inputs.append(outputs[-1].relu())
    return inputs, outputs


@torch.no_grad()
def write(layer, V):
    """Put V (inputs + 1, neurons), with the bias in its last row, into a level."""
    layer.weight.copy_(V[:-1].T)
    layer.bias.copy_(V[-1])


of_parents = [run(model, X)[1] for model in models]
assert torch.equal(of_parents[0][-1], models[0](X))

# %% [markdown]
# ## Level 1
#
# **Line 2 of the algorithm: look at the neurons at work.** All base models run on the same 400 fusion images.
# Their outputs side by side are $z$: one row per image, one column per neuron, 32 + 32 = 64 columns. A neuron
# *is* its column: two neurons are alike if their columns are alike.
#
# **Claim: both halves have something to say.** The 400 images show only the five digits of $M_1$. Still,
# $M_2$'s neurons tell these digits apart: along a line of the picture the colour changes from digit to digit.

# %%
z = torch.cat([outputs[0] for outputs in of_parents], 1).double()  # (400, 64)
print("z:", tuple(z.shape), "\n", z[:3, :6].numpy().round(2), "...")
by_digit = images.labels[samples].argsort(stable=True)
fig, ax = plt.subplots(figsize=(9, 3.8))
picture = ax.imshow(z[by_digit].T, aspect="auto", cmap=SIGNED, vmin=-4, vmax=4, interpolation="nearest")
starts = torch.bincount(images.labels[samples], minlength=10).cumsum(0)
shown = images.labels[samples].unique().tolist()
ax.set_xticks([float(starts[d]) - 40 for d in shown], [f"digit {d}" for d in shown])
ax.set(yticks=[15.5, 47.5], yticklabels=["M1's\nneurons", "M2's\nneurons"])
ax.axhline(31.5, color=INK, linewidth=1)
fig.colorbar(picture, label="output $z_j$")
spread = z.std(0)
ax.set_title(f"Both halves react: mean spread {spread[:32].mean():.1f} in M1, {spread[32:].mean():.1f} in M2")
plt.show()

# %% [markdown]
# **Line 3: how much does each neuron matter?** The score $s_j$ is the neuron's *conductance*: how much of the
# decision for the right class flows through it, while the image is faded in from plain grey. Each base model
# is asked about 400 of its own training images, with their labels. The scores of one model and level are
# scaled to sum 1.
#
# **Claim: the scores are far from equal.** So a mean over a group should not treat its neurons as equals.

# %%
own_data = []
for rows in parts:
    own = balanced(images.labels, 400, rows=rows)
    own_data.append((images.inputs(own), images.labels[own]))
scores = [importance_scores(model, x, y, "conductance").values for model, (x, y) in zip(models, own_data, strict=True)]
s = torch.cat([parent[0] for parent in scores])  # (64,)
fig, ax = plt.subplots(figsize=(8, 2.8))
ax.hist([s[:32].numpy(), s[32:].numpy()], bins=16, color=PARENTS, label=["M1", "M2"], edgecolor="white")
ax.axvline(1 / 32, color=INK, linestyle="--", linewidth=1)
ax.annotate("uniform: 1/32", (1 / 32, ax.get_ylim()[1]), xytext=(4, -8), textcoords="offset points", fontsize=10)
ax.set(xlabel="importance $s_j$", ylabel="neurons")
top = s.sort(descending=True).values
ax.set_title(
    f"The 16 most important of 64 neurons carry {50 * top[:16].sum():.0f} % of all importance, "
    f"the 16 least {50 * top[-16:].sum():.0f} %"
)
ax.legend(frameon=False)
plt.show()
assert top[:16].sum() > 2 * top[-16:].sum()

# %% [markdown]
# **The moments.** Grouping and fit need neither images nor activations, only sums over the images: $x^\top
# x$, $x^\top z$ and $z^\top z$. Here $x$ holds the inputs of the *fused* level (64 pixels and a 1 for the
# bias).
#
# **Claim: sums are enough and they add up.** Two batches of 200 images give the same sums as all 400 at once.
#
# **Projection.** A linear level can only produce linear combinations of its inputs. So each $z_j$ is replaced
# by the best that the fused level can make of it: its ridge fit on $x$. The ridge $\lambda$ keeps the weights
# small where the images say nothing. The *projected Gram matrix* $G$ holds the inner products of these 64
# fits. Distances between neurons follow from it: $\lVert\varphi_i-\varphi_j\rVert^2 = G_{ii} + G_{jj} -
# 2G_{ij}$.
#
# **Claim: at level 1 almost nothing is lost.** Fused model and base models read the same pixels, so every
# base neuron is within reach. Only the ridge takes a little. At later levels this will change.

# %%
x = torch.cat([X.flatten(1).double(), torch.ones(400, 1)], 1)  # (400, 65)
sums, halves = (MomentSums(64, 65, bias=True) for _ in range(2))
sums.add(z, x)
for half in (slice(0, 200), slice(200, 400)):
    halves.add(z[half], x[half])
sums, halves = sums.finish(), halves.finish()
assert torch.allclose(sums.zz, z.T @ z) and torch.allclose(sums.zz, halves.zz) and torch.allclose(sums.xz, halves.xz)
fig, axes = plt.subplots(1, 3, figsize=(9, 3.1))
for ax, (name, matrix) in zip(axes, {"x'x": sums.xx, "x'z": sums.xz, "z'z": sums.zz}.items(), strict=True):
    limit = matrix.abs().quantile(0.98)
    ax.imshow(matrix, cmap=SIGNED, vmin=-limit, vmax=limit)
    ax.set(title=f"{name}  {tuple(matrix.shape)}", xticks=[], yticks=[])
fig.supxlabel(
    f"{400 * (64 + 65):,} numbers became {sum(m.numel() for m in (sums.xx, sums.xz, sums.zz)):,}, "
    "whatever the number of images",
    fontsize=11,
)
plt.show()
solution = solve(sums, "auto")
G = solution.gram  # (64, 64)
kept = G.diagonal().sum() / sums.zz.diagonal().sum()
print(f"lambda = {solution.strength:.2f} = 0.01 x the mean of the diagonal of x'x, the library's default")
print(f"G: {tuple(G.shape)}; it holds {100 * kept:.1f} % of the neurons' energy (the sum of the squared z)")
assert 0.9 < kept <= 1

# %% [markdown]
# **Line 4: group the neurons.** 64 base neurons shall be served by 32 fused neurons. k-means finds 32 groups
# $R_1 \dots R_{32}$ with small weighted distances to their means. It reads distances from $G$. The groups'
# order is free; the library numbers them so that group $k$ lies near neuron $k$ of $M_1$. (`fuse` seeds level
# $l$ with `seed * 1_000_003 + l - 1`; we do the same, with seed 0.)

# %%
groups = KMeans()(G, s, (32, 32), 32, generator=torch.Generator().manual_seed(0))
groups = ordered_like(groups, sums.zz, s, torch.arange(32))
R = [(groups.labels == k).nonzero().flatten().tolist() for k in range(32)]
for k in sorted(range(32), key=lambda k: -len(R[k]))[:4]:
    print(f"R_{k}:", ", ".join(f"M{1 + j // 32} neuron {j % 32}" for j in R[k]))
mixed = [k for k in range(32) if min(R[k]) < 32 <= max(R[k])]
print(f"{len(mixed)} groups have members from both models, {sum(len(r) == 1 for r in R)} groups have a single member")
assert sorted(j for r in R for j in r) == list(range(64)) and min(map(len, R)) >= 1

# %% [markdown]
# **Claim: the groups are the pattern in $G$.** Left: the neurons in their own order, no pattern in sight.
# Right: the same matrix, sorted by groups, the largest first. Like neurons now stand together, as orange
# blocks along the diagonal.

# %%
length = G.diagonal().sqrt()
cosine = G / length / length[:, None]
order = torch.tensor([j for r in sorted(R, key=len, reverse=True) for j in r])
same = groups.labels[:, None] == groups.labels
inside, outside = cosine[same & ~torch.eye(64, dtype=torch.bool)].mean(), cosine[~same].mean()
fig, axes = plt.subplots(1, 2, figsize=(9, 4.4))
for ax, chosen, title in zip(
    axes, (torch.arange(64), order), ("by model: M1, then M2", "sorted by groups"), strict=True
):
    picture = ax.imshow(cosine[chosen][:, chosen], cmap=SIGNED, vmin=-1, vmax=1)
    ax.set(title=title, xticks=[], yticks=[], xlabel="neuron", ylabel="neuron")
edge = -0.5
for size in sorted(map(len, R), reverse=True):
    if size > 1:
        axes[1].add_patch(plt.Rectangle((edge, edge), size, size, fill=False, color=INK, linewidth=1))
    edge += size
fig.colorbar(picture, ax=axes, label="cosine of two neurons, from $G$", shrink=0.8)
fig.suptitle(f"Mean cosine {inside:.2f} within groups, {outside:.2f} between groups", x=0.02, ha="left", fontsize=12)
plt.show()
assert inside > outside + 0.3

# %% [markdown]
# **The same groups as a picture of points.** Each neuron is a point with 400 coordinates, one per image. The
# two directions of the greatest spread (principal components) can be drawn. Lines tie the members of a group
# to their weighted mean. Groups with one member are grey. Colours only separate neighbours; they name no
# group.
#
# **Claim: important neurons get fused neurons of their own.** Moving a neuron costs its importance times the
# squared distance. So the large marks stand alone or near their mean, and the small ones have to share.

# %%
points, explained = principal_components(sums.zz, 2)
targets = groups.targets(s)
A = targets.A  # (64, 32)
centres = A.T @ points
several = sorted(
    (k for k in range(32) if len(R[k]) > 1), key=lambda k: float(torch.atan2(centres[k, 1], centres[k, 0]))
)
hues = {k: (BLUE, "#E69F00", "#009E73", "#CC79A7", "#56B4E9", ORANGE)[i % 6] for i, k in enumerate(several)}
fig, ax = plt.subplots(figsize=(7.5, 6))
for j, k in enumerate(groups.labels.tolist()):
    hue = hues.get(k, GREY)
    ax.plot(*torch.stack([points[j], centres[k]]).T, color=hue, linewidth=1.2, zorder=1)
    ax.scatter(
        *points[j], s=60 * 32 * s[j] + 15, marker="oD"[j // 32], color=hue, edgecolor=INK, linewidth=0.8, zorder=2
    )
for k in several:
    ax.scatter(*centres[k], marker="+", s=50, color=INK, linewidth=1.2, zorder=3)
ax.set(
    xlabel=f"component 1 ({100 * explained[0]:.0f} % of the variance)",
    ylabel=f"component 2 ({100 * explained[1]:.0f} %)",
)
alone, sharing = (s[[j for r in R if (len(r) == 1) == single for j in r]].mean() for single in (True, False))
ax.set_title(
    f"Mean importance {alone:.3f} of neurons alone in their group, {sharing:.3f} of the others\n"
    "circle: M1, diamond: M2, area: importance, +: weighted mean"
)
plt.show()
assert alone > sharing

# %% [markdown]
# **Lines 5 to 7: the targets.** Fused neuron $k$ shall behave like the importance-weighted mean of its group,
# $T_k = \sum_{j\in R_k} s_j z_j \big/ \sum_{j\in R_k} s_j$. Written for all $k$ at once this is $T = zA$.
# Column $k$ of $A$ holds the shares of group $k$, which sum to 1.

# %%
T = z @ A  # (400, 32)
by_interest = sorted(several, key=lambda k: (k not in mixed, abs(len(R[k]) - 3)))  # across both models first, small
k = by_interest[0]
members = sorted(R[k], key=lambda j: -s[j])
assert torch.allclose(T[:, k], sum(s[j] * z[:, j] for j in R[k]) / sum(s[j] for j in R[k]))
assert torch.allclose(A.sum(0), torch.ones(32).double())
fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.8))
axes[0].imshow(A.T, cmap="Greys", aspect="auto", vmin=0, vmax=1, interpolation="nearest")
axes[0].axvline(31.5, color=INK, linewidth=1)
axes[0].set(xticks=[15.5, 47.5], xticklabels=["M1's neurons", "M2's neurons"], ylabel="fused neuron $k$")
axes[0].set_title("$A$ transposed: white 0, black 1")
ascending = T[:, k].argsort()
for j, marker in zip(members, "osD^v", strict=False):
    name = f"M{1 + j // 32} neuron {j % 32}: {100 * A[j, k]:.0f} %"
    axes[1].plot(z[ascending, j][::5], marker, markersize=4, color=PARENTS[j // 32], alpha=0.55, label=name)
axes[1].plot(T[ascending, k][::5], color=INK, linewidth=2, label=f"target $T_{{{k}}}$")
axes[1].set(xlabel="every fifth fusion image, by target", ylabel="output", xticks=[])
first = torch.corrcoef(torch.stack([T[:, k], z[:, members[0]]]))[0, 1]
axes[1].set_title(f"$T_{{{k}}}$ and its most important member: correlation {first:.2f}")
axes[1].legend(frameon=False, fontsize=10, loc="upper left", bbox_to_anchor=(1, 1), handletextpad=0.3)
plt.show()

# %% [markdown]
# **Lines 8 and 9: fit the weights.** The level is linear, so the best $V$ with $xV \approx T$ is the solution
# of linear equations, no training loop. The scores decide the targets; they cancel in the fit of each neuron.
# The solution is written into the fused network.
#
# **Claim: a fused neuron looks like its group.** At level 1 the weights of a neuron are an 8 x 8 image. Each
# row is a group: left its members (the four most important) with their shares, right the fused neuron.

# %%
V = solution.weights(A)  # (65, 32), bias in the last row
write(fused[0], V)
weights = torch.cat([model.fc1.weight.detach() for model in models])  # (64, 64)
alike = torch.cosine_similarity(weights.T.double() @ A, V[:-1], dim=0)  # (32,)
fig, axes = plt.subplots(3, 5, figsize=(7.2, 5.2))
for row, k in zip(axes, by_interest[:3], strict=True):
    members = sorted(R[k], key=lambda j: -s[j])[:4]
    for ax in row[len(members) : 4]:
        ax.axis("off")
    for ax, j in zip([*row[: len(members)], row[4]], [*members, None], strict=True):
        colour = TEAL if j is None else PARENTS[j // 32]
        name = f"fused {k}" if j is None else f"M{1 + j // 32} n. {j % 32}: {100 * A[j, k]:.0f} %"
        ax.imshow((V[:-1, k] if j is None else weights[j]).reshape(8, 8), cmap=SIGNED, vmin=-0.5, vmax=0.5)
        ax.set(xticks=[], yticks=[])
        ax.set_title(name, color=colour, fontsize=10)
        ax.spines[:].set(visible=True, color=colour, linewidth=2)
fig.supxlabel(
    f"all 32 groups: cosine of fused weights and the group's mean weights {alike.mean():.2f} on average", fontsize=11
)
plt.show()
assert alike.mean() > 0.8

# %% [markdown]
# **What was lost, and where?** Each base neuron $j$ is now represented by fused neuron $k$ of its group. The
# *representation cost* is $J = \sum_k\sum_{j\in R_k} s_j \lVert z^{\mathcal F}_k - z_j\rVert^2$. Theorem 1
# says that it has exactly two parts:
#
# - **grouping error** $\sum_k\sum_{j\in R_k} s_j\lVert T_k - z_j\rVert^2$: neurons in one group differ;
# - **approximation error** $\sum_k\sum_{j\in R_k} s_j\lVert z^{\mathcal F}_k - T_k\rVert^2$: targets are missed.
#
# The mixed term vanishes because $T_k$ is the weighted mean. We check it with the outputs of the fused
# network itself. (Eq. 1 of the paper lets every *image* choose its nearest fused neuron. One group for all
# images costs more, and is what the algorithm makes small.)

# %%
zF = run(fused_model, X)[1][0].double()  # (400, 32), outputs of the fused network
J = (s * (zF[:, groups.labels] - z).square().sum(0)).sum()
grouping = (s * (T[:, groups.labels] - z).square().sum(0)).sum()
approximation = (s * (zF - T)[:, groups.labels].square().sum(0)).sum()
nearest = (s * (zF[:, None] - z[:, :, None]).square().amin(2)).sum()
print(f"J = {J:.3f} = grouping {grouping:.3f} + approximation {approximation:.3f}")
print(f"difference {abs(J - grouping - approximation) / J:.0e} of J; Eq. 1, nearest neuron per image: {nearest:.3f}")
best = x @ torch.linalg.lstsq(x, z).solution  # of all that can be computed from x
print(f"unavoidable, by any weights: {s @ (best - z).square().sum(0):.6f}")
assert torch.isclose(J, grouping + approximation, rtol=1e-6) and nearest <= J
assert (
    abs(grouping_error(sums.zz, s, groups.labels, targets) / grouping - 1) < 1e-6
)  # the library gets both from the moments alone
assert abs(approximation_error(sums, targets, V) / approximation - 1) < 1e-3

# %% [markdown]
# ## Level 2
#
# The same lines again, with one difference: $x$ is what the *fused* level 1 puts out, not what the base
# models put out. The level learns to live with the errors made before it. This is the "retrofitting" of the
# title.
#
# **Claim: now something is out of reach.** Level 1 handed over 32 numbers, not 64. What cannot be computed
# from them is lost whatever the groups and weights of level 2: the *unavoidable* part.

# %%
z = torch.cat([outputs[1] for outputs in of_parents], 1).double()  # (400, 64)
x = torch.cat([run(fused_model, X)[0][1].double(), torch.ones(400, 1)], 1)  # (400, 33)
s = torch.cat([parent[1] for parent in scores])
sums = MomentSums(64, 33, bias=True)
sums.add(z, x)
sums = sums.finish()
solution = solve(sums, "auto")
groups = KMeans()(solution.gram, s, (32, 32), 32, generator=torch.Generator().manual_seed(1))
groups = ordered_like(groups, sums.zz, s, torch.arange(32))
targets = groups.targets(s)
V = solution.weights(targets.A)
write(fused[1], V)
zF = run(fused_model, X)[1][1].double()
J = (s * (zF[:, groups.labels] - z).square().sum(0)).sum()
energy = s @ sums.zz.diagonal()
grouping = grouping_error(sums.zz, s, groups.labels, targets)
approximation = approximation_error(sums, targets, V)
print(f"J = {J:.3f} = grouping {grouping:.3f} + approximation {approximation:.3f}")
unavoidable = s @ (x @ torch.linalg.lstsq(x, z).solution - z).square().sum(0)
print(f"unavoidable, by any weights: {unavoidable:.3f}")
print(f"J is {100 * J / energy:.1f} % of what there was to represent, sum of s_j |z_j|^2")
assert abs(J / (grouping + approximation) - 1) < 1e-4 and 0.01 < unavoidable < J

# %% [markdown]
# ## Level 3, the class head
#
# The last level's neurons are the ten classes. Nothing has to be found here: class $c$ belongs to class $c$.
# The target is again the importance-weighted mean.
#
# **Claim: the scores tell who knows the class.** The score of class $c$ adds up over a model's own images of
# class $c$. $M_1$ has none of five digits, so its scores there vanish (the library keeps a trace, $10^{-8}$), and
# the target follows $M_2$. Nothing else tells the method who learnt what.

# %%
z = torch.cat([outputs[2] for outputs in of_parents], 1).double()  # (400, 20)
x = torch.cat([run(fused_model, X)[0][2].double(), torch.ones(400, 1)], 1)
s = torch.cat([parent[2] for parent in scores])
sums = MomentSums(20, 33, bias=True)
sums.add(z, x)
sums = sums.finish()
solution = solve(sums, "auto")
A = SameIndex()(solution.gram, s, (10, 10), 10).targets(s).A
write(fused[2], solution.weights(A))
shares = torch.stack([A[:10].diagonal(), A[10:].diagonal()])  # (2, 10): whom the target of each class follows
fig, ax = plt.subplots(figsize=(8, 2.9))
ax.bar(range(10), shares[0], color=BLUE, label="M1")
ax.bar(range(10), shares[1], bottom=shares[0], color=ORANGE, hatch="//", edgecolor="white", label="M2")
ax.set(xticks=range(10), xlabel="digit", ylabel="share in the target", yticks=[0, 0.5, 1])
ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
owner = torch.isin(torch.arange(10), images.labels[parts[1]].unique()).long()
ax.set_title(
    f"Each target follows the model that learnt the digit: share at least {shares[owner, range(10)].min():.6f}"
)
plt.show()
assert (shares[owner, range(10)] > 0.5).all()

# %% [markdown]
# ## The same in one call
#
# **Claim: `fuse` does exactly this.** What it shall do is told by three values: how neurons are grouped, how a
# level is fitted, how neurons are weighed. Their fields are the options, such as `KMeans(restarts=50)`. These
# three together are the method KF-Linear ("k-means fusion, linear fit"), whose ridge pulls to zero here, as in the
# cells above (by default, in a chain of levels, to the parents' weights). Its weights equal ours. Its table holds the
# errors of Theorem 1 for every level.

# %%
exact = [
    copy.deepcopy(model).double() for model in models
]  # as exact as the cells above: float32 would be twice as fast
fit, importance = Ridge(toward="zero"), Conductance(own_data)
result = fuse(exact, X.double(), grouping=KMeans(), fit=fit, importance=importance, runtime=Runtime(device="cpu"))
for (name, ours), theirs in zip(fused_model.state_dict().items(), result.model.state_dict().values(), strict=True):
    print(f"{name:11} {tuple(ours.shape)!s:9} largest difference {(ours - theirs).abs().max():.0e}")
    assert torch.allclose(ours.double(), theirs, rtol=1e-4, atol=1e-5)
result.to_frame()[["level", "widths", "fused", "grouping error", "approximation error"]].round(3)

# %% [markdown]
# **Claim: the fused network knows all ten digits.** It has the size of one base model. It was fitted on
# images of five digits only; what it knows of the other five came out of $M_2$'s weights.

# %%
accuracy["fused"] = evaluate(fused_model, test)["accuracy"]
rows = {"M1": (models[0], BLUE), "M2": (models[1], ORANGE), "fused": (fused_model, TEAL)}
fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), width_ratios=[1, 1.5])
names = ["M1", "M2", "average of weights", "ensemble", "fused"]
bars = axes[0].barh(names[::-1], [accuracy[n] for n in names[::-1]], color=[TEAL, GREY, GREY, ORANGE, BLUE])
axes[0].bar_label(bars, fmt="%.1f", padding=3)
axes[0].set(xlim=(0, 112), xlabel="test accuracy, %", xticks=[0, 50, 100])
axes[0].set_title("Overall")
for i, (name, (model, colour)) in enumerate(rows.items()):
    per_class = evaluate(model, test)["per_class"]
    axes[1].bar([d + 0.27 * (i - 1) for d in range(10)], per_class, width=0.25, color=colour, label=name)
axes[1].set(xticks=range(10), xlabel="digit", ylim=(0, 118), yticks=[0, 50, 100], ylabel="test accuracy, %")
axes[1].legend(frameon=False, ncols=3, loc="upper left", fontsize=10)
axes[1].set_title(f"Per digit: the fused network gets at least {min(evaluate(fused_model, test)['per_class']):.0f} %")
plt.show()
assert accuracy["fused"] > accuracy["M1"] + 25 and accuracy["fused"] > accuracy["average of weights"] + 25

# %% [markdown]
# **Was it luck?** The digits can be dealt out in other ways. The whole experiment again for five deals, each
# with new base models.
#
# **Claim, held by the last line: the fused network beats both base models and the average of weights in every
# deal, by more than 10 points.** It mostly stays below the ensemble, which is twice as large.

# %%
table = []
for seed in range(5):
    deal = sharded(images.labels, 2, seed=seed)
    pair = [build({"architecture": "mlp", "sizes": [64, 32, 32, 10]}, seed=10 * seed + k) for k in (0, 1)]
    for k, model in enumerate(pair):
        train(model, images, deal[k], epochs=30, seed=10 * seed + k)
    own = [balanced(images.labels, 400, rows=rows) for rows in deal]
    data = [(images.inputs(rows), images.labels[rows]) for rows in own]
    one = METHODS["KF-Linear"](pair, data[0][0], importance="conductance", importance_data=data, device="cpu").model
    table.append([evaluate(m, test)["accuracy"] for m in (*pair, average(pair), ensemble(pair), one)])
    print(
        f"deal {seed}:  M1 {{:.1f}}  M2 {{:.1f}}  average {{:.1f}}  ensemble {{:.1f}}  fused {{:.1f}}".format(
            *table[-1]
        )
    )
table = torch.tensor(table)
mean, deviation = table.mean(0), table.std(0)
print(f"fused: mean {mean[4]:.1f} %, standard deviation {deviation[4]:.1f}; ensemble: mean {mean[3]:.1f} %")
assert (table[:, 4] > table[:, :3].amax(1) + 10).all()

# %% [markdown]
# ## Where each step matters
#
# - Each step left out or replaced, in one picture: [90](90_ablation.ipynb).
# - The grouping (line 4): against random groups in [10](10_vgg11_noniid.ipynb), on networks that know different classes in
#   [11](11_vgg11_sharded.ipynb), of different widths in [13](13_widths.ipynb).
# - The scores (line 3): what they change in the groups in [51](51_neuron_importance.ipynb), how many neurons hardly count in
#   [52](52_importance_histogram.ipynb).
# - The fit (lines 8 and 9): how many samples it needs in [14](14_fusion_set_size.ipynb), how long it takes in
#   [40](40_runtimes.ipynb).
# - The class head: a network that knows other classes in [15](15_bloodmnist.ipynb).
# - What each method can do: [01](01_algorithms.ipynb); the settings: [02](02_settings.ipynb).
# - Your own networks: [95](95_your_own.ipynb).
