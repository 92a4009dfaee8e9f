"""KD and LP: nothing to learn from oneself, known optima, and features that stay."""

import copy

import pytest
import torch
from torch import nn

from retrofit_core import METHODS, FusionResult
from retrofit_core.baselines.distillation import fresh, kl
from retrofit_core.graph.graph import weights_of
from retrofit_core.networks.architectures import build
from retrofit_core.system.monitor import Cancelled, Monitor
from tests.families import NETWORKS
from tests.marks import each_case
from tests.networks import CNN_SHAPE, batchnorm_cnn, mlp, normal
from tests.properties import assert_close, assert_same_function, assert_same_tensors, untouched

distillation, linear_probe = METHODS["KD"], METHODS["LP"]


@each_case("temperature", [0.5, 1.0, 4.0])
def test_there_is_nothing_to_learn_from_oneself(temperature):
    model, x = mlp(), normal(40, 6)
    options = {"temperature": temperature, "weight_decay": 0.0, "epochs": 3}
    with untouched(model):
        result = distillation([model], x, start="parent0", **options)
    assert_same_function(result.model, model, x, 1e-9)
    assert abs(result.config["curve"][0]["loss"]) < 1e-12
    z = model(x).detach().requires_grad_()
    loss = kl(z, (model(x).detach() / temperature).softmax(1), temperature)
    loss.backward()
    assert abs(loss.item()) < 1e-12 and z.grad is not None and z.grad.abs().max() < 1e-12


def test_the_loss_is_the_divergence_of_the_mean_teacher():
    """By loops, for two teachers; its gradient is T (q - p) / samples."""
    models, student, x, T = [mlp(), mlp(seed=2)], mlp(seed=3), normal(12, 6), 3.0
    result = distillation(models, x, start="target", target=student, temperature=T, epochs=0, validation=0.5)
    with torch.no_grad():
        p = sum((model(x) / T).softmax(1) for model in models) / 2
        q = (student(x) / T).softmax(1)
    each = T**2 * (p * (p / q).log()).sum(1)
    (start,) = result.config["curve"]
    assert start["loss"] * 6 + start["validation"] * 6 == pytest.approx(each.sum().item())
    z = student(x).detach().requires_grad_()
    kl(z, p, T).backward()
    assert_close(z.grad, T * (q - p) / 12, 1e-10)
    assert_same_function(result.model, student, x, 0)


def test_the_best_epoch_is_restored_and_a_seed_repeats_itself():
    models, x = [batchnorm_cnn(), batchnorm_cnn(seed=2)], normal(34, *CNN_SHAPE)
    state = torch.get_rng_state()
    first, again, other = (distillation(models, x, epochs=4, batch_size=10, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert_same_tensors(again.model, first.model)
    assert any(not torch.equal(t, weights_of(other.model)[name]) for name, t in weights_of(first.model).items())
    wild = distillation(models, x, start="parent0", epochs=3, learning_rate=1e3)
    assert_same_function(wild.model, models[0], x, 1e-12)  # nothing beats the start, its statistics included
    assert distillation(models, x, epochs=30, patience=1, learning_rate=1e3).config["epochs_run"] < 30


@pytest.mark.parametrize("seed", [0, 1, 1000])
def test_a_student_starts_at_no_parents_initial_weights(seed):
    """Parents get the seeds 0, 1, ... (with --seed 1: 1000, 1001, ...), by the architecture's builder or by hand."""
    spec = {"architecture": "cnn", "widths": [3, 4, 5], "classes": 4}
    parents = [build(spec, seed=seed + k) for k in range(2)]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        by_hand = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4))
    for student, others in ((fresh(parents[0], seed), parents), (fresh(by_hand, seed), [by_hand])):
        start = next(student.parameters())
        assert not any(torch.allclose(start, next(other.parameters())) for other in others)


# --- LP ---


@pytest.mark.slow
@each_case("name", ["mlp", "cnn", "resnet", "vit", "torchvision vit"])
def test_features_of_parent_0_stay_bit_for_bit(name):
    make, shape = NETWORKS[name]
    first, x = make(), normal(20, *shape)
    second = copy.deepcopy(first)
    for parameter in second.parameters():
        parameter.data += 0.2 * normal(*parameter.shape, seed=3)
    with untouched(first, second):
        result = linear_probe([first, second], x, epochs=3, learning_rate=1e-2)
    head, changed = result.config["head"], []
    for key, tensor in weights_of(result.model).items():
        if not torch.equal(tensor, weights_of(first)[key]):
            changed.append(key)
    assert changed and {key.rpartition(".")[0] for key in changed} == {head}


@pytest.mark.slow
def test_the_head_tends_to_least_squares():
    models, x = [mlp(), mlp(seed=2)], normal(30, 6).repeat(10, 1)  # what is held out is also trained on
    long = linear_probe(models, x, epochs=400, patience=None, learning_rate=2e-2, weight_decay=0.0, batch_size=270)
    with torch.no_grad():
        h = torch.cat([models[0][:4](x), torch.ones(300, 1)], 1)
        wanted = sum(model(x) for model in models) / 2
        expected = h @ torch.linalg.lstsq(h, wanted).solution
        gap, least = ((made - wanted).square().mean() for made in (long.model(x), expected))
    assert least <= gap < least + 0.05 * wanted.var()


def test_refusals_progress_cancelling_and_saving(tmp_path):
    models, x = [mlp(), mlp(seed=2)], normal(20, 6)
    cases = [
        (distillation, {"start": "target"}, "start='target' needs a target"),
        (distillation, {"start": "parent0", "target": mlp()}, "start='parent0' needs parent 0's architecture"),
        (distillation, {"target": mlp((6, 8, 5))}, r"the parents' outputs have shape \(4,\) .* student's \(5,\)"),
    ]
    cases += [(linear_probe, {"target": mlp()}, "LP has no setting 'target'")]
    for method, options, message in cases:
        with untouched(*models), pytest.raises(ValueError, match=message):
            method(models, x, **options)
    for method in (distillation, linear_probe):
        with pytest.raises(ValueError, match="have 4 and 5 classes"):
            method([mlp(), mlp((6, 8, 5))], x)
        with pytest.raises(Cancelled):
            method(models, x, monitor=Monitor(cancelled=lambda: True))
        events = []
        result = method(models, x, epochs=2, monitor=Monitor(events.append))
        assert [event["index"] for event in events if event["kind"] == "epoch"] == [1, 2]
        result.save(tmp_path / method.name)
        again = FusionResult.load(tmp_path / method.name, mlp())
        assert_same_function(again.model, result.model, x, 0)
        assert again.config["curve"] == result.config["curve"]
