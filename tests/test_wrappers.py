"""Networks in wrappers are fused as the networks inside of them."""

import warnings

import pytest
import torch
from torch import nn

from retrofit_core.methods import METHODS
from retrofit_core.networks.wrappers import unwrapped
from tests.flat import KINDS
from tests.marks import each_case, spread
from tests.networks import labels, mlp, normal
from tests.properties import assert_close
from tests.test_contract import options_for


def compiled(part):
    return torch.compile(part, backend="eager")  # the compiler's front end alone


def in_place(net):
    net.compile(backend="eager")
    return net


def a_part_in_place(net):
    net[0].compile(backend="eager")
    return net


WRAPPED = {
    "compiled": compiled,
    "compiled in place": in_place,
    "a part in place": a_part_in_place,
    "DataParallel": nn.DataParallel,
    "DataParallel of compiled": lambda net: nn.DataParallel(compiled(net)),
    "AveragedModel": torch.optim.swa_utils.AveragedModel,
}


def pair():
    return [mlp((6, 8, 3), seed=seed) for seed in (1, 2)]


def wrapped_pair(name, x):
    made = [WRAPPED[name](net).eval() for net in pair()]
    with torch.no_grad():
        for net in made:  # as one does before; what is compiled then knows no later hooks
            net(x[:1]), net(x)
    return made


@pytest.fixture(autouse=True)
def _forgetting():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.slow
@each_case("name, method", spread(WRAPPED, ["RegMean", "KF-Linear"], 1))
def test_every_wrapper_is_taken_off(name, method):
    x = normal(60, 6)
    fused = METHODS[method](wrapped_pair(name, x), x, device="cpu").model
    expected = METHODS[method](pair(), x, device="cpu").model
    with torch.no_grad():
        assert_close(fused(x), expected(x), 1e-10)
    assert list(fused.state_dict()) == list(expected.state_dict())
    assert unwrapped(fused) is fused


def scripted(net):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(net)


def traced(net):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(net, normal(2, 6))


@pytest.mark.slow
@pytest.mark.parametrize("make", [scripted, traced])
def test_torchscript_is_refused_before_any_work_with_a_way_out_that_works(make):
    x, made = normal(20, 6), [make(net) for net in pair()]
    for method in KINDS:
        with pytest.raises(ValueError, match=r"^parent 0.* was made by TorchScript .*load_state_dict"):
            METHODS[method](made, (x, labels(20, 3)), **options_for(method))
    network = mlp((6, 8, 3), seed=5)
    network.load_state_dict(made[0].state_dict())
    assert_close(network(x), made[0](x), 1e-12)
