"""Devices: which one is meant, what it can do, how many bytes its numbers take."""

import re

import pytest
import torch
from torch import nn

from retrofit_core.fusion.budget import boundary_bytes, check_memory
from retrofit_core.networks.levels import partition
from retrofit_core.system import device as devices
from retrofit_core.system.device import on_device
from tests.networks import CNN_SHAPE, cnn, normal


def test_a_device_without_float64_is_refused_before_any_work():
    with pytest.raises(ValueError, match="'mps' has no float64.*Use 'cpu' or 'auto'"):
        devices.pick("mps")


def test_cuda_is_the_device_that_its_tensors_name(monkeypatch):
    """`pick` says "cuda:0", as parameters on it do; nothing is copied that is there already."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "empty", lambda *_, device: torch.Tensor._make_subclass(Placed, torch.zeros(0)))
    assert devices.pick("auto") == devices.pick("cuda") == torch.device("cuda:0")
    assert devices.same(torch.device("cuda"), torch.device("cuda:0"))
    assert not devices.same(torch.device("cuda"), torch.device("cuda:1"))
    assert not devices.same(torch.device("cpu"), torch.device("cuda"))
    assert devices.same(torch.device("cpu"), torch.device("cpu:0"))


class Placed(torch.Tensor):
    """A tensor as it lies on the first CUDA device."""

    @property
    def device(self) -> torch.device:
        return torch.device("cuda:0")


def test_a_network_on_the_device_is_not_copied():
    model = nn.Linear(2, 2)
    assert on_device(model, torch.device("cpu:0")) is model
    assert on_device(model, torch.device("meta")) is not model


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_parents_on_the_gpu_are_used_as_they_are():
    model = nn.Linear(2, 2).cuda()
    assert on_device(model, torch.device("cuda")) is model
    assert on_device(model, devices.pick("cuda")) is model


def test_budgets_count_the_bytes_of_the_networks_numbers():
    x = normal(2, *CNN_SHAPE)
    double, single = partition(cnn(), x), partition(cnn().float(), x.float())
    assert boundary_bytes([double, double], 0, 10) == 2 * boundary_bytes([single, single], 0, 10)
    targets = 5_000 * single[0].positions * single[0].width  # of a gradient fit, in the network's own numbers
    needs = []
    for levels in (single, double):
        with pytest.raises(ValueError) as refusal:
            check_memory([levels, levels], 5_000, 1, "gradient")
        needs.append(int(re.findall(r"memory=(\d+)", str(refusal.value))[0]))
    assert needs[1] - needs[0] == 4 * targets
