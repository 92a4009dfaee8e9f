"""Grouped convolutions in closed form: parts are matched first, then neurons within them; each part is fitted by itself."""

import copy
from functools import partial

import pytest
import torch
import torchvision
from scipy.optimize import linear_sum_assignment
from torch import nn
from torchvision.models.resnet import Bottleneck

from retrofit_core.fusion.grouping import alike
from retrofit_core.fusion.moments import PartSums, approximation_error, solve, unavoidable_error
from retrofit_core.fusion.targets import weighted_means
from retrofit_core.inspection.analysis import analyse
from retrofit_core.methods import METHODS
from retrofit_core.networks.levels import partition
from retrofit_core.networks.symmetry import shuffled
from tests.flat import Kept, fuse
from tests.networks import CNN_SHAPE, initialised, labels, normal
from tests.properties import assert_close, assert_same_function, assert_same_tensors, order_of_second
from tests.test_blocks import flat, least_squares, matched, patches, projected, put

DATA = normal(60, *CNN_SHAPE)
PARTS, READ, MADE = 3, 2, 3


class Aggregated(nn.Module):
    """A stem, a block whose middle works part by part (ResNeXt) behind a gate (RegNet), and a head."""

    def __init__(
        self, parts: int = PARTS, read: int = READ, made: int = MADE, width: int = 4, classes: int = 3
    ) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, width, 3, padding=1)
        self.expand = nn.Conv2d(width, parts * read, 1)
        self.middle = nn.Conv2d(parts * read, parts * made, 3, padding=1, groups=parts)
        self.squeeze, self.gate = nn.Linear(parts * made, 2), nn.Linear(2, parts * made)
        self.shrink = nn.Conv2d(parts * made, width, 1)
        self.fc = nn.Linear(width, classes)

    def forward(self, x):
        x = self.stem(x).relu()
        h = self.middle(self.expand(x).relu()).relu()
        gate = self.gate(self.squeeze(h.mean((2, 3))).relu()).sigmoid()
        x = x + self.shrink(h * gate[:, :, None, None])
        return self.fc(x.relu().mean((2, 3)))


def aggregated(seed=0, **sizes):
    return initialised(Aggregated(**sizes), seed)


def within(count, each, parts_order, generator):
    """A random order of neurons in parts: the parts in a given order, the neurons of each in a random one; and these."""
    orders = [torch.randperm(each, generator=generator) for _ in range(count)]
    rows = torch.cat([each * part + order for part, order in zip(parts_order.tolist(), orders, strict=True)])
    return rows, orders


@torch.no_grad()
def rewoven(model, seed):
    """A copy that computes the same: parts in another order, and neurons within parts, besides all others."""
    generator = torch.Generator().manual_seed(seed)
    twin = shuffled(model, DATA, generator)
    start = copy.deepcopy(twin)
    parts = torch.randperm(PARTS, generator=generator)
    inner, read = within(PARTS, READ, parts, generator)
    outer, _ = within(PARTS, MADE, parts, generator)
    for layer, old in ((twin.expand, start.expand),):
        layer.weight.copy_(old.weight[inner])
        layer.bias.copy_(old.bias[inner])
    rows = start.middle.weight[outer]
    for part, order in enumerate(read):
        own = slice(part * MADE, (part + 1) * MADE)
        twin.middle.weight[own] = rows[own][:, order]
    twin.middle.bias.copy_(start.middle.bias[outer])
    twin.gate.weight.copy_(start.gate.weight[outer])
    twin.gate.bias.copy_(start.gate.bias[outer])
    twin.squeeze.weight.copy_(start.squeeze.weight[:, outer])
    twin.shrink.weight.copy_(start.shrink.weight[:, outer])
    return twin


def states(model, x):
    """What each level gives, by name, as rows."""
    s = {"stem": model.stem(x)}
    h = s["stem"].relu()
    s["expand"] = model.expand(h)
    s["middle"] = model.middle(s["expand"].relu())
    inner = s["middle"].relu()
    s["squeeze"] = model.squeeze(inner.mean((2, 3)))
    s["gate"] = model.gate(s["squeeze"].relu())
    s["shrink"] = h + model.shrink(inner * s["gate"].sigmoid()[:, :, None, None])
    s["fc"] = model.fc(s["shrink"].relu().mean((2, 3)))
    return {name: flat(state) for name, state in s.items()}


def part_by_part(layer, h, targets):
    """Each part's kernels by plain least squares over its own patches."""
    read, made = h.shape[1] // layer.groups, len(layer.weight) // layer.groups
    for part in range(layer.groups):
        alone = nn.Conv2d(read, made, layer.kernel_size, padding=layer.padding).double()
        put(
            alone,
            least_squares(patches(alone, h[:, part * read : (part + 1) * read]), targets[:, part * made :][:, :made]),
        )
        layer.weight[part * made : (part + 1) * made] = alone.weight
        layer.bias[part * made : (part + 1) * made] = alone.bias


@torch.no_grad()
def plainly(parents, x, order):
    """The fused network for given orders of parent 1's neurons, without a ridge, layer by layer."""
    fused = copy.deepcopy(parents[0])
    mine, theirs = (states(parent, x) for parent in parents)

    def mean(name, group):
        return (mine[name] + theirs[name][:, order[group]]) / 2

    put(fused.stem, least_squares(patches(fused.stem, x), mean("stem", "stream")))
    h = fused.stem(x).relu()
    put(fused.expand, least_squares(flat(h), mean("expand", "expand")))
    inner = fused.expand(h).relu()
    part_by_part(fused.middle, inner, mean("middle", "middle"))
    inner = fused.middle(inner).relu()
    put(fused.squeeze, least_squares(inner.mean((2, 3)), mean("squeeze", "squeeze")))
    gate = fused.squeeze(inner.mean((2, 3))).relu()
    put(fused.gate, least_squares(gate, mean("gate", "middle")))
    inner = inner * fused.gate(gate).sigmoid()[:, :, None, None]
    put(fused.shrink, least_squares(flat(inner), mean("shrink", "stream") - flat(h)))
    put(fused.fc, least_squares((h + fused.shrink(inner)).relu().mean((2, 3)), (mine["fc"] + theirs["fc"]) / 2))
    return fused


def parts_by_hand(parents):
    """(parts,) the part of parent 1 that belongs to each of parent 0: by the distances of what their neurons' outputs span at
    the three levels whose neurons lie in parts."""
    total = torch.zeros(2 * PARTS, 2 * PARTS).double()
    for name in ("expand", "middle", "gate"):
        spans = [z @ z.T for parent in parents for z in states(parent, DATA)[name].chunk(PARTS, 1)]
        products = torch.tensor([[(one * other).sum() for other in spans] for one in spans]).double()
        total += products / products.trace()
    norms = total.diagonal()
    costs = norms[:PARTS, None] + norms[None, PARTS:] - 2 * total[:PARTS, PARTS:]
    return torch.from_numpy(linear_sum_assignment(costs.numpy())[1])


@torch.no_grad()
def test_parts_and_the_neurons_within_are_matched_as_by_hand():
    parents = [aggregated(1), aggregated(3)]
    result = METHODS["HF-Linear"](parents, DATA, ridge=0.0, device="cpu")
    partner = parts_by_hand(parents)
    assert not torch.equal(partner, torch.arange(PARTS))
    mine, theirs = (states(parent, DATA) for parent in parents)
    h = flat(result.model.stem(DATA).relu())
    left, right = (projected(h, s["expand"]) for s in (mine, theirs))
    first, second = result.levels[1].labels.split(PARTS * READ)
    assert torch.equal(first, torch.arange(PARTS * READ))
    for part in range(PARTS):
        own, others = (READ * p + torch.arange(READ) for p in (part, int(partner[part])))
        assert torch.equal(second[others].argsort(), matched(left[:, own], right[:, others]))
        assert set(second[others].tolist()) == set(own.tolist())
    made = result.levels[2].labels.split(PARTS * MADE)[1]
    assert torch.equal(made.view(PARTS, MADE)[partner] // MADE, torch.arange(PARTS)[:, None].expand(-1, MADE))


def test_a_large_state_counts_no_more_than_a_small_one():
    one, other = (z.T @ z for z in (normal(9, 4), normal(9, 4, seed=1)))
    assert_close(alike([one, other]), one / one.trace() + other / other.trace(), 1e-12)
    assert_close(alike([1e6 * one, other]), alike([one, other]), 1e-12)


def test_equals_plain_least_squares_part_by_part():
    parents = [aggregated(1), aggregated(3)]
    result = METHODS["HF-Linear"](parents, DATA, ridge=0.0, device="cpu")
    names = ["stem", "expand", "middle", "squeeze", "gate", "shrink", "fc"]
    assert [level.name for level in result.levels] == names
    assert [level.stream for level in result.levels] == ["stem", "", "middle", "", "middle", "stem", ""]
    groups = ("stream", "expand", "middle", "squeeze")
    order = {group: order_of_second(level) for group, level in zip(groups, result.levels, strict=False)}
    fused = plainly(parents, DATA, order)
    assert_same_tensors(result.model, fused, 1e-7)


@pytest.mark.parametrize("method", ["HF-Linear", "KF-Linear"])
def test_a_copy_with_its_parts_and_what_lies_in_them_in_another_order_is_found_again(method):
    model = aggregated(3)
    twin = rewoven(model, 5)
    assert_same_function(twin, model, DATA, 1e-10)
    for options in ({}, {"ridge": 0.0}):
        result = METHODS[method]([model, twin], DATA, device="cpu", **options)
        assert all(level.grouping_error <= 1e-9 * level.energy for level in result.levels)
    assert_same_function(result.model, model, DATA, 1e-6)


def resnext(seed, classes=3):
    blocks = partial(torchvision.models.ResNet, Bottleneck, [1, 1, 1, 1], num_classes=classes)
    return initialised(blocks(groups=4, width_per_group=2), seed)


def regnet(seed):
    return initialised(torchvision.models.regnet_y_400mf(num_classes=3), seed)


@pytest.mark.long
@pytest.mark.parametrize("make", [resnext, regnet])
def test_networks_of_torchvision_are_found_again(make):
    torch.manual_seed(0)
    model, x = make(1), normal(8, 3, 64, 64)
    twin = shuffled(model, x, torch.Generator().manual_seed(5))
    result = METHODS["KF-Linear"]([model, twin], x, ridge=0.0, device="cpu")
    assert_same_function(result.model, model, x, 1e-6)


def test_sums_and_errors_against_loops():
    """Two parts of three inputs, two fused neurons each; five neurons, three of them assigned to the second part."""
    parts, at = torch.tensor([1, 0, 1, 0, 1]), torch.tensor([2, 0, 3, 1, 2])
    scores = torch.rand(5, generator=torch.Generator().manual_seed(1)).double()
    x, z = normal(40, 2, 3), normal(40, 5, seed=1)
    x[..., -1] = 1
    collected = PartSums(parts, 2, 3, bias=True)
    for rows in (slice(0, 13), slice(13, 40)):
        collected.add(z[rows], x[rows])
    moments, targets = collected.finish(), weighted_means(at, scores, 4)
    toward = normal(3, 5, seed=2)
    for ridge, pull in ((0.0, None), (2.0, None), ("0.3x", None), (2.0, toward)):
        solution = solve(moments, ridge, toward=pull)
        V, W = solution.weights(targets.A), torch.zeros(3, 5).double()
        for part in range(2):
            energy = x[:, part, :2].square().sum(0).mean().item()
            D = {0.0: 0.0, 2.0: 2.0, "0.3x": 0.3 * energy}[ridge] * torch.diag(torch.tensor([1.0, 1.0, 0.0])).double()
            xx = x[:, part].T @ x[:, part] + D
            for j in (parts == part).nonzero()[:, 0].tolist():
                W[:, j] = torch.linalg.solve(xx, x[:, part].T @ z[:, j] + (0 if pull is None else D @ pull[:, j]))
            for i in range(5):
                for j in range(5):
                    inner = W[:, i] @ xx @ W[:, j] if parts[i] == parts[j] == part else solution.gram[i, j]
                    assert solution.gram[i, j].item() == pytest.approx(float(inner), rel=1e-9, abs=1e-12)
        assert all(solution.gram[i, j] == 0 for i in range(5) for j in range(5) if parts[i] != parts[j])
        assert_close(V, W @ targets.A, 1e-9)
        f = torch.stack([x[:, k // 2] @ V[:, k] for k in range(4)], 1)
        missed = (f - z @ targets.A).square().sum(0)
        assert_close(solution.missed(targets.A, V), missed, 1e-9)
        error = approximation_error(moments, targets, V)
        assert error == pytest.approx((missed @ targets.totals).item(), rel=1e-9)
    left = sum(
        scores[j] * (z[:, j] - x[:, parts[j]] @ torch.linalg.lstsq(x[:, parts[j]], z[:, j]).solution).square().sum()
        for j in range(5)
    )
    assert unavoidable_error(moments, scores) == pytest.approx(float(left), rel=1e-9)
    halves = [PartSums(parts, 2, 3, bias=True) for _ in range(2)]
    for half, rows in zip(halves, (slice(0, 13), slice(13, 40)), strict=True):
        half.add(z[rows], x[rows])
    together = halves[0].finish() + halves[1].finish()
    assert_close(solve(together, 1.0).weights(targets.A), solve(moments, 1.0).weights(targets.A), 1e-12)


def test_errors_are_those_of_what_comes_out():
    parents = [aggregated(1), aggregated(2)]
    result = METHODS["KF-Linear"](parents, DATA, device="cpu")
    with torch.no_grad():
        s, fused = [states(parent, DATA) for parent in parents], states(result.model, DATA)
    level = result.levels[2]
    z = torch.cat([state["middle"] for state in s], 1)
    targets = weighted_means(level.labels, level.scores, level.width)
    gap = ((fused["middle"] - z @ targets.A).square().sum(0) * targets.totals).sum().item()
    assert level.approximation_error == pytest.approx(gap, rel=1e-6)
    cost = ((fused["middle"][:, level.labels] - z).square().sum(0) * level.scores).sum().item()
    assert level.cost == pytest.approx(cost, rel=1e-6)
    assert 0 < level.unavoidable_error <= level.cost


def test_widths_may_differ():
    parents = [aggregated(1), aggregated(2, parts=4, made=4)]
    target = aggregated(3, parts=5, read=2, made=3)
    result = METHODS["KF-Linear"](parents, DATA, target=target, device="cpu")
    assert [level.width for level in result.levels] == [4, 10, 15, 2, 15, 4, 3]
    for index, fused in {1: 2, 2: 3}.items():  # neurons of one part stay together
        first, second = result.levels[index].labels.split(result.levels[index].widths)
        for own, count in ((first, 3), (second, 4)):
            of_parts = own.view(count, -1) // fused
            assert (of_parts == of_parts[:, :1]).all()
    with pytest.raises(ValueError, match="the fused network has 3 parts of 5 neurons .* the parents 3 of 3 and 3 of 3"):
        METHODS["KF-Linear"]([aggregated(1), aggregated(2)], DATA, target=aggregated(3, made=5), device="cpu")
    with pytest.raises(ValueError, match="hungarian pairs exactly two parents"):
        METHODS["HF-Linear"](parents, DATA, target=target, device="cpu")


def test_a_strong_ridge_towards_the_parents_gives_their_kernels():
    model = aggregated(3)
    for options, tolerance in (({"toward": "parents", "ridge": 1e12}, 1e-5), ({"refit": False}, 1e-8)):
        fused = METHODS["HF-Linear"]([model, rewoven(model, 5)], DATA, device="cpu", **options).model
        assert_same_function(fused, model, DATA, tolerance)


@pytest.mark.parametrize("stop", [2, 4])
def test_a_stopped_run_goes_on_to_the_same_weights(stop):
    parents, journal = [aggregated(1), aggregated(2)], Kept()
    whole = fuse(parents, DATA, device="cpu", journal=journal)
    resumed = fuse(parents, DATA, device="cpu", journal=Kept(journal.finished[:stop]))
    assert_same_tensors(resumed.model, whole.model)


def test_a_small_budget_changes_nothing():
    parents = [aggregated(1), aggregated(2)]
    whole, small = (METHODS["KF-Linear"](parents, DATA, device="cpu", memory=m) for m in (2**30, 60_000))
    assert_same_function(whole.model, small.model, DATA, 1e-8)


def test_weights_reproduce_the_level():
    model = aggregated(1)
    with torch.no_grad():
        boundary = DATA[:3]
        for level in partition(model, boundary, "layers"):
            if level.form.parts:
                assert (level.form.parts, level.form.channelwise) == (PARTS, False)
                x, V = level.form.rows(level.form.read(boundary)[0], ones=level.form.bias), level.weights()
                made = torch.stack([x[:, k // MADE] @ V[:, k] for k in range(level.width)], 1)
                assert_close(made, flat(level.of(level.module(boundary))), 1e-12)
            boundary = level.module(boundary)


def test_the_analysis_knows_them():
    parents, data = [aggregated(1).float(), aggregated(2).float()], (DATA.float(), labels(60, 3))
    result = METHODS["KF-Linear"](parents, data, device="cpu")
    analysis = analyse(parents, result, data)
    for level, report in zip(analysis.levels, result.levels, strict=True):
        assert level.plane["quadratic"][0] * report.energy == pytest.approx(report.approximation_error, rel=1e-3)
        assert torch.equal(level.labels["uniform"][0], report.labels)


class Branches(nn.Module):
    """Two grouped convolutions of the same inputs that are added (a reparametrised block)."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(2, 6, 1)
        self.wide, self.narrow = nn.Conv2d(6, 6, 3, padding=1, groups=3), nn.Conv2d(6, 6, 1, groups=3, bias=False)
        self.last = nn.Linear(6, 3)

    def forward(self, x):
        x = self.stem(x).relu()
        return self.last((self.wide(x) + self.narrow(x)).relu().mean((2, 3)))


def test_grouped_convolutions_whose_outputs_are_added_are_one_problem():
    model = initialised(Branches(), 1)
    twin = shuffled(model, DATA, torch.Generator().manual_seed(5))
    result = METHODS["HF-Linear"]([model, twin], DATA, ridge=0.0, device="cpu")
    assert [level.kind for level in result.levels] == ["Conv2d", "Conv2d + Conv2d", "Linear"]
    assert_same_function(result.model, model, DATA, 1e-6)
    parents = [model, initialised(Branches(), 2)]
    level = METHODS["HF-Linear"](parents, DATA, ridge=0.0, device="cpu").levels[1]
    assert 0 < level.unavoidable_error <= level.cost


def chain(*convolutions):
    return nn.Sequential(*convolutions, nn.ReLU(), nn.Flatten(), nn.Linear(100, 3))


@pytest.mark.parametrize(
    "make, sentence",
    [
        (
            lambda: chain(nn.Conv2d(2, 4, 3, groups=2)),
            "level '0' is not affine .* of channels that no level before it makes",
        ),
        (
            lambda: chain(nn.Conv2d(2, 8, 1), nn.Conv2d(8, 8, 1, groups=4), nn.Conv2d(8, 4, 3, groups=2)),
            "level '1' is not affine .*the 4 parts of its grouped convolution are not those of the layers that it reads",
        ),
        (
            lambda: nn.Sequential(nn.Conv2d(2, 6, 3), nn.Conv2d(6, 3, 5, groups=3), nn.Flatten()),
            "level '1' is not affine in its weights: its grouped convolution makes the classes",
        ),
    ],
)
def test_what_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        METHODS["KF-Linear"]([initialised(make(), k) for k in range(2)], DATA, device="cpu")
