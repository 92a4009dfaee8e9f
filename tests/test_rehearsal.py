"""The GPU that is not there refuses what CUDA refuses; every method gives on it what it gives on a CPU."""

import pytest
import torch

from retrofit_core import build, evaluate, importance_scores, train
from retrofit_core.inspection.landscape import Landscape
from retrofit_core.system import device as devices
from tests.marks import each_case
from tests.networks import CNN_SHAPE, batchnorm_cnn, cnn, labels, mlp, normal
from tests.properties import assert_close, untouched
from tests.rehearsal import CUDA, rehearsal
from tests.test_contract import EVERY, FIRST, NETWORKS, case, options_for, reason
from tests.test_landscape import images_of

IMAGES = images_of((3, 8, 8))
HERE = {
    "a sum": lambda here, there: here + there,
    "a product": lambda here, there: here @ there,
    "tensors side by side": lambda here, there: torch.cat([here, there]),
    "a sum into the other": lambda here, there: there.add_(here),
    "a sum into a number": lambda here, there: there[0, 0].add_(here[0, 0]),
    "values put in": lambda here, there: here.index_put_((torch.tensor([0]),), there[:1]),
    "places that lie there": lambda here, there: there[torch.tensor([0], device="cuda")],
    "rows picked": lambda here, there: here.index_select(0, torch.tensor([0])),
}


@each_case("what", HERE)
def test_two_devices_in_one_operation_are_refused(what):
    with rehearsal(), pytest.raises(RuntimeError, match=r"same device.*cuda:0 and cpu"):
        HERE[what](torch.ones(3, 3, device="cuda"), torch.ones(3, 3))


def test_a_generator_of_the_cpu_and_numpy_are_refused():
    with rehearsal():
        with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
            torch.rand(2, device="cuda", generator=torch.Generator())
        with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
            torch.ones(2, device="cuda").numpy()


def test_what_cuda_takes_is_taken():
    """Numbers without axes, places on the CPU, copies in both directions."""
    with rehearsal():
        x = torch.arange(6.0, device="cuda").view(2, 3)
        assert x.device == CUDA and x.is_cuda and x.get_device() == 0 and devices.pick(None) == CUDA
        x = x * torch.tensor(2.0)
        x[torch.tensor([0])] = 1
        x[1].copy_(torch.zeros(3))
        assert x.tolist() == [[1, 1, 1], [0, 0, 0]]


# --- every method ----------------------------------------------------------------------------------------------------


def rehearsed(name, network, **more):
    """What a method gives on the CPU and on the device; float64."""
    models, (x, y), options = case(network, "two parents")
    options = options_for(name, models, NETWORKS[network].classes) | options | more
    models = [model.double() for model in models]  # in place, the base of task vectors as well
    expected = EVERY[name](models, (x.double(), y), **options)
    with untouched(*models), rehearsal():
        result = EVERY[name](models, (x.double(), y), **{**options, "device": "cuda"})
    return expected, result


def assert_equal_on_the_device(expected, result):
    """The work was done on the device; the result lies with the parents, on the CPU."""
    assert {tensor.device.type for tensor in result.model.state_dict().values()} == {"cpu"}
    assert torch.device(result.config["device"]) == CUDA
    for name, tensor in expected.model.state_dict().items():
        assert_close(result.model.state_dict()[name], tensor, 1e-9)
    for ours, theirs in zip(result.levels, expected.levels, strict=True):
        assert torch.equal(ours.labels, theirs.labels) and ours.labels.device.type == "cpu"


@pytest.mark.long
@each_case("name", [name for name in EVERY if not reason(name, FIRST, "two parents")])
def test_every_method_gives_the_same_on_the_device(name):
    expected, result = rehearsed(name, FIRST)
    assert_equal_on_the_device(expected, result)


@pytest.mark.slow
@each_case("network", ["resnet", "vit"])
@each_case("name", ["HF-Linear", "KF-Linear"])
def test_networks_of_blocks_give_the_same_on_the_device(name, network):
    expected, result = rehearsed(name, network)
    assert_equal_on_the_device(expected, result)


def test_ridges_are_raised_and_overflow_is_refused_as_on_the_cpu():
    """Rows fewer than inputs, without a ridge, have no Cholesky factor."""
    models, x = [mlp(seed=k).double() for k in (0, 1)], normal(4, 6).repeat(5, 1)
    options = {"ridge": 1e-300}
    expected = EVERY["KF-Linear"](models, x, **options)
    with rehearsal():
        result = EVERY["KF-Linear"](models, x, device="cuda", **options)
        with pytest.raises(ValueError, match="overflow or hold NaN|cannot add up"):
            EVERY["KF-Linear"](models, x * 1e200, device="cuda")
    assert expected.levels[0].ridge > 1e-300  # was raised
    # Weights of so small a ridge are decided by rounding; what they compute from these data is not.
    assert_close(result.model(x), expected.model(x), 1e-6)
    assert [level.ridge for level in result.levels] == pytest.approx([level.ridge for level in expected.levels])


# --- training, scores and landscapes -----------------------------------------------------------------------------------


def trained_there(device, optimizer, augmented):
    model = build(
        {"architecture": "vgg", "plan": [4, "M", 6, "M"], "size": 8, "classes": 3, "batch_norm": True}, seed=0
    )
    words = {"crop": 1, "flip": True, "cutmix": True} if augmented else {}
    history = train(
        model, IMAGES, epochs=2, batch=8, clip=1.0, holdout=0.2, optimizer=optimizer, device=device, **words
    )
    return model, [epoch["accuracy"] for epoch in history], evaluate(model.to(device), IMAGES)


@pytest.mark.slow
@pytest.mark.parametrize("augmented", [False, True])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_networks_are_trained_and_measured_the_same_on_the_device(optimizer, augmented):
    """What is drawn is drawn on the CPU, augmentation included."""
    expected, course, facts = trained_there("cpu", optimizer, augmented)
    with rehearsal():
        model, there, found = trained_there("cuda", optimizer, augmented)
    assert there == course and found["loss"] == pytest.approx(facts["loss"], rel=1e-3)
    for name, tensor in expected.state_dict().items() if optimizer == "sgd" else ():
        # Adam's first steps of biases before a BatchNorm, whose gradients are zero up to rounding, go anywhere.
        assert_close(model.state_dict()[name].cpu(), tensor, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("make", [batchnorm_cnn, cnn])
@pytest.mark.parametrize("importance", ["conductance", "deeplift"])
def test_scores_are_the_same_on_the_device(importance, make):
    """DeepLIFT is Captum's, whose rules are hooks of gradients."""
    model, x, y = make(), normal(12, *CNN_SHAPE), labels(12, 3)
    expected = importance_scores(model, x, y, importance)
    with rehearsal():
        found = importance_scores(model.to("cuda"), x.to("cuda"), y.to("cuda"), importance)
    assert found.report["completeness_gap"] == pytest.approx(expected.report["completeness_gap"], rel=1e-6, abs=1e-9)
    for ours, theirs in zip(found.values, expected.values, strict=True):
        assert ours.device == CUDA
        assert_close(ours.cpu(), theirs, 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("norms", ["estimated", "interpolated"])
def test_landscapes_are_the_same_on_the_device(norms):
    spec = {"architecture": "vgg", "plan": [4, "M", 6, "M"], "size": 8, "classes": 3, "batch_norm": True}
    networks = {name: build(spec, seed=seed) for seed, name in enumerate("abc")}
    landscape = Landscape(resolution=3, images=20, directions=2, path_points=3, norms=norms)

    def last(device):
        *_, survey = landscape.run(landscape.plan(networks, "abc", IMAGES, device=device))
        return survey

    expected = last("cpu")
    with rehearsal():
        found = last("cuda")
    assert_close(found.loss, expected.loss, 1e-5)
    assert found.accuracy.tolist() == expected.accuracy.tolist()
