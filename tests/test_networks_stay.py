"""Networks stay as they are, whatever their forward writes, whatever is done with them, and whether it ends well or not."""

import io
import threading
from contextlib import suppress

import pytest
import torch
from torch import nn
from torch.ao import quantization

from retrofit_core import METHODS, centred, compare, importance_scores
from retrofit_core.inspection.analysis import analyse
from retrofit_core.inspection.landscape import Landscape
from retrofit_core.networks.checkpoints import save_model
from retrofit_core.system.monitor import Cancelled, Monitor
from tests.flat import KINDS
from tests.marks import each_case, spread
from tests.networks import labels, normal
from tests.properties import assert_same_tensors, untouched
from tests.test_contract import options_for
from tests.test_landscape import images_of

pytestmark = pytest.mark.slow

X, Y = normal(40, 6).float(), labels(40, 4)


class Plain(nn.Module):
    """A network whose forward writes nothing."""

    def __init__(self):
        super().__init__()
        self.up, self.head = nn.Linear(6, 12), nn.Linear(12, 4)

    def forward(self, x):
        return self.head(self.up(x).relu())


class Keeping(Plain):
    """Keeps features, as for Grad-CAM, in an attribute, in a new list and in one that grows."""

    def __init__(self):
        super().__init__()
        self.features, self.listed, self.history = torch.zeros(0), [], []

    def forward(self, x):
        self.features = self.up(x).relu()
        self.listed = [self.features]
        self.history.append(self.features)
        return self.head(self.features)


class Counting(Plain):
    """Counts its calls in a buffer and in a number."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.number = 0

    def forward(self, x):
        self.calls += 1
        self.number += 1
        return super().forward(x)


class Writing(Plain):
    """Keeps its weight within a ball, in place."""

    def forward(self, x):
        with torch.no_grad():
            self.up.weight.renorm_(2, 0, 0.1)
        return super().forward(x)


def pair(make, count=2):
    torch.manual_seed(0)
    return [make().eval() for _ in range(count)]


def saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@each_case("name, make", spread(KINDS, [Keeping, Counting, Writing], 1))
def test_methods_leave_networks_as_they_were_and_give_ordinary_ones(name, make):
    parents = pair(make)
    with untouched(*parents):
        fused = METHODS[name](parents, (X, Y), **options_for(name)).model
    for model in (*parents, fused):
        again = saved(model)
        assert all(type(value) in (torch.Tensor, nn.Parameter) for value in again.state_dict().values())
        assert torch.isfinite(again(X)).all()


@each_case("name", KINDS)
def test_networks_stay_as_they_are_when_the_work_is_stopped_or_their_code_fails(name):
    parents, seen = pair(Counting), []
    with untouched(*parents), suppress(Cancelled):
        METHODS[name](parents, (X, Y), **options_for(name), monitor=Monitor(seen.append, lambda: len(seen) >= 1))

    class Failing(Counting):
        def forward(self, x):
            if self.calls > 3:
                raise ArithmeticError("too many calls")
            return super().forward(x)

    parents = pair(Failing)
    with untouched(*parents), suppress(Exception):
        METHODS[name](parents, (X, Y), **options_for(name))


@each_case("make", [Keeping, Counting])
def test_everything_else_leaves_networks_as_they_were(make):
    parents = pair(make)
    result = METHODS["KF-Linear"](parents, (X, Y))
    with untouched(*parents, result.model):
        analyse(parents, result, (X, Y))
        compare(parents, (X, Y), (X, Y), ["average", "hf-linear"])
        importance_scores(parents[0], X, Y)
        METHODS["KF-Linear"].plan(parents, (X, Y))
        centred(parents[0], X)
    flattening = {
        name: nn.Sequential(nn.Flatten(), each).eval() for name, each in zip("abc", pair(make, 3), strict=True)
    }
    landscape = Landscape(resolution=3, images=20, directions=2, path_points=3)
    with untouched(*flattening.values()):
        list(landscape.run(landscape.plan(flattening, "abc", images_of((1, 2, 3), classes=4), device="cpu")))


def test_a_network_that_keeps_tensors_with_a_graph_is_fused():
    """After a pass with gradients; PyTorch refuses to copy such tensors."""
    parents = pair(Keeping)
    for parent in parents:
        parent(X).sum().backward()
    assert parents[0].features.grad_fn is not None
    with untouched(*parents):
        METHODS["KF-Linear"](parents, (X, Y))


@each_case("name", KINDS)
def test_data_with_a_graph_are_data(name):
    """Heads on features of a user's backbone: the same fusion as without the graph, and no gradients outside the method."""
    parents, backbone = pair(Plain), nn.Linear(X.shape[1], X.shape[1])
    options = options_for(name)
    wanted = METHODS[name](parents, (backbone(X).detach(), Y), **options).model
    made, leaf = backbone(X), backbone(X).detach().requires_grad_()
    for data in ((leaf, Y), [(made[:25], Y[:25]), (made[25:], Y[25:])]):
        assert_same_tensors(METHODS[name](parents, data, **options).model, wanted)
    assert all(tensor.grad is None for tensor in (leaf, *backbone.parameters()))


def test_an_attribute_that_cannot_be_copied_is_named_before_any_work():
    parents = pair(Plain)
    vars(parents[1].up)["guard"] = threading.Lock()
    with (
        untouched(*parents),
        pytest.raises(ValueError, match=r"parent 1 \(Plain\) cannot be copied.*'up.guard' of lock"),
    ):
        METHODS["Average"](parents, (X, Y))


def test_parents_that_share_layers_share_them_in_the_work():
    """A frozen backbone in memory once: no copy of it for each parent."""
    parents = pair(Plain)
    parents[1].up = parents[0].up
    _, task = METHODS["Average"].prepare(parents, (X, Y))
    first, second = task.parents
    assert first.up is second.up and first.up is not parents[0].up


# --- state that is no tensor, weights that are no real numbers, and labels that are no classes: fused -----------------


class Recipe(nn.Linear):
    """A layer with settings in its state, as Transformer Engine's."""

    extra: object = {"format": "e4m3"}

    def get_extra_state(self):
        return self.extra

    def set_extra_state(self, state):
        assert state == self.extra


class Spectral(nn.Module):
    """A Fourier layer, as in neural operators."""

    def __init__(self):
        super().__init__()
        self.up, self.head = nn.Linear(6, 8), nn.Linear(8, 4)
        self.weight = nn.Parameter(torch.randn(5, dtype=torch.complex64))

    def forward(self, x):
        return self.head(torch.fft.irfft(torch.fft.rfft(self.up(x).relu()) * self.weight, n=8))


def small(layer=nn.Linear):
    return nn.Sequential(layer(6, 12), nn.ReLU(), nn.Linear(12, 4)).eval()


def two(make):
    torch.manual_seed(0)
    return [make(), make()]


def test_extra_state_changes_no_fusion():
    parents, plain = two(lambda: small(Recipe)), two(small)
    with untouched(*parents):
        fused = METHODS["KF-Linear"](parents, (X, Y)).model
    assert_same_tensors(fused, METHODS["KF-Linear"](plain, (X, Y)).model, 1e-6)


def test_extra_state_is_not_lost_in_a_file_of_tensors(tmp_path):
    with pytest.raises(ValueError, match="'0._extra_state' is extra state of type dict, .* torch.save"):
        save_model(small(Recipe), tmp_path / "network.safetensors", spec={"architecture": "mlp"})


@pytest.mark.filterwarnings("ignore:torch.ao.quantization", "ignore:torch.quantize_per_tensor")
@each_case("name", KINDS)
def test_quantised_and_complex_networks_are_refused_in_a_sentence(name):
    quantised = two(lambda: quantization.quantize_dynamic(small()))
    with pytest.raises(ValueError, match="parent 0: '0' is a quantised Linear, .*Fuse the networks before quantising"):
        METHODS[name](quantised, (X, Y), **options_for(name))
    packed = two(small)
    packed[0][0].weight = nn.Parameter(torch.ones(12, 6, dtype=torch.uint8), requires_grad=False)
    with pytest.raises(ValueError, match="parent 0: '0.weight' is a quantised Parameter of torch.uint8"):
        METHODS[name](packed, (X, Y), **options_for(name))
    parents = two(lambda: Spectral().eval())
    with pytest.raises(ValueError, match=r"parent 0 has complex weights \('weight'\).*torch.view_as_real"):
        METHODS[name](parents, (X, Y), **options_for(name))
