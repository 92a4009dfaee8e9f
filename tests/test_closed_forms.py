"""Levels of other kinds than plain layers in closed form: channel by channel, part by part, scaled, of several kinds.

Twins of these networks are in tests/test_twins.py.
"""

import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch import nn

from retrofit_core.fusion.targets import weighted_means
from retrofit_core.methods import METHODS
from tests.families import MADE, PARTS, READ, SKIPPED, aggregated, branches, dense, ghost, inverted, partly, scaled
from tests.marks import each_case
from tests.networks import CNN_SHAPE, initialised, normal, seeded, shuffled
from tests.plain import fitted, flat, least_squares, matched, patches, projected, states
from tests.properties import assert_close, assert_same_function, assert_same_tensors

DATA = normal(60, *CNN_SHAPE)
BLOCKS = (inverted, aggregated, scaled, partly)


def made(make, seed=0, **widths):
    return initialised(seeded(seed, make, **widths), seed)


def pair(make):
    """Of parents whose parts, where there are some, lie in different orders."""
    return [made(make, seed) for seed in (1, 3)]


#: Streams to which levels add, "" where there is none; where they do so as wholes.
STREAMS = {
    inverted: ["stem", "expand", "expand", "stem", "stem", ""],
    aggregated: ["stem", "", "middle", "", "middle", "stem", ""],
    scaled: ["stem", "", "stem", "stem", ""],
}


@pytest.mark.slow
@each_case("make", BLOCKS)
def test_equals_plain_least_squares_level_by_level(make):
    parents = pair(make)
    result = METHODS["HF-Linear"](parents, DATA, ridge=0.0, device="cpu")
    of_levels = states(parents[0], DATA)
    assert [level.name for level in result.levels] == list(of_levels)
    if make in STREAMS:
        assert [level.stream for level in result.levels] == STREAMS[make]
    order = {level.name: level.labels.split(level.width) for level in result.levels}
    order = {name: second.argsort()[first] for name, (first, second) in order.items()}
    assert_same_tensors(result.model, fitted(parents, DATA, order), 1e-7)


@pytest.mark.slow
@each_case("make", BLOCKS)
def test_errors_are_those_of_what_comes_out(make):
    parents = pair(make)
    result = METHODS["KF-Linear"](parents, DATA, device="cpu")
    each, fused = [states(parent, DATA) for parent in parents], states(result.model, DATA)
    for level in result.levels:
        z = torch.cat([state[level.name] for state in each], 1)
        targets = weighted_means(level.labels, level.scores, level.width)
        gap = ((fused[level.name] - z @ targets.A).square().sum(0) * targets.totals).sum().item()
        assert level.approximation_error == pytest.approx(gap, rel=1e-6)
        cost = ((fused[level.name][:, level.labels] - z).square().sum(0) * level.scores).sum().item()
        assert level.cost == pytest.approx(cost, rel=1e-6)
        if level.missing_error == level.missing_error:
            assert level.missing_error > level.approximation_error


@pytest.mark.slow
@each_case(
    "parents, target, widths",
    [
        ([made(inverted, 1), made(inverted, 2, wide=9)], made(inverted, 3, wide=8), [4, 8, 8, 4, 4, 3]),
        ([made(dense, 1), made(dense, 2, growth=5)], made(dense, 3, growth=4), [4, 4, 4, 8, 4, 12, 6, 3]),
    ],
)
def test_widths_may_differ(parents, target, widths):
    result = METHODS["KF-Linear"](parents, DATA, target=target, device="cpu")
    assert [level.width for level in result.levels] == widths
    with pytest.raises(ValueError, match="hungarian pairs exactly two parents of equal width|hungarian pairs"):
        METHODS["HF-Linear"](parents, DATA, target=target, device="cpu")


@pytest.mark.slow
def test_numbers_of_parts_may_differ():
    parents, target = [made(aggregated, 1), made(aggregated, 2, parts=4, made=4)], made(aggregated, 3, parts=5)
    result = METHODS["KF-Linear"](parents, DATA, target=target, device="cpu")
    assert [level.width for level in result.levels] == [4, 10, 15, 2, 15, 4, 3]
    for index, fused in {1: 2, 2: 3}.items():  # neurons of one part stay together
        first, second = result.levels[index].labels.split(result.levels[index].widths)
        for own, count in ((first, 3), (second, 4)):
            of_parts = own.view(count, -1) // fused
            assert (of_parts == of_parts[:, :1]).all()
    with pytest.raises(ValueError, match="the fused network has 3 parts of 5 neurons .* the parents 3 of 3, 3 of 3"):
        METHODS["KF-Linear"](pair(aggregated), DATA, target=made(aggregated, 3, made=5), device="cpu")


# --- channel by channel, part by part ------------------------------------------------------------------------------------


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


@pytest.mark.slow
@torch.no_grad()
def test_parts_and_the_neurons_within_are_matched_as_by_hand():
    parents = pair(aggregated)
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


def test_weights_of_the_parents_are_those_of_the_part():
    model = made(aggregated, 3)
    twin = shuffled(model, DATA, 5)
    fused = METHODS["HF-Linear"]([model, twin], DATA, refit=False, device="cpu").model
    assert_same_function(fused, model, DATA, 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["HF-Linear", "KF-Linear"])
def test_neurons_of_several_levels_side_by_side_keep_their_groups(method):
    model = made(dense, 3)
    twin = shuffled(model, DATA, 5)
    result = METHODS[method]([model, twin], DATA, ridge=0.0, device="cpu")
    names = ["stem", "norms.0", "first", "norms.1", "second", "norms.2", "mix", "fc"]
    assert [level.name for level in result.levels] == names
    assert [level.kind for level in result.levels][:4] == ["Conv2d", "BatchNorm", "Conv2d", "BatchNorm"]
    assert_same_function(result.model, model, DATA, 1e-6)
    assert all(level.grouping_error <= 1e-9 * level.energy for level in result.levels)
    stem, first, second, last = (result.levels[k].labels.split(result.levels[k].width) for k in (0, 2, 4, 5))
    for k in range(2):  # z, x, y
        assert torch.equal(last[k], torch.cat([second[k], 3 + stem[k], 7 + first[k]]))


def test_a_norm_in_front_of_a_layer_is_fitted_channel_by_channel():
    parents = pair(dense)
    result = METHODS["HF-Linear"](parents, DATA, ridge=0.0, device="cpu")
    level = result.levels[1]
    order = level.labels.split(4)[1].argsort()
    with torch.no_grad():
        z = [flat(parent.norms[0](parent.stem(DATA))) for parent in parents]
        h, targets = flat(result.model.stem(DATA)), (z[0] + z[1][:, order]) / 2
        for k in range(4):
            V = least_squares(h[:, k : k + 1], targets[:, k : k + 1])
            made = torch.cat([h[:, k : k + 1], torch.ones(len(h), 1).double()], 1) @ V
            assert_close(flat(result.model.norms[0](result.model.stem(DATA)))[:, k], made[:, 0], 1e-8)
    assert result.model.state_dict().keys() == parents[0].state_dict().keys()


def test_levels_may_make_several_channels_for_each_neuron():
    result = METHODS["HF-Linear"](pair(ghost), DATA, ridge=0.0, device="cpu")
    for own in result.levels[0].labels.split(8):
        assert torch.equal(own[4:], own[:4] + 4)


def test_grouped_convolutions_whose_outputs_are_added_are_one_problem():
    result = METHODS["HF-Linear"](pair(branches), DATA, ridge=0.0, device="cpu")
    assert [level.kind for level in result.levels] == ["Conv2d", "Conv2d + Conv2d", "Linear"]


class Positions(nn.Module):
    """A stream of channels to which a layer that mixes positions is added."""

    def __init__(self):
        super().__init__()
        self.first, self.mix, self.last = nn.Conv2d(2, 5, 1), nn.Linear(49, 49), nn.Linear(5, 3)

    def forward(self, x):
        x = self.first(x).flatten(2)
        return self.last((x + self.mix(x.relu())).mean(2))


@torch.no_grad()
def test_layers_over_positions_are_fitted_to_the_means_of_channels():
    parents = [initialised(Positions(), k).double() for k in range(2)]
    result = METHODS["HF-Linear"](parents, DATA, ridge=0.0, device="cpu")
    model, T = result.model, DATA.new_zeros(len(DATA), 5, 49)
    for parent, own in zip(parents, result.levels[0].labels.split(5), strict=True):
        z = parent.first(DATA).flatten(2)
        T[:, own] += (z + parent.mix(z.relu())) / 2
    h = model.first(DATA).flatten(2)
    rows = torch.cat([h.relu(), torch.ones_like(h[..., :1])], 2).flatten(0, 1)
    expected = torch.linalg.lstsq(rows, (T - h).flatten(0, 1)).solution
    assert_close(torch.cat([model.mix.weight.T, model.mix.bias[None]]), expected, 1e-7)


# --- scales, and what follows the last layer -----------------------------------------------------------------------------


# --- neurons of several kinds ---------------------------------------------------------------------------------------------


@torch.no_grad()
def test_neurons_of_each_kind_are_matched_where_they_are_made():
    """Those that go past the block by what the stem can make, the others by both of their states."""
    parents = pair(partly)
    result = METHODS["HF-Linear"](parents, DATA, ridge=0.0, device="cpu")
    mine, theirs = (states(parent, DATA) for parent in parents)

    def both(state):
        rows = {"stem": SKIPPED, "narrow": 0}
        sizes = [(mine[n][:, k:].square().sum() + theirs[n][:, k:].square().sum()).sqrt() for n, k in rows.items()]
        return torch.cat([state[n][:, k:] / size for (n, k), size in zip(rows.items(), sizes, strict=True)])

    inputs = patches(result.model.stem, DATA)
    past = matched(*(projected(inputs, state["stem"])[:, :SKIPPED] for state in (mine, theirs)))
    stream = matched(both(mine), both(theirs))
    for index, expected in ((0, torch.cat([past, SKIPPED + stream])), (2, stream)):
        first, second = result.levels[index].labels.split(result.levels[index].width)
        assert torch.equal(first.argsort(), second[expected].argsort())
