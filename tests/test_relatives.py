"""Relatives of known layers: what torch computes alike is treated alike, by every method."""

import inspect

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from retrofit_core.inspection.landscape.mixtures import with_batch_statistics
from retrofit_core.methods import METHODS
from retrofit_core.networks.levels import partition
from retrofit_core.networks.levels.kinds import ACTIVATIONS, TRANSPARENT, plain
from retrofit_core.networks.norm_statistics import reset_statistics
from tests.marks import each_case, spread
from tests.networks import CNN_SHAPE, batchnorm_cnn, labels, normal, permuted
from tests.properties import assert_close
from tests.test_contract import options_for


class OwnNorm(nn.BatchNorm2d):
    pass


def lazy(width):
    norm = nn.LazyBatchNorm2d(dtype=torch.float64)
    norm(normal(2, width, 3, 3))
    return norm


NORMS = {"SyncBatchNorm": nn.SyncBatchNorm, "a subclass": OwnNorm, "LazyBatchNorm2d": lazy}


def with_norms(model, make):
    """A copy whose BatchNorms are of another class, with the same state."""
    twin = permuted(model, seed=1)
    twin.load_state_dict(model.state_dict())
    for name, module in list(twin.named_modules()):
        if isinstance(module, nn.BatchNorm2d):
            norm = make(module.num_features).double()
            norm.load_state_dict(module.state_dict())
            twin.set_submodule(name, norm)
    return twin.eval()


def pair():
    model = batchnorm_cnn()
    return [model, permuted(batchnorm_cnn(seed=4))]


@pytest.mark.slow
@each_case("method, name", spread([name for name in METHODS if name not in ("KF-Linear-KD", "Auto")], NORMS, 1))
def test_every_batchnorm_is_fused_as_batchnorm2d(name, method):
    x, y = normal(60, *CNN_SHAPE), labels(60, 3)
    options, forms = options_for(method, pair(), 3), [{}]
    if method in ("OTFusion", "Git-Re-Basin"):
        forms.append({"repair": True})
    for form in forms:
        results = []
        for make in (nn.BatchNorm2d, NORMS[name]):
            parents = [with_norms(model, make) for model in pair()]
            if "base" in options:
                options["base"] = with_norms(batchnorm_cnn(seed=5), make)
            results.append(METHODS[method](parents, (x, y), **options, **form).model.eval())
        with torch.no_grad():
            assert_close(results[1](x), results[0](x), 1e-10)


def test_levels_reset_and_the_landscape_know_every_batchnorm():
    x, model = normal(20, *CNN_SHAPE), batchnorm_cnn()
    for make in NORMS.values():
        other = with_norms(model, make)
        assert [level.kind for level in partition(other, x[:2])] == [level.kind for level in partition(model, x[:2])]
        pairs = [with_norms(model, kind) for kind in (nn.BatchNorm2d, make)]
        facts = [reset_statistics(each, x, keep_function=False) for each in pairs]
        assert facts[0] == facts[1] and facts[0]["layers"] == 3
        with torch.no_grad():
            assert_close(pairs[1](x), pairs[0](x), 1e-12)
            assert_close(with_batch_statistics(other)(x), with_batch_statistics(model)(x), 1e-12)


def elementwise_modules():
    """Activation functions of torch that are one function of each entry in evaluation mode, as torch itself says."""
    x = torch.linspace(-3, 3, 60, dtype=torch.float64)
    for name in nn.modules.activation.__all__:
        kind = getattr(nn, name)
        module = kind(0.5, 0.1) if name == "Threshold" else None
        try:
            module = (module or kind()).double().eval()
            with torch.no_grad():
                whole, single = module(x.view(2, 30)), torch.stack([module(entry.view(1, 1)) for entry in x])
        except (TypeError, RuntimeError, IndexError, ValueError, UserWarning):
            continue  # it needs arguments or axes
        if whole.shape == (2, 30) and torch.allclose(whole.flatten(), single.flatten()):
            yield kind


def test_all_activation_functions_and_dropouts_of_torch_are_known():
    kinds = set(elementwise_modules())
    assert {nn.ReLU, nn.SELU, nn.Tanhshrink, nn.RReLU, nn.Threshold, nn.Hardtanh} <= kinds
    kinds -= {nn.PReLU}  # its slopes are neurons' own
    assert {plain(kind.__name__) for kind in kinds} <= ACTIVATIONS
    functions = {plain(name) for name in vars(F)} & {plain(kind.__name__) for kind in kinds}
    assert {"leakyrelu", "selu", "logsigmoid"} <= functions <= ACTIVATIONS
    dropouts = [
        kind for _, kind in inspect.getmembers(nn, inspect.isclass) if "Dropout" in kind.__name__ or kind is nn.Identity
    ]
    assert len(dropouts) >= 7 and all(
        TRANSPARENT & {plain(base.__name__) for base in kind.__mro__} for kind in dropouts
    )
