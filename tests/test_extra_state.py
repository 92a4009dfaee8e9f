"""State that is no tensor, weights that are no real numbers, and labels that are no classes: fused, or refused in a sentence."""

import pytest
import torch
from torch import nn
from torch.ao import quantization

from retrofit_core import METHODS, compare, evaluate, importance_scores
from retrofit_core.networks.checkpoints import save_model
from tests.marks import each_case
from tests.networks import labels, normal
from tests.properties import assert_same_tensors, untouched
from tests.test_contract import EVERY, options_for
from tests.test_landscape import images_of

X, Y = normal(40, 6).float(), labels(40, 4)


class Recipe(nn.Linear):
    """A layer with settings in its state, as Transformer Engine's."""

    extra: object = {"format": "e4m3"}

    def get_extra_state(self):
        return self.extra

    def set_extra_state(self, state):
        assert state == self.extra


class Empty(Recipe):
    extra = None


class Spectral(nn.Module):
    """A Fourier layer, as in neural operators."""

    def __init__(self):
        super().__init__()
        self.up, self.head = nn.Linear(6, 8), nn.Linear(8, 4)
        self.weight = nn.Parameter(torch.randn(5, dtype=torch.complex64))

    def forward(self, x):
        return self.head(torch.fft.irfft(torch.fft.rfft(self.up(x).relu()) * self.weight, n=8))


class RealSpectral(Spectral):
    """As the refusal of complex weights says."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.view_as_real(self.weight.detach()))

    def forward(self, x):
        weight = torch.view_as_complex(self.weight)
        return self.head(torch.fft.irfft(torch.fft.rfft(self.up(x).relu()) * weight, n=8))


def small(layer=nn.Linear):
    return nn.Sequential(layer(6, 12), nn.ReLU(), nn.Linear(12, 4)).eval()


def pair(make):
    torch.manual_seed(0)
    return [make(), make()]


@each_case("layer", [Recipe, Empty])
@pytest.mark.parametrize("name", EVERY)
def test_extra_state_changes_no_fusion(name, layer):
    parents, plain = pair(lambda: small(layer)), pair(small)
    with untouched(*parents):
        fused = EVERY[name](parents, (X, Y), **options_for(name, parents, 4)).model
    assert_same_tensors(fused, EVERY[name](plain, (X, Y), **options_for(name, plain, 4)).model, 1e-6)


def test_extra_state_is_not_lost_in_a_file_of_tensors(tmp_path):
    with pytest.raises(ValueError, match="'0._extra_state' is extra state of type dict, .* torch.save"):
        save_model(small(Recipe), tmp_path / "network.safetensors", spec={"architecture": "mlp"})


@pytest.mark.filterwarnings("ignore:torch.ao.quantization", "ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("name", EVERY)
def test_quantised_and_complex_networks_are_refused_in_a_sentence(name):
    quantised = pair(lambda: quantization.quantize_dynamic(small()))
    with pytest.raises(ValueError, match="parent 0: '0' is a quantised Linear, .*Fuse the networks before quantising"):
        EVERY[name](quantised, (X, Y), **options_for(name, quantised, 4))
    packed = pair(small)
    packed[0][0].weight = nn.Parameter(torch.ones(12, 6, dtype=torch.uint8), requires_grad=False)
    with pytest.raises(ValueError, match="parent 0: '0.weight' is a quantised Parameter of torch.uint8"):
        EVERY[name](packed, (X, Y), **options_for(name, packed, 4))
    parents = pair(lambda: Spectral().eval())
    with pytest.raises(ValueError, match=r"parent 0 has complex weights \('weight'\).*torch.view_as_real"):
        EVERY[name](parents, (X, Y), **options_for(name, parents, 4))


@pytest.mark.parametrize("name", ["Average", "KF-Gradient", "KD", "Ensemble"])
def test_the_way_out_for_complex_weights_works(name):
    parents = pair(lambda: RealSpectral().eval())
    METHODS[name](parents, (X, Y), **options_for(name, parents, 4))


@each_case("mark, said", [(-100, "-100 to 3"), (-1, "-1 to 3"), (255, "0 to 255")])
def test_labels_that_are_no_classes_are_refused_before_any_fusion(mark, said):
    networks, marked = pair(small), torch.where(torch.arange(40) % 5 == 0, mark, Y)
    images = images_of((1, 2, 3), classes=4)
    images.labels[0] = mark
    message = rf"the labels run from {said}, and .* 4 classes. Pass labels from 0 to 3.*" + (
        "Leave out samples without a label" if mark < 0 else ""
    )
    for attempt in (
        lambda: compare(networks, X, (X, marked), "average"),
        lambda: METHODS["Greedy-Soup"](networks, (X, marked)),
        lambda: METHODS["Auto"](networks, (X, marked)),
        lambda: METHODS["KF-Linear"](networks, X, importance="conductance", importance_data=[(X, marked)] * 2),
        lambda: importance_scores(networks[0], X, marked),
        lambda: evaluate(nn.Sequential(nn.Flatten(), networks[0]), images),
    ):
        with pytest.raises(ValueError, match=message):
            attempt()
