"""What theory says of the baselines where it leaves no choice: invariances, limits, and where two methods meet."""

import copy

import pytest
import torch
from torch import nn

from retrofit_core.methods import METHODS
from tests.marks import each_case
from tests.networks import CNN_SHAPE, batchnorm_cnn, mlp, normal
from tests.properties import assert_close, assert_same_function
from tests.unfixed import otfusion, rebasin, zipit

PAIR = (mlp((6, 8, 7, 4)), mlp((6, 8, 7, 4), seed=2))

# --- averages and ensembles ------------------------------------------------------------------------------------------


@pytest.mark.slow
@each_case(
    "method",
    [
        "Average",
        "FedAvg",
        "OTFusion",
        "OTFusion-Weights",
        "Git-Re-Basin",
        "Git-Re-Basin-Weights",
        "ZipIt",
        "RegMean",
        "PLeaS",
        "Fisher",
        "SLERP",
    ],
)
def test_integer_buffers_are_not_averaged(method):
    """BatchNorm's counter stays parent 0's, whole; its statistics do not."""
    models, x = [batchnorm_cnn(bias=True), batchnorm_cnn(bias=True, seed=2)], normal(30, *CNN_SHAPE)
    for model, count in zip(models, (3, 1001), strict=True):
        for name, buffer in model.named_buffers():
            if name.endswith("num_batches_tracked"):
                buffer.fill_(count)
    more = {"sample_counts": [1, 2]} if method == "FedAvg" else {}
    fused = METHODS[method](models, (x, torch.zeros(30).long()), device="cpu", **more).model
    counters = [buffer for name, buffer in fused.named_buffers() if name.endswith("num_batches_tracked")]
    assert [(counter.dtype, counter.item()) for counter in counters] == [(torch.int64, 3)] * 3
    if method in ("Average", "FedAvg"):
        share = 1 / 3 if method == "FedAvg" else 1 / 2
        first, second = (model[1].running_var for model in models)
        assert_close(fused[1].running_var, share * first + (1 - share) * second, 1e-12)


# --- matching --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@each_case("options", [{"mode": "activations"}, {"mode": "weights"}, {"similarity": "correlation"}])
@each_case("seed", [0, 2, 4])  # others have two dead neurons in a level: either may take either partner
def test_swapped_parents_are_matched_by_the_inverse(options, seed):
    """Also coordinate descent, for it takes the groups in the same order; the fused functions are the same.

    Without ReLU: neurons that never fire are as good as each other, and any of them may be taken.
    """
    models, x = [mlp((6, 8, 7, 4), activation=nn.Tanh, seed=number) for number in (seed, seed + 10)], normal(60, 6)
    there, back = (rebasin(pair, x, device="cpu", **options) for pair in (models, models[::-1]))
    for left, right in zip(there.levels, back.levels, strict=True):
        order, other = (level.labels[level.width :] for level in (left, right))
        assert torch.equal(order[other], torch.arange(left.width)), left.name
    assert_same_function(there.model, back.model, x, 1e-9)


def test_soft_transport_of_a_network_onto_itself_blurs_it_the_more_the_softer():
    model, x = mlp((6, 8, 7, 4)), normal(60, 6)
    gaps = []
    for strength in ("0.01x", "0.05x", "0.2x", "1x"):
        fused = otfusion([model, model], x, solver="sinkhorn", regularisation=strength, device="cpu").model
        gaps.append((fused(x) - model(x)).norm().item())
    assert gaps == sorted(gaps) and gaps[0] < 1e-3 < gaps[-1]


# --- where two methods meet ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Identity])
def test_first_level_of_hf_linear_is_that_of_the_aligned_averages(activation):
    """C39: full rank, no ridge, uniform scores. OTFusion (squared) compares the same pre-activations; Git Re-Basin and
    PLeaS look behind the activation function, which is the same only where there is none."""
    models, x = [mlp(activation=activation, seed=seed) for seed in (0, 2)], normal(60, 6)
    ours = METHODS["HF-Linear"](models, x, ridge=0.0, device="cpu")
    results = {"OTFusion": otfusion(models, x, squared=True, device="cpu")}
    if activation is nn.Identity:
        results["Git-Re-Basin"] = rebasin(models, x, device="cpu")
        results["PLeaS"] = METHODS["PLeaS"](models, x, ridge=0.0, device="cpu")
    for name, theirs in results.items():
        assert torch.equal(theirs.levels[0].labels, ours.levels[0].labels), name
        assert_close(theirs.model[0].weight, ours.model[0].weight, 1e-8)
        assert_close(theirs.model[0].bias, ours.model[0].bias, 1e-8)


def test_zip_without_merges_inside_a_parent_is_a_pairing():
    """b = 0: every fused neuron has one of each; where pairs are plain that is the matching of correlations."""
    model, x = mlp((6, 8, 7, 4)), normal(60, 6)
    other = copy.deepcopy(model)
    for parameter in other.parameters():
        parameter.data += 0.02 * normal(*parameter.shape, seed=5)
    zipped = zipit([model, other], x, b=0.0, device="cpu")
    matched = rebasin([model, other], x, similarity="correlation", device="cpu")
    for ours, theirs in zip(zipped.levels, matched.levels, strict=True):
        assert torch.equal(ours.labels, theirs.labels)
    assert_same_function(zipped.model, matched.model, x, 1e-9)


def test_distillation_of_logits_is_kf_with_one_level():
    """Both start at parent 0 and want the mean of the logits; without a hidden layer both tend to least squares."""
    models, x = list(PAIR), normal(60, 6)
    goal = torch.stack([model(x) for model in models]).mean(0).detach()
    start = (models[0](x).detach() - goal).square().mean().item()
    kd = METHODS["KD"](models, x, loss="mse", start="parent0", epochs=0, device="cpu").config["curve"][0]
    kf = METHODS["KF-Gradient"](models, x, boundaries=1, epochs=0, device="cpu").levels[0].curve[0]
    for curve in (kd, kf):  # the shares of the samples that are held out and trained on
        assert 0.9 * curve["loss"] + 0.1 * curve["validation"] == pytest.approx(start, rel=1e-9)
    flat, data = [mlp((6, 4)), mlp((6, 4), seed=2)], normal(30, 6).repeat(10, 1)  # what is held out is trained on too
    solved = METHODS["KF-Linear"](flat, data, ridge=0.0, device="cpu").model
    options = {"epochs": 300, "patience": None, "learning_rate": 2e-2, "weight_decay": 0.0, "batch_size": 270}
    learnt = METHODS["KD"](flat, data, loss="mse", start="parent0", device="cpu", **options).model
    assert_same_function(learnt, solved, normal(9, 6, seed=3), 1e-2)
