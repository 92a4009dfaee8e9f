"""Aligning baselines: a shuffled copy is found again, transport is transport, and averages are what they should be."""

import itertools

import pytest
import torch
from torch import nn

from retrofit_core import METHODS, evaluate
from retrofit_core.baselines import average
from retrofit_core.baselines.aligned import without_norms
from retrofit_core.baselines.otfusion import transport
from retrofit_core.baselines.rebasin import match_weights
from retrofit_core.baselines.repair import AFFINE
from retrofit_core.baselines.scores import group_scores
from retrofit_core.data import load
from retrofit_core.fusion.importance import Conductance, DeepLift, Uniform, importance_scores
from retrofit_core.networks.checkpoints import load_model
from retrofit_core.networks.levels.kinds import BatchNorm
from retrofit_core.networks.symmetry import neuron_groups, shuffled, tensors
from retrofit_core.runs import RunConfig, method_keywords
from retrofit_core.system.monitor import Monitor
from tests.flat import averaging, ensembling
from tests.marks import each_case, spread
from tests.networks import CNN_SHAPE, affine_layers, batchnorm_cnn, cnn, labels, mlp, normal, rewired, widened
from tests.properties import assert_close, assert_same_function, untouched
from tests.test_symmetry import NETWORKS
from tests.test_twins import twins
from tests.unfixed import otfusion, rebasin

ot = pytest.importorskip("ot", reason="POT is not installed")
MODES = ("activations", "weights")


@pytest.mark.slow
@each_case("name, mode", spread(["vgg with BatchNorm", "BatchNorm, no bias", "resnet"], MODES, 1))
def test_a_shuffled_copy_is_found_again_where_norms_are_folded(name, mode):
    """As weights act: a neuron whose weights are ten times those of its twin, undone by BatchNorm, is the same neuron."""
    model, twin, x = twins(name)
    modules = dict(twin.named_modules())
    for layer, norm in ((modules[a], modules[b]) for a, b in normed_pairs(twin)):
        factor = torch.rand(len(layer.weight), generator=torch.Generator().manual_seed(5)).double() * 9 + 1
        layer.weight.data *= factor.view(-1, *[1] * (layer.weight.ndim - 1))
        if layer.bias is not None:
            layer.bias.data *= factor
        norm.running_mean *= factor
        norm.running_var.copy_((norm.running_var + norm.eps) * factor**2 - norm.eps)
    assert_same_function(twin, model, x, 1e-8)
    with untouched(model, twin):
        folded = without_norms(model, x[:2])
        assert_same_function(folded, model, x, 1e-10)
        assert all((norm.weight == 1).all() for norm in folded.modules() if isinstance(norm, BatchNorm))
        result = otfusion([model, twin], x, mode=mode, fold_norms=True, repair=mode == "activations")
    make, shape = NETWORKS[name]
    assert_same_function(result.model, model, normal(8, *shape, seed=9), 1e-6)
    if mode == "weights":  # carried along, the weights of the twin look like other neurons
        with pytest.raises(AssertionError):
            assert_same_function(otfusion([model, twin], x, mode=mode).model, model, x, 1e-6)


def normed_pairs(model):
    """Names of layers and of the BatchNorms that follow them in the order of definition."""
    modules = [(name, module) for name, module in model.named_modules() if isinstance(module, (*AFFINE, BatchNorm))]
    return [(a, b) for (a, _), (b, norm) in itertools.pairwise(modules) if isinstance(norm, BatchNorm)]


@pytest.mark.slow
@each_case("case, mode", spread([(mlp, (6,)), (cnn, CNN_SHAPE), (batchnorm_cnn, CNN_SHAPE)], MODES, 1))
def test_duplicated_neurons_of_a_wider_parent_are_joined(case, mode):
    """C28: A and a wider network of the same function, whichever of them gives the widths."""
    make, shape = case
    model, x = make(), normal(40, *shape)
    wide = widened(model, extra=2)
    for target in (model, wide):
        result = otfusion([model, wide], x, mode=mode, target=target)
        assert {k: v.shape for k, v in tensors(result.model).items()} == {
            k: v.shape for k, v in tensors(target).items()
        }
        assert all(torch.isfinite(tensor).all() for tensor in tensors(result.model).values())
    doubled = rewired_twice(model)
    result = otfusion([model, doubled], x, mode=mode)
    assert_same_function(result.model, model, x, 1e-8)


def rewired_twice(model):
    """Every hidden neuron twice, outgoing weights halved."""
    layer_widths = [layer.weight.shape[0] for layer in affine_layers(model)[:-1]]
    members = [torch.arange(width).repeat(2) for width in layer_widths]
    return rewired(model, members, [torch.full((2 * width,), 0.5).double() for width in layer_widths])


def test_what_a_fused_neuron_draws_on_sums_to_one():
    """Networks whose hidden neurons are constant stay so, whatever scores and widths; not with the other marginal (F9)."""
    first, second, x = mlp((6, 8, 7, 4)), mlp((6, 5, 6, 4), seed=2), normal(30, 6)
    for model in (first, second):
        model[0].weight.data.zero_()
        model[0].bias.data.fill_(2.0)
    options = {"importance": "conductance", "importance_data": "fusion", "mode": "activations"}
    fused = otfusion([first, second], (x, labels(30, 4)), **options).model
    assert_close(fused[0].bias, torch.full((8,), 2.0), 1e-10)
    earlier = otfusion([first, second], (x, labels(30, 4)), normalise="source", **options).model
    assert (earlier[0].bias - 2.0).abs().max() > 1e-2
    # rows that sum to n_source / n_target: 5/8 of the second parent's, and all of the first's
    uniform = otfusion([first, second], x, normalise="source").model
    assert_close(uniform[0].bias.mean(), torch.tensor((2.0 + 2.0 * 5 / 8) / 2), 1e-10)


def test_any_target_widths_and_parents():
    models, x = [mlp((6, 8, 7, 4)), mlp((6, 5, 9, 4), seed=2), mlp((6, 8, 7, 4), seed=3)], normal(30, 6)
    for mode in ("activations", "weights"):
        result = otfusion(models, x, mode=mode, target=mlp((6, 6, 10, 4), seed=5))
        assert [level.width for level in result.levels] == [6, 10, 4]
        assert [level.widths for level in result.levels] == [(8, 5, 8), (7, 9, 7), (4, 4, 4)]
        assert torch.isfinite(result.model(x)).all()
        again = otfusion(models, x, mode=mode, target=mlp((6, 6, 10, 4), seed=6))
        assert_same_function(result.model, again.model, x, 1e-12)  # the target's own weights do not matter
    with pytest.raises(ValueError, match="level '0': 30 fused neurons for 21 parents' neurons"):
        otfusion(models, x, target=mlp((6, 30, 10, 4)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("squared", [False, True])
def test_exact_transport_at_equal_widths_is_the_best_matching(mode, squared):
    """C38, brute force over all permutations; the first group sees the raw costs in both modes."""
    first, second, x = mlp((4, 5, 3)), mlp((4, 5, 3), seed=2), normal(20, 4)
    level = otfusion([first, second], x, mode=mode, squared=squared).levels[0]
    if mode == "activations":
        a, b = first[0](x).T, second[0](x).T
    else:
        a, b = (torch.cat([m[0].weight, m[0].bias[:, None]], 1) for m in (first, second))
    cost = torch.cdist(b.detach(), a.detach()) ** (2 if squared else 1)
    totals = {order: sum(cost[i, j] for i, j in enumerate(order)).item() for order in itertools.permutations(range(5))}
    best = min(totals, key=totals.__getitem__)
    assert level.labels[5:].tolist() == list(best)
    assert level.grouping["cost"] == pytest.approx(totals[best] / 5, rel=1e-9)  # each has a fifth


@pytest.mark.parametrize("seed", range(5))
def test_plans_have_their_marginals_and_the_least_cost(seed):
    generator = torch.Generator().manual_seed(seed)
    cost = torch.rand(4, 3, generator=generator).double()
    mu, nu = (torch.rand(n, generator=generator).double() + 0.1 for n in (4, 3))
    mu, nu = mu / mu.sum(), nu / nu.sum()
    exact, converged = transport(cost, mu, nu, "exact", 1.0)
    assert converged
    assert_close(exact.sum(1), mu, 1e-12)
    assert_close(exact.sum(0), nu, 1e-12)
    assert_close((exact * cost).sum(), torch.tensor(ot.emd2(mu.numpy(), nu.numpy(), cost.numpy())), 1e-7)
    gaps = []
    for strength in (1.0, 0.1, 0.02):
        soft, _ = transport(cost, mu, nu, "sinkhorn", strength)
        assert_close(soft.sum(0), nu, 1e-4)
        gaps.append(((soft - exact) * cost).sum().item())
    assert gaps[0] > gaps[1] > gaps[2] > -1e-6 and gaps[2] < 0.02


def test_uniform_squared_matching_is_the_largest_inner_product():
    """C39, by brute force over all permutations, behind the ReLU."""
    first, second, x = mlp((4, 5, 3)), mlp((4, 5, 3), seed=2), normal(20, 4)
    result = rebasin([first, second], x)
    gram = (first[0](x).relu().T @ second[0](x).relu()).detach()
    best = max(itertools.permutations(range(5)), key=lambda order: sum(gram[i, j] for i, j in enumerate(order)).item())
    assert result.levels[0].labels[5:].tolist() == torch.tensor(best).argsort().tolist()


def test_weight_matching_is_the_best_where_one_group_is_free():
    first, second, x = mlp((4, 5, 3)), mlp((4, 5, 3), seed=2), normal(20, 4)
    groups = neuron_groups(first, x)
    orders, facts = match_weights(groups, tensors(first), tensors(second), seed=0, monitor=Monitor())
    assert facts["converged"]
    a, b = (torch.cat([m[0].weight, m[0].bias[:, None], m[2].weight.T], 1).detach() for m in (first, second))
    gains = a @ b.T
    best = max(itertools.permutations(range(5)), key=lambda order: sum(gains[i, j] for i, j in enumerate(order)).item())
    assert orders["0"].tolist() == list(best)


def test_scores_weigh_the_parents():
    first, second, x = mlp((6, 8, 7, 4)), mlp((6, 8, 7, 4), seed=2), normal(40, 6)
    assert_same_function(
        rebasin([first, second], x).model,
        rebasin([first, second], x, importance=constant, importance_data=rows_of_each(x)).model,
        x,
    )
    # what a parent never uses has next to no say: parent 1's head knows class 0 only
    result = rebasin([first, second], x, importance=only_first_class, importance_data=rows_of_each(x))
    assert_close(result.model[4].bias[1:], first[4].bias[1:], 1e-6)
    assert_close(result.model[4].bias[0], (first[4].bias[0] / 4 + second[4].bias[0]) / (1 / 4 + 1), 1e-6)


def rows_of_each(x):
    return [(x, labels(len(x), 4)), (x + 1, labels(len(x), 4))]


def constant(levels, x, y):
    return [torch.full((level.width,), 3.0) for level in levels]


def only_first_class(levels, x, y):
    scores = constant(levels, x, y)
    if x[0, 0] == rows_of_each(x - 1)[1][0][0, 0] and x.mean() > 0.5:  # parent 1
        scores[-1] = torch.tensor([1.0, 0, 0, 0])
    return scores


@pytest.mark.slow
def test_group_scores_are_the_levels_scores_where_groups_are_levels():
    model, x, y = batchnorm_cnn(), normal(12, *CNN_SHAPE), labels(12, 3)
    groups = neuron_groups(model, x)
    for importance in (Conductance(), DeepLift(), Uniform()):
        grouped, wanted = group_scores(model, groups, x, y, importance), importance_scores(model, x, y, importance)
        for ours, theirs in zip(grouped.values, wanted.values, strict=True):
            assert_close(ours, theirs, 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet", "vit", "residual"])
def test_neurons_inside_of_blocks_have_conductances(name):
    """A shuffled copy's scores are the shuffled scores; so are those of every head."""
    make, shape = NETWORKS[name]
    model, x, y = make(), normal(6, *shape), labels(6, 3)
    groups = neuron_groups(model, x)
    scores = group_scores(model, groups, x, y, Conductance()).values
    assert all(abs(values.sum().item() - 1) < 1e-9 and values.std() > 0 for values in scores)
    twin = shuffled(model, x, torch.Generator().manual_seed(3))
    for ours, theirs in zip(scores, group_scores(twin, groups, x, y, Conductance()).values, strict=True):
        assert_close(ours.sort().values, theirs.sort().values, 1e-8)
    with pytest.raises(ValueError, match="'deeplift' is defined only at the ends of levels"):
        group_scores(model, groups, x, y, DeepLift())


def test_refusals_come_before_any_work():
    models, x = [mlp(), mlp(seed=2)], normal(20, 6)
    cases = [
        (rebasin, [*models, mlp(seed=3)], {}, r"pairs exactly two parents; found 3. Use OTFusion, KF-Linear"),
        (rebasin, [mlp(), mlp((6, 5, 7, 4))], {}, r"level '0': Git Re-Basin pairs .* found widths \(8, 5\)"),
        (rebasin, models, {"mode": "both"}, "mode is 'both'. Use activations, weights"),
        (rebasin, models, {"similarity": "cosine"}, "similarity is 'cosine'. Use distance, unsquared, correlation"),
        (otfusion, models, {"solver": "greedy"}, "solver is 'greedy'. Use exact, sinkhorn"),
        (otfusion, models, {"normalise": "no"}, "normalise is 'no'. Use target, source, original"),
        (otfusion, models, {"regularisation": "-1x"}, "regularisation is '-1x'. Use a positive number"),
        (otfusion, models, {"importance": "conductance"}, "importance .conductance. needs data"),
        (otfusion, [mlp(), mlp((6, 8, 4))], {}, "parent 1"),
        (otfusion, [], {}, "there is no parent to fuse"),
        (averaging, models, {"weighting": "samples"}, "FedAvg weights parents by their numbers of training samples"),
        (ensembling, models, {"combine": "shares"}, "Pass class_shares=TENSOR"),
    ]
    for method, parents, options, message in cases:
        with untouched(*parents), pytest.raises(ValueError, match=message):
            method(parents, x, **options)


def test_averages():
    """C40: linear, the same for copies, by counts; a shuffled copy is not found again."""
    model, other, x = mlp(), mlp(seed=2), normal(20, 6)
    for fused in (
        averaging([model, model], x),
        averaging([model] * 3, x, weighting="samples", sample_counts=[1, 5, 2]),
    ):
        assert_same_function(fused.model, model, x, 1e-12)
    assert_same_function(
        averaging([model, other], x, weighting="samples", sample_counts=[7, 7]).model, average([model, other]), x, 1e-12
    )
    quarter = averaging([model, other], x, weighting="samples", sample_counts=[10, 30]).model
    assert_close(quarter[0].weight, 0.25 * model[0].weight + 0.75 * other[0].weight, 1e-12)
    first, second = mlp((6, 4)), mlp((6, 4), seed=2)
    assert_close(average([first, second], [1, 3])(x), (first(x) + 3 * second(x)) / 4, 1e-12)
    _, twin, x = twins("mlp")
    with pytest.raises(AssertionError):
        assert_same_function(average([model, twin]), model, x, 1e-2)
    for weights in ([1.0], [-1.0, 2.0], [0.0, 0.0], [float("nan"), 1.0]):
        with pytest.raises(ValueError, match="2 parents need as many weights"):
            average([model, other], weights)


def test_what_only_a_deeper_parent_has_is_no_average_either():
    shallow = mlp()
    deep = nn.Sequential(*mlp(seed=2), nn.ReLU(), nn.Linear(4, 4).double())  # it has all of the other's tensors
    for parents, shapes in (([shallow, deep], r"None, \(4, 4\)"), ([deep, shallow], r"\(4, 4\), None")):
        with pytest.raises(ValueError, match=rf"cannot be averaged: '6.weight' has the shapes \[{shapes}\]"):
            average(parents)


def test_ensembles():
    models, x = [mlp(), mlp(seed=2), mlp(seed=3)], normal(20, 6)
    with torch.no_grad():
        mean = torch.stack([model(x).softmax(1) for model in models]).mean(0)
        assert_close(ensembling(models, x).model(x).softmax(1), mean, 1e-6)
        assert_close(ensembling(models[::-1], x).model(x), ensembling(models, x).model(x), 1e-6)
        assert_close(ensembling(models[:1] * 3, x, combine="logits").model(x), models[0](x), 1e-10)


@each_case(
    ("method", "given", "message"),
    [
        ("Average", {"sample_counts": [1, 2]}, "sample_counts have no effect .* Use FedAvg, or omit them"),
        ("FedAvg", {"sample_counts": [1, 2, 3]}, "2 parents need as many weights"),
        ("FedAvg", {"sample_counts": [1, None]}, "2 parents need as many weights, all of them numbers"),
        ("Ensemble", {"class_shares": torch.ones(2, 4)}, "class_shares have no effect .* Use Ensemble-Shares"),
        ("Ensemble-Logits", {"class_shares": torch.ones(2, 4)}, "class_shares have no effect with combine='logits'"),
        (
            "Ensemble-Shares",
            {"class_shares": torch.ones(2, 5)},
            "class_shares are given for 5 classes, and the parents have 4",
        ),
        ("Ensemble-Shares", {"class_shares": torch.ones(3, 4)}, "one row of class counts for each of the 2 models"),
    ],
)
def test_counts_and_shares_that_would_do_nothing_or_fit_nothing_are_refused(method, given, message):
    with pytest.raises(ValueError, match=message):
        METHODS[method].plan([mlp(), mlp(seed=2)], normal(20, 6), **given)


def test_results_hold_every_setting():
    models, x, shares = [mlp(), mlp(seed=2)], normal(20, 6), torch.tensor([[1.0, 0, 2, 3], [0, 1, 1, 1]])
    config = METHODS["Ensemble-Shares"](models, x, class_shares=shares, device="cpu").config
    assert config == {
        "method": "ensemble",
        "combine": "shares",
        "class_shares": shares.tolist(),
        "device": "cpu",
    }
    counted = METHODS["FedAvg"](models, x, sample_counts=[1, 2]).config
    assert (counted["weighting"], counted["sample_counts"]) == ("samples", [1, 2])


PROBED = {"Average": {}, "FedAvg": {"sample_counts": [1, 2]}, "Ensemble": {}, "RegMean": {}, "KD": {}, "LP": {}}


@each_case("method", PROBED)
def test_a_plan_runs_nothing_but_single_samples(method):
    """Its events, and what goes through the parents; the cost says what will."""
    models, x, events, sizes = [mlp(), mlp(seed=2)], normal(20, 6), [], []
    for model in models:
        model.register_forward_hook(lambda _, inputs, __: sizes.append(len(inputs[0])))
    with untouched(*models):
        plan = METHODS[method].plan(models, x, monitor=Monitor(events.append), **PROBED[method])
    assert not events and max(sizes) <= 2
    cost = plan.cost
    assert cost.passes == {"RegMean": 200, "KD": 20, "LP": 20}.get(method, 0)
    assert cost.trained == {"KD": "network", "LP": "head"}.get(method)


def test_a_setting_that_a_method_does_not_know_is_refused():
    assert {"toward", "ridge"} <= METHODS["KF-Linear"].keywords().keys()
    transport = METHODS["OTFusion"]
    assert "toward" not in transport.keywords() and {"importance", "solver", "leaves"} <= transport.keywords().keys()
    assert "mode" not in transport.keywords() and "importance" not in METHODS["ZipIt"].keywords()
    assert method_keywords(RunConfig(("a",), method="OTFusion", seed=3)) == {"seed": 3}
    assert method_keywords(RunConfig(("a",), method="HF-Linear", options={"toward": "parents"})) == {
        "toward": "parents"
    }
    with pytest.raises(ValueError, match="OTFusion has no setting 'toward'.*setting of HF-Linear, KF-Linear"):
        method_keywords(RunConfig(("a",), method="OTFusion", options={"toward": "parents"}))


def test_the_steps_of_a_score_are_keywords_of_the_method():
    """As flat keywords, and as the value that they stand for; results name all of it."""
    models, x, y = [mlp(), mlp(seed=2)], normal(20, 6), labels(20, 4)
    flat = METHODS["OTFusion"](models, (x, y), importance="conductance", importance_data="fusion", steps=3)
    value = METHODS["OTFusion"](models, (x, y), importance=Conductance("fusion", steps=3))
    assert_same_function(flat.model, value.model, x, 0)
    assert flat.config == value.config
    settings = {
        "solver": "exact",
        "mode": "activations",
        "importance": "conductance",
        "steps": 3,
        "seed": 0,
        "samples": 20,
    }
    assert settings.items() <= flat.config.items()
    with pytest.raises(ValueError, match="steps is a setting of importance='conductance', which is not chosen"):
        METHODS["OTFusion"](models, x, steps=3)  # uniform scores take none


@pytest.mark.parametrize("name", ["OTFusion", "Transformer-OTFusion", "Git-Re-Basin", "ZipIt", "PLeaS"])
def test_a_plan_computes_nothing_and_says_what_the_work_would_cost(name):
    models, x, y = [mlp().train(), mlp(seed=2)], normal(20, 6), labels(20, 4)
    events = []
    scoring = {"importance": "conductance", "importance_data": "fusion"} if METHODS[name].takes.importance else {}
    with untouched(*models):
        plan = METHODS[name].plan(models, (x, y), monitor=Monitor(events.append), **scoring)
    assert models[0].training and not models[1].training
    assert [event["name"] for event in events] == ["groups"]
    cost = plan.cost
    assert cost.passes == 20 and cost.groups == ((8, 8), (7, 7), (4, 4))


def test_labels_that_no_class_has_are_refused_before_any_work():
    models, x = [mlp(), mlp(seed=2)], normal(20, 6)
    with pytest.raises(ValueError, match="labels run from 7 to 7, and the parents have 4 classes"):
        METHODS["OTFusion"].plan(models, (x, torch.full((20,), 7)), importance="conductance", importance_data="fusion")
    with pytest.raises(ValueError, match="importance 'conductance' needs labels"):
        METHODS["Git-Re-Basin"].plan(models, x, importance="conductance", importance_data="fusion")


@pytest.mark.slow
@pytest.mark.parametrize("options, wanted", [({}, 95.58), ({"unit_rows": True}, 96.63), ({"squared": True}, 95.32)])
def test_published_checkpoints_give_the_published_numbers(shared, options, wanted):
    models = [load_model(shared / "models" / f"mnist-mlp-otfusion-{k}.safetensors")[0] for k in (0, 1)]
    test = load(str(shared / "data" / "mnist"), "test")
    result = otfusion(models, test.inputs(torch.arange(2)), mode="weights", **options)
    assert evaluate(result.model, test)["accuracy"] == pytest.approx(wanted, abs=0.02)


@pytest.mark.slow
def test_sinkhorn_of_published_checkpoints(shared):
    """96.05: weights, strength 0.1 on plain distances, aligned to checkpoint 1, the last layer's rows transported too.

    So strong a Sinkhorn aligns nothing: a fused neuron draws on 382 of 400 neurons in effect, and what is left of the other
    network is constant. It shifts all classes alike where these are blended too, and one against another where they are not.
    """
    models = [load_model(shared / "models" / f"mnist-mlp-otfusion-{k}.safetensors")[0] for k in (1, 0)]
    test = load(str(shared / "data" / "mnist"), "test")
    options = {"mode": "weights", "solver": "sinkhorn", "regularisation": 0.1}
    matched, fixed = (otfusion(models, test.inputs(torch.arange(2)), match_classes=m, **options) for m in (True, False))
    assert evaluate(matched.model, test)["accuracy"] == pytest.approx(96.05, abs=0.5)
    assert evaluate(fixed.model, test)["accuracy"] == pytest.approx(90.86, abs=0.5)


def test_activations_of_published_checkpoints(shared):
    models = [load_model(shared / "models" / f"mnist-mlp-otfusion-{k}.safetensors")[0] for k in (0, 1)]
    test = load(str(shared / "data" / "mnist"), "test")
    result = otfusion(models, test.inputs(torch.arange(200)))
    assert evaluate(result.model, test)["accuracy"] == pytest.approx(96.68, abs=0.5)
