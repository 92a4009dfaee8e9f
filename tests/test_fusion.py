"""Algorithm 1 as a whole: against plain loops, identities with a known answer, and everything `fuse` promises."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from retrofit_core import METHODS
from retrofit_core.baselines import average
from retrofit_core.fusion.fit import Gradient, Ridge
from retrofit_core.fusion.grouping import Grouping, Hungarian, KMeans, Random, level_generator
from retrofit_core.fusion.importance import Uniform
from retrofit_core.system.presets import preset_settings
from tests import reference
from tests.flat import fuse
from tests.marks import each_case, spread
from tests.networks import CNN_SHAPE, affine_layers, cnn, labels, layer_outputs, mlp, normal, permuted, rewired, widened
from tests.properties import as_groups, as_sets, assert_close, assert_same_function

HF, KF = {"grouping": "hungarian"}, {"grouping": "kmeans"}
EXACT = {"ridge": 0.0, "device": "cpu"}


def weights_of(model):
    return torch.cat([tensor.flatten() for tensor in model.state_dict().values() if tensor.is_floating_point()])


# --- against plain loops ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@each_case("toward", ["zero", "parents"])
@each_case("grouping, ridge", spread(["hungarian", "kmeans", "same_index", "random"], [0.3, "auto", 0.0], 2))
@each_case("name, make, shape", [("mlp", mlp, (6,)), ("cnn", cnn, CNN_SHAPE)])
def test_equals_algorithm_1_in_plain_loops(name, make, shape, grouping, ridge, toward):
    parents, x = [make(seed=k) for k in range(2)], normal(40 if name == "mlp" else 12, *shape)
    if ridge == 0.0 and name == "cnn":
        x = normal(26, *shape)  # with a full-rank x the solution is unique
    importance = {
        "importance": _weight_norms,
        "importance_data": [(x, labels(len(x), 3))] * 2,
        "normalise_scores": False,
    }
    result = fuse(parents, x, grouping=grouping, ridge=ridge, toward=toward, device="cpu", **importance)
    scores = [level.scores.numpy() for level in result.levels]
    for index, level in enumerate(scores):
        norms = [affine_layers(parent)[index].weight.detach().flatten(1).norm(dim=1).numpy() for parent in parents]
        assert np.allclose(level, np.concatenate(norms) + 1e-8)
    groups = [as_groups(level.labels, level.width) for level in result.levels]
    fused, facts = reference.fuse(
        parents, x.numpy(), scores, groups, ridge_strength=ridge, toward_parents=toward == "parents"
    )
    for level, fact in zip(result.levels, facts, strict=True):
        scale = level.energy
        assert level.approximation_error == pytest.approx(fact["approximation"], abs=1e-8 * scale)
        assert level.grouping_error == pytest.approx(fact["grouping"], abs=1e-8 * scale)
        assert level.approximation_error + level.grouping_error == pytest.approx(fact["J"], rel=1e-8)
        assert level.ridge == pytest.approx(fact["lambda"], rel=1e-8)
    new = normal(9, *shape, seed=3)
    with torch.no_grad():
        assert_close(result.model(new), torch.from_numpy(reference.run(fused, new.numpy())), 1e-6)


def _weight_norms(neurons, x, y):
    return [weights[:-1].norm(dim=0) for weights in neurons.weights()]


@pytest.mark.parametrize("toward", ["zero", "parents"])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_no_other_matching_is_better_at_any_level(ridge, toward):
    """Theorem 2a inside the algorithm: brute force over the matchings of each level, given the levels before it."""
    parents, x = [mlp((5, 4, 4, 3), seed=k) for k in range(2)], normal(30, 5)
    result = fuse(parents, x, ridge=ridge, toward=toward, device="cpu", **HF)
    scores = [level.scores.numpy() for level in result.levels]
    groups = [as_groups(level.labels, level.width) for level in result.levels]
    _, facts = reference.fuse(
        parents, x.numpy(), scores, groups, ridge_strength=ridge, toward_parents=toward == "parents"
    )
    for fact, s, grouping in zip(facts[:-1], scores, groups, strict=False):
        parent_weights = fact["own"] if ridge else None
        cost = {
            str(sorted(map(sorted, g))): reference.fitted_cost(fact["x"], fact["z"], s, g, ridge, parent_weights)
            for g in reference.matchings(4)
        }
        assert cost[str(sorted(map(sorted, grouping)))] == pytest.approx(min(cost.values()), rel=1e-9)


# --- recoveries ------------------------------------------------------------------------------------------------------


def test_parents_of_different_widths_fuse_without_loss():
    """C28: a network and its Net2Wider copy, in either order and into either width."""
    parent = cnn(activation=nn.LeakyReLU)
    wide = widened(parent, extra=2)
    x, new = normal(80, *CNN_SHAPE), normal(20, *CNN_SHAPE, seed=4)
    assert_same_function(fuse([parent, wide], x, **KF, **EXACT).model, parent, new, 1e-7)
    small = fuse([wide, parent], x, target=parent, **KF, **EXACT)
    assert_same_function(small.model, parent, new, 1e-7)
    assert [level.widths for level in small.levels] == [(6, 4), (7, 5), (3, 3)]
    assert_same_function(fuse([wide, parent], x, **KF, **EXACT).model, parent, new, 1e-7)  # splits twins, loses nothing


@pytest.mark.parametrize("grouping", ["hungarian", "kmeans"])
def test_a_gradient_fit_of_twins_starts_and_stays_at_the_parent(grouping):
    """C25: groups are numbered like parent 0, so that its weights are the start and no epoch is better."""
    parent = cnn()
    result = fuse(
        [parent, permuted(parent)],
        normal(40, *CNN_SHAPE),
        grouping=grouping,
        fit="gradient",
        epochs=3,
        weight_decay=0.0,
        device="cpu",
    )
    assert_same_function(result.model, parent, normal(20, *CNN_SHAPE, seed=4), 1e-10)
    assert max(level.curve[0]["loss"] for level in result.levels) < 1e-20


def test_mapped_weights_start_a_gradient_fit_between_widths():
    parent = cnn(activation=nn.LeakyReLU)
    wide = widened(parent, extra=2)
    result = fuse(
        [wide, parent],
        normal(40, *CNN_SHAPE),
        target=cnn(activation=nn.LeakyReLU, seed=9),  # of the parent's widths; its weights must not matter
        fit="gradient",
        epochs=1,
        device="cpu",
        weight_decay=0.0,
        learning_rate=1e-12,
    )
    assert max(level.curve[0]["loss"] for level in result.levels) < 1e-20
    assert_same_function(result.model, parent, normal(9, *CNN_SHAPE, seed=8), 1e-8)


# --- symmetries ------------------------------------------------------------------------------------------------------


def _scaled_by(factors):
    calls = iter(range(len(factors)))

    def score(neurons, x, y):
        factor = factors[next(calls)]
        return [factor * (1 + torch.arange(place.width).double()) for place in neurons]

    return score


def test_scaling_all_scores_changes_nothing_and_a_vanishing_parent_vanishes():
    """C10."""
    parents, x = [mlp(seed=k) for k in range(2)], normal(100, 6)
    data = {"importance_data": [(x, labels(100, 4))] * 2, "normalise_scores": False, "device": "cpu", "ridge": 0.0}
    plain = fuse(parents, x, importance=_scaled_by([1.0, 1.0]), **data, **HF)
    scaled = fuse(parents, x, importance=_scaled_by([1e4, 1e4]), **data, **HF)
    assert_same_function(plain.model, scaled.model, x, 1e-8)
    alone = fuse(parents, x, importance=_scaled_by([1.0, 0.0]), **data, **HF)  # 1e-8 is added to every score
    assert_same_function(alone.model, parents[0], normal(20, 6, seed=3), 1e-4)


def test_uniform_scores_average_the_logits_where_the_head_can_fit_them():
    """C30: an underdetermined head reaches its targets, the mean of the parents' logits."""
    parents, x = [mlp((6, 40, 3), seed=k) for k in range(2)], normal(20, 6)
    result = fuse(parents, x, **HF, **EXACT)
    mean = (parents[0](x) + parents[1](x)) / 2
    assert_close(result.model(x), mean, 1e-6)
    assert fuse(parents, x, head="mean", **HF, **EXACT).model(x).sub(mean).abs().max() < 1e-6


# --- the same result whatever the circumstances ----------------------------------------------------------------------


def test_the_same_seed_gives_the_same_weights_and_leaves_the_global_state():
    parents, x = [mlp(seed=k) for k in range(3)], normal(60, 6)
    options = {"fit": "gradient", "epochs": 2, "perturbation": 0.1, "device": "cpu"}
    state = torch.random.get_rng_state()
    first, second = (fuse(parents, x, seed=4, **options) for _ in "ab")
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(weights_of(first.model), weights_of(second.model))
    assert not torch.equal(weights_of(first.model), weights_of(fuse(parents, x, seed=5, **options).model))


def test_float32_is_close_to_float64(device):
    parents, x = [cnn(seed=k) for k in range(2)], normal(60, *CNN_SHAPE)
    exact = fuse(parents, x, device="cpu", **HF)
    single = fuse([copy.deepcopy(parent).float().to(device) for parent in parents], x, device=device, **HF)
    assert next(single.model.parameters()).dtype == torch.float32
    assert_close(weights_of(single.model).cpu(), weights_of(exact.model), 1e-3)


# --- what the reports say --------------------------------------------------------------------------------------------


CHOICES = {
    "HF": HF,
    "KF": KF,
    "toward": {**KF, "toward": "parents"},
    "gradient": {**HF, "fit": "gradient", "epochs": 2},
    "no refit": {**KF, "refit": False},
    "no projection": {**KF, "project": False},
    "scores at the head alone": {**KF, "scored": "head"},
    "mean head": {**HF, "head": "mean"},
}


@pytest.mark.slow
@each_case("options", CHOICES.values())
def test_reported_errors_are_those_of_the_final_network(options):
    """Theorem 1 on the raw targets, measured on the fused network's own activations."""
    parents, x = [cnn(seed=k) for k in range(2)], normal(40, *CNN_SHAPE)
    importance = {"importance": "conductance", "importance_data": "fusion"}
    result = fuse(parents, (x, labels(40, 3)), device="cpu", **importance, **options)
    outputs = zip(*(layer_outputs(model, x) for model in (*parents, result.model)), strict=True)
    for report, tensors in zip(result.levels, outputs, strict=True):
        left, right, fused = (reference.output_rows(h.numpy()) for h in tensors)
        z, s = np.hstack([left, right]), report.scores.numpy()
        groups = as_groups(report.labels, report.width)
        J = sum(s[j] * ((fused[:, k] - z[:, j]) ** 2).sum() for k, group in enumerate(groups) for j in group)
        assert report.grouping_error + report.approximation_error == pytest.approx(J, rel=1e-7)
        assert report.grouping_error == pytest.approx(reference.cluster_cost(z, s, groups), rel=1e-7)
        assert report.energy == pytest.approx((s * (z**2).sum(0)).sum(), rel=1e-9)
        assert_close(report.gram, torch.from_numpy(z.T @ z), 1e-5)
        assert report.rows == len(z)
        assert report.seconds.keys() >= {"forward", "moments", "group"}


def test_settings_and_presets():
    assert preset_settings("paper", "hungarian", "ridge") == {
        "normalise_scores": False,
        "ridge": 1e-3,
        "toward": "zero",
    }
    assert preset_settings("paper", "kmeans", "ridge") == {"normalise_scores": False, "ridge": 10.0, "toward": "zero"}
    gradient = preset_settings("paper", "kmeans", "gradient")
    assert (gradient["learning_rate"], gradient["epochs"], gradient["batch_size"]) == (1e-3, 100, 32)
    assert preset_settings("default", "kmeans", "ridge") == {}
    parents, x = [mlp(seed=k) for k in range(2)], normal(50, 6)
    result = fuse(parents, x, preset="paper", device="cpu", **HF)
    assert {level.ridge for level in result.levels} == {1e-3}
    assert result.config["ridge"] == 1e-3
    assert result.config["samples"] == 50


def test_a_preset_is_never_dropped_in_part():
    """A part that is given as a value has its own settings: where these are not the preset's, nobody knows what is meant."""
    parents, x = [mlp(seed=k) for k in range(2)], normal(50, 6)
    for given, keyword in (
        ({"fit": Ridge()}, "ridge"),
        ({"grouping": Hungarian(), "fit": Ridge(toward="parents")}, "ridge"),
        ({"fit": Gradient(learning_rate=0.1)}, "learning_rate"),
        ({"importance": Uniform()}, "normalise_scores"),
    ):
        with pytest.raises(
            ValueError, match=f"preset='paper' sets {keyword}=.* given as a value .* leave the preset out"
        ):
            fuse(parents, x, preset="paper", device="cpu", **given)
    named = fuse(parents, x, preset="paper", grouping="hungarian", device="cpu")
    same = fuse(parents, x, preset="paper", grouping=Hungarian(), fit=Ridge(ridge=1e-3, toward="zero"), device="cpu")
    assert torch.equal(weights_of(same.model), weights_of(named.model)) and same.config == named.config


@pytest.mark.slow
def test_dead_and_rank_deficient_parents_give_finite_networks():
    """A parent with dead neurons, one that is constant, and twins inside a parent."""
    dead, constant = mlp(seed=0), mlp(seed=1)
    with torch.no_grad():
        dead[0].bias.fill_(-100.0)  # every hidden unit off
        constant[0].weight.zero_()
    twins = rewired(
        mlp(seed=2), [torch.zeros(8).long(), torch.arange(7)], [torch.ones(8).double(), torch.ones(7).double()]
    )
    for options in (HF, KF, {**HF, "ridge": 0.0}, {**KF, "ridge": 0.0}, {**KF, "toward": "parents"}):
        for pair in ([dead, constant], [dead, dead], [constant, twins], [twins, dead]):
            result = fuse(pair, normal(40, 6), device="cpu", **options)
            assert torch.isfinite(weights_of(result.model)).all()
            assert all(np.isfinite([r.grouping_error, r.approximation_error]).all() for r in result.levels)


# --- the method with one of its parts switched off, against what is left then -----------------------------------------


PARENTS = {"mlp": (mlp, (6,)), "cnn": (cnn, CNN_SHAPE)}
SCORED = {"importance": "conductance", "importance_data": "fusion"}


@pytest.mark.parametrize("make, shape", PARENTS.values(), ids=PARENTS)
@pytest.mark.parametrize("toward", ["zero", "parents"])
def test_without_refit_neuron_i_with_neuron_i_is_the_average_of_weights(make, shape, toward):
    parents = [make(seed=k) for k in range(2)]
    fused = fuse(parents, normal(40, *shape), grouping="same_index", refit=False, toward=toward, device="cpu").model
    assert_same_function(fused, average(parents), normal(20, *shape, seed=1), 1e-6)  # in another order of neurons


@pytest.mark.parametrize("project", [True, False])
def test_without_projection_neurons_are_grouped_by_their_raw_outputs(project):
    """At each level the Gram matrix is z'z; with projection less than that, as the fused inputs do not tell all."""
    parents, x = [mlp(seed=k) for k in range(2)], normal(60, 6)
    seen: list[Tensor] = []

    def grouping(gram: Tensor, scores: Tensor, widths: tuple[int, ...], width: int, **keywords) -> Grouping:
        seen.append(gram)
        return KMeans(restarts=2)(gram, scores, widths, width, **keywords)

    fuse(parents, x, grouping=grouping, project=project, ridge=0.1, toward="zero", device="cpu")
    for gram, outputs in zip(seen, zip(*(layer_outputs(model, x) for model in parents), strict=True), strict=False):
        z = torch.cat(outputs, 1)
        if project:
            assert (z.T @ z).trace() > 1.0001 * gram.trace()
        else:
            assert_close(gram, z.T @ z, 1e-5)


@pytest.mark.slow
def test_scores_at_the_head_alone_group_as_uniform_ones_and_weigh_the_logits():
    parents, x = [mlp(seed=k) for k in range(2)], normal(60, 6)
    data, options = (x, labels(60, 4)), {"grouping": "kmeans", "device": "cpu"}
    uniform = fuse(parents, data, **options)
    at_head = fuse(parents, data, scored="head", **SCORED, **options)
    nowhere = fuse(parents, data, scored="head", head="mean", **SCORED, **options)
    everywhere = fuse(parents, data, **SCORED, **options)
    *hidden, head = at_head.model.state_dict()
    for name in hidden[:-1]:
        assert_close(at_head.model.state_dict()[name], uniform.model.state_dict()[name], 1e-6)
    assert (at_head.model.state_dict()[head] - uniform.model.state_dict()[head]).abs().max() > 1e-3
    for name, tensor in uniform.model.state_dict().items():
        assert_close(nowhere.model.state_dict()[name], tensor, 1e-6)
    assert torch.equal(at_head.levels[-1].scores, everywhere.levels[-1].scores)


# --- the controls: the fit of KF-Linear to groups that nobody searched ------------------------------------------------


def test_the_groups_of_random_linear_are_those_that_each_levels_generator_draws():
    parents = [mlp(widths, seed=k) for k, widths in enumerate([(6, 8, 7, 4), (6, 5, 9, 4), (6, 4, 4, 4)])]
    result = METHODS["Random-Linear"](parents, normal(60, 6), device="cpu", seed=5)
    for index, level in enumerate(result.levels[:-1]):
        m = sum(level.widths)
        drawn = Random()(
            torch.eye(m), torch.ones(m), level.widths, level.width, generator=level_generator(5, index)
        ).labels
        assert as_sets(level.labels) == as_sets(drawn)
    assert as_groups(result.levels[-1].labels, 4) == [[c, 4 + c, 8 + c] for c in range(4)]  # class c stays class c
