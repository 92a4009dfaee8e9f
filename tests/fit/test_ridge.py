"""`Ridge` with `repair` and with `active`."""

import pytest
import torch
from torch import nn

from retrofit_core import fuse
from retrofit_core.fusion.fit import Ridge
from retrofit_core.fusion.grouping import Hungarian, KMeans
from retrofit_core.methods import METHODS
from tests.marks import each_case
from tests.networks import CNN_SHAPE, batchnorm_cnn, cnn, initialised, mlp, normal, residual, shuffled
from tests.properties import assert_close, assert_same_function, assert_same_tensors

# --- `Ridge(repair=True)`: fused neurons are fitted to targets that vary as much as the neurons they ------------------


VECTORS = normal(50, 6)


def with_ones(h, bias):
    return torch.cat([h, torch.ones(len(h), 1).double()], 1) if bias else h


@pytest.mark.slow
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("grouping", ["kmeans", "hungarian"])
@torch.no_grad()
def test_equals_plain_least_squares_on_targets_that_vary_as_their_neurons(bias, grouping):
    parents = [mlp(bias=bias), mlp(bias=bias, seed=1)]
    result = fuse(parents, VECTORS, grouping=grouping, fit=Ridge(ridge=0.0, repair=True))
    own, fused = [VECTORS, VECTORS], VECTORS
    layers = [[layer for layer in model if isinstance(layer, nn.Linear)] for model in (*parents, result.model)]
    for level, (*theirs, made) in zip(result.levels, zip(*layers, strict=True), strict=True):
        z = [layer(h) for layer, h in zip(theirs, own, strict=True)]
        members = torch.cat(z, 1)
        columns = []
        for k in range(level.width):
            inside = (level.labels == k).nonzero()[:, 0]
            target = members[:, inside].mean(1)
            if level is not result.levels[-1]:
                centre = target.mean() if bias else 0.0
                spread = [
                    (member - (member.mean() if bias else 0.0)).square().mean().sqrt() for member in members.T[inside]
                ]
                spread = torch.stack(spread).mean() / (target - centre).square().mean().sqrt()
                target = centre + spread * (target - centre)
            columns.append(target)
        V = torch.linalg.lstsq(with_ones(fused, bias), torch.stack(columns, 1)).solution
        assert_close(torch.cat([made.weight.T, made.bias[None]]) if bias else made.weight.T, V, 1e-7)
        own, fused = [h.relu() for h in z], made(fused).relu()


@pytest.mark.slow
def test_levels_whose_outputs_are_added_to_a_stream_keep_their_targets():
    parents, x = [residual(), residual(seed=1)], normal(60, *CNN_SHAPE)
    plain, varied = (fuse(parents, x, fit=Ridge(repair=repair)) for repair in (False, True))
    assert [level.missing_error == level.missing_error for level in varied.levels].count(True)
    with pytest.raises(AssertionError):
        assert_same_tensors(varied.model, plain.model)


def test_errors_add_up_to_the_cost_of_what_comes_out():
    parents = [mlp(), mlp(seed=1)]
    result = fuse(parents, VECTORS, fit=Ridge(repair=True))
    level = result.levels[0]
    with torch.no_grad():
        z, made = torch.cat([parent[0](VECTORS) for parent in parents], 1), result.model[0](VECTORS)
    cost = ((made[:, level.labels] - z).square().sum(0) * level.scores).sum().item()
    assert level.cost == pytest.approx(cost, rel=1e-6)


# --- `Ridge(active=True)`: neurons are grouped by what they hand on behind the activation function --------------------


DATA = normal(50, *CNN_SHAPE)


class Watching:
    """Groups that keep the Gram matrices which they were given."""

    def __init__(self, grouping=None):
        self.grams, self.grouping = [], grouping or Hungarian()

    def __call__(self, gram, *rest, **options):
        self.grams.append(gram)
        return self.grouping(gram, *rest, **options)


def pooled(seed=0):
    return initialised(
        nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 5, 3),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(5, 3),
        ),
        seed,
    )


@torch.no_grad()
def test_neurons_are_compared_behind_function_and_pooling_about_their_means():
    parents, x, watching = [pooled(1), pooled(2)], normal(30, 2, 7, 7), Watching()
    fuse(parents, x, grouping=watching, fit=Ridge(active=True))
    for gram, stop in zip(watching.grams, (3, 6), strict=True):
        read = [parent[:stop](x) for parent in parents]
        read = torch.cat([h.reshape(len(x), -1, 1) if stop == 6 else h.flatten(2) for h in read], 1)
        by_hand = read.movedim(1, -1).flatten(0, 1)
        by_hand = by_hand - by_hand.mean(0)
        assert_close(gram, by_hand.T @ by_hand, 1e-10)


class Reads(nn.Module):
    """A convolution whose 4 x 4 map is read by a linear layer behind some function."""

    def __init__(self, function, inputs, width=4):
        super().__init__()
        self.first, self.function = nn.Conv2d(2, width, 4), function
        self.last = nn.Linear(inputs, 3)

    def forward(self, x):
        x = self.last(self.function(self.first(x).relu()))
        return x.mean(1) if x.ndim == 3 else x


def merged_tokens(x):
    """(B, C, 4, 4) -> (B, 4 tokens, 4 C): each token is four pixels side by side, their channels inside, as in Swin."""
    x = x.permute(0, 2, 3, 1)
    parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
    return torch.cat(parts, -1).flatten(1, 2)


#: What a linear layer reads of 4 x 4 maps, how many numbers a channel, and the same channel by channel: (B, C, places).
READINGS = {
    "channels first": (lambda x: x.flatten(1), 16, lambda x: x.flatten(2)),
    "merged tokens": (merged_tokens, 4, lambda x: x.flatten(2)),
    "two poolings": (
        lambda x: torch.cat([x.mean((2, 3)), x.amax((2, 3))], 1),
        2,
        lambda x: torch.stack([x.mean((2, 3)), x.amax((2, 3))], 2),
    ),
    "one pixel": (lambda x: x[:, :, 1, 2], 1, lambda x: x[:, :, 1:2, 2]),
}


@pytest.mark.slow
@torch.no_grad()
@each_case("name", READINGS)
def test_what_is_read_of_a_neuron_is_found_however_it_is_laid_side_by_side(name):
    """Against the activities themselves, channel by channel."""
    function, places, by_channel = READINGS[name]
    parents = [initialised(Reads(function, places * width, width), width) for width in (4, 5)]
    x, watching = normal(30, 2, 7, 7), Watching(KMeans())
    target = initialised(Reads(function, places * 4, 4), 0)
    fuse(parents, x, grouping=watching, target=target, fit=Ridge(active=True))
    read = torch.cat([by_channel(parent.first(x).relu()) for parent in parents], 1).movedim(1, -1).flatten(0, 1)
    read = read - read.mean(0)
    assert_close(watching.grams[0], read.T @ read, 1e-10)


def mixed(x):
    """The second half's channels lie in another order of positions than the first half's."""
    first, second = x.chunk(2, 1)
    return torch.cat([first, second.transpose(2, 3)], 1).flatten(1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("functions", "inputs"),
    [
        ((mixed, mixed), 64),  # places differ from channel to channel
        ((lambda x: x.flatten(1), lambda x: x.transpose(2, 3).flatten(1)), 64),  # and from parent to parent
        ((lambda x: x.mean(1).flatten(1).repeat(1, 4),) * 2, 64),  # each number comes from all channels
    ],
)
def test_what_cannot_be_told_apart_is_refused_before_any_work(functions, inputs):
    parents = [initialised(Reads(function, inputs), k) for k, function in enumerate(functions)]
    with pytest.raises(ValueError, match=r"level 'first'"):
        fuse(parents, normal(30, 2, 7, 7), grouping=Forbidden(), fit=Ridge(active=True))


class Forbidden(Watching):
    def __call__(self, *args, **options):
        raise AssertionError("work has begun")


def test_neurons_that_differ_where_they_are_silent_belong_together():
    """What a neuron says below zero is nothing to the next layer."""
    parents = [initialised(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)), 1) for _ in range(2)]
    with torch.no_grad():
        for model, order in zip(parents, ([0, 1], [1, 0]), strict=True):
            model[0].weight.copy_(torch.eye(2)[order])
            model[0].bias.zero_()
    x = normal(200, 2)
    x = torch.where(x > 0, x, 30 * x)  # far below zero
    labels = fuse(parents, x, grouping="hungarian", fit=Ridge(active=True)).levels[0].labels
    assert labels.tolist() == [0, 1, 1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("make", [cnn, batchnorm_cnn])
@pytest.mark.parametrize("method", ["HF-Linear", "KF-Linear"])
def test_a_shuffled_copy_is_found_again(make, method):
    model = make()
    twin = shuffled(model, DATA, 5)
    fused = METHODS[method]([model, twin], DATA, active=True, repair=True, ridge=0.0, device="cpu").model
    assert_same_function(fused, model, DATA, 1e-6)


def test_networks_with_blocks_are_refused():
    parents = [residual(), residual(seed=1)]
    with pytest.raises(ValueError, match="active=True compares neurons by what the next layer reads of them"):
        METHODS["KF-Linear"](parents, DATA, active=True, device="cpu")
