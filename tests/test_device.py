"""Devices: which one is meant, and what it can do."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from retrofit_core import METHODS, centred, importance_scores, train
from retrofit_core.system import device as devices
from retrofit_core.system.device import on_device
from tests.marks import each_case
from tests.networks import CNN_SHAPE, batchnorm_cnn, labels, normal
from tests.properties import untouched
from tests.test_contract import EVERY, FIRST, NETWORKS, case, options_for, reason
from tests.test_landscape import images_of

CUDA = torch.device("cuda", 0)


def on_a_gpu(test):
    return pytest.mark.cuda(pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")(test))


def test_a_device_that_cannot_do_the_work_is_refused_before_it():
    with pytest.raises(ValueError, match="'mps' has no float64.*Use 'cpu' or 'auto'"):
        devices.pick("mps")
    with pytest.raises(ValueError, match="device 'abacus' is not available here"):
        METHODS["KF-Linear"](pair(), X, device="abacus")


def test_a_network_on_the_device_is_not_copied():
    model = nn.Linear(2, 2)
    assert on_device(model, torch.device("cpu:0")) is model
    assert on_device(model, torch.device("meta")) is not model


# --- what goes in comes out: results lie where parent 0 lies, wherever the work is done.


CPU = torch.device("cpu")
IMAGES = images_of(CNN_SHAPE)
X, Y = normal(12, *CNN_SHAPE).float(), labels(12, 3)


def pair():
    return [batchnorm_cnn(seed=seed).float().eval() for seed in (0, 1)]


def places(model):
    return {tensor.device for tensor in (*model.parameters(), *model.buffers())}


def assert_lies(result, place):
    """All of it, and it runs on inputs that lie there."""
    assert places(result.model) == {place}
    x = normal(3, *NETWORKS[FIRST].shape).float().to(place)
    with torch.no_grad():
        assert result.model(x).device == place
        if result.alignment is not None:
            for each in (*result.alignment.networks, result.alignment.fused, *result.alignment.parents()):
                assert places(each) == {place} and each(x).device == place
            assert {part.device for group in result.alignment.groups for part in group.labels} == {place}
    for level in result.levels:
        assert {part.device for part in (level.labels, level.scores, level.gram, level.target_weights)} == {CPU}


RUNNING = [name for name in EVERY if not reason(name, FIRST, "two parents")]


@on_a_gpu
@each_case("name", RUNNING)
def test_fused_networks_lie_where_parent_0_lies(name):
    for place, device in ((CPU, "cuda"), (CUDA, "cuda")):
        models, data, _ = case(FIRST, "two parents")
        options = options_for(name) | {"device": device}
        models = [model.to(place) for model in models]  # in place, the base of task vectors as well
        with untouched(*models) if place == CPU else nullcontext():
            result = EVERY[name](models, data, **options)
        assert torch.device(result.config["device"]).type == device
        assert {place} == {found for model in models for found in places(model)}
        assert_lies(result, place)


@on_a_gpu
@each_case("name", ["HF-Linear", "OTFusion", "Ensemble"])
def test_where_device_says_nothing_the_gpu_works_and_gives_back(name):
    models, data, _ = case(FIRST, "two parents")
    result = METHODS[name](models, data)
    assert torch.device(result.config["device"]) == CUDA
    assert_lies(result, CPU)


@on_a_gpu
def test_parents_that_lie_apart_stay_there():
    first, second = pair()
    second = second.to(CUDA)
    for models, place in (([first, second], CPU), ([second, first], CUDA)):
        for device in ("cpu", "cuda"):
            for name in ("HF-Linear", "OTFusion", "Average", "Ensemble"):
                assert places(METHODS[name](models, X, device=device).model) == {place}
    assert places(first) == {CPU} and places(second) == {CUDA}


@on_a_gpu
@each_case("place", [CPU, CUDA])
def test_centred_networks_and_scores_lie_where_the_network_lies(place):
    model = pair()[0].to(place)
    assert places(centred(model, X)) == {place}
    scores = importance_scores(model, X.to(place), Y.to(place), steps=2)
    assert {value.device for value in scores.values} == {place}


@on_a_gpu
@each_case("device", ["cpu", "cuda"])
@each_case("place", [CPU, CUDA])
def test_training_leaves_the_network_where_it_was(place, device):
    model = pair()[0].to(place)
    train(model, IMAGES, epochs=1, batch=8, device=device)
    assert places(model) == {place}
