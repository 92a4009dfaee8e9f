"""What surrounds a fusion (TF32, autocast, inference mode, a default dtype) changes none of its numbers, and stays as it is."""

from contextlib import ExitStack, contextmanager

import pytest
import torch
from torch import nn

from retrofit_core import METHODS, build, centred, evaluate, importance_scores, train
from retrofit_core.inspection.analysis import analyse
from retrofit_core.inspection.landscape import Landscape
from retrofit_core.system.device import default_dtype, exact
from tests.flat import fuse
from tests.marks import each_case
from tests.networks import CNN_SHAPE, cnn, labels, normal
from tests.properties import assert_same_tensors
from tests.test_contract import EVERY, FIRST, case, options_for, reason
from tests.test_landscape import images_of

pytestmark = pytest.mark.slow

IMAGES = images_of(CNN_SHAPE)
X, Y = normal(12, *CNN_SHAPE).float(), labels(12, 3)


def pair():
    return [cnn(seed=seed).float() for seed in (0, 1)]


# --- the settings ------------------------------------------------------------------------------------------------------


def settings():
    """PyTorch's precisions of float32 products, the older spellings as well, and autocast."""
    backends = torch.backends
    newer = {
        "cuda products": backends.cuda.matmul.fp32_precision,
        "cuda convolutions": backends.cudnn.conv.fp32_precision,
        "cuda recurrent": backends.cudnn.rnn.fp32_precision,
        "cpu products": backends.mkldnn.matmul.fp32_precision,
        "cpu convolutions": backends.mkldnn.conv.fp32_precision,
        "cpu recurrent": backends.mkldnn.rnn.fp32_precision,
    }
    older = {
        "older products": torch.get_float32_matmul_precision,
        "older cuda products": lambda: backends.cuda.matmul.allow_tf32,
        "older cuda convolutions": lambda: backends.cudnn.allow_tf32,
    }
    return (
        newer | {name: readable(read) for name, read in older.items()} | {"autocast": torch.is_autocast_enabled("cpu")}
    )


def readable(read):
    try:
        return read()
    except RuntimeError as error:  # settings that contradict each other
        return str(error)


IEEE = {name: "ieee" for name in settings() if not name.startswith("older")} | {
    "older products": "highest",
    "older cuda products": False,
    "older cuda convolutions": False,
    "autocast": False,
}


@pytest.fixture(autouse=True)
def defaults():
    """Those of PyTorch, also afterwards."""

    def reset():
        torch.backends.fp32_precision = "none"
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = True
        backends = torch.backends
        for each in (backends.cuda.matmul, backends.mkldnn.matmul, backends.mkldnn.conv, backends.mkldnn.rnn):
            each.fp32_precision = "none"

    reset()
    yield
    reset()


def precision(library, kind, value):
    (getattr(library, kind) if kind else library).fp32_precision = value


WAYS = {
    "as they are": lambda: None,
    "products in bfloat16": lambda: torch.set_float32_matmul_precision("medium"),
    "contradicting": lambda: precision(torch.backends.cudnn, "conv", "ieee"),
    "all": lambda: precision(torch.backends, None, "tf32"),
    "IEEE": lambda: precision(torch.backends, None, "ieee"),
}


@each_case("way", WAYS)
def test_products_are_those_of_ieee_float32_within_and_as_before_behind(way, defaults):
    WAYS[way]()
    before = settings()
    with pytest.raises(ZeroDivisionError), torch.autocast("cpu"), exact():
        within = settings()
        with exact():
            assert settings() == within
        raise ZeroDivisionError
    assert settings() == before
    newer = {name for name in IEEE if not name.startswith("older")}
    assert {name: within[name] for name in newer} == {name: IEEE[name] for name in newer}


# --- who uses it -------------------------------------------------------------------------------------------------------


@contextmanager
def observed():
    """The settings at each call of a linear or convolutional layer."""
    seen = []

    def note(module, *_):
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            seen.append(settings())

    handle = nn.modules.module.register_module_forward_pre_hook(note)
    try:
        yield seen
    finally:
        handle.remove()


def surveyed(models):
    networks = dict(zip("abc", [*models, cnn(seed=2).float()], strict=True))
    landscape = Landscape(resolution=3, images=20, directions=2, path_points=3)
    plan = landscape.plan(networks, "abc", IMAGES, device="cpu")
    with observed() as seen:
        list(landscape.run(plan))
    return seen


def entry(work):
    def run(models):
        prepared = work(models)
        with observed() as seen:
            prepared()
        return seen

    return run


def analysed(models):
    result = fuse(models, (X, Y), grouping="kmeans", fit="ridge", device="cpu")
    return lambda: analyse(models, result, (X, Y))


ENTRIES = {
    "KF-Linear": entry(lambda models: lambda: METHODS["KF-Linear"](models, X, device="cpu")),
    "HF-Gradient": entry(lambda models: lambda: METHODS["HF-Gradient"](models, X, device="cpu", epochs=1)),
    "KD": entry(lambda models: lambda: METHODS["KD"](models, X, device="cpu", epochs=1)),
    "scores": entry(lambda models: lambda: importance_scores(models[0], X, Y, steps=2)),
    "scores by Captum": entry(lambda models: lambda: importance_scores(models[0], X, Y, "deeplift")),
    "centred": entry(lambda models: lambda: centred(models[0], X)),
    "analysis": entry(analysed),
    "landscape": surveyed,
}


@each_case("name", ENTRIES)
def test_fusions_scores_analyses_and_landscapes_multiply_in_ieee_float32(name):
    torch.set_float32_matmul_precision("medium")
    before = settings()
    seen = ENTRIES[name](pair())
    torch.set_float32_matmul_precision("highest")
    assert seen and all(each == IEEE for each in seen)
    assert before["cuda convolutions"] == "tf32" and settings()["cuda convolutions"] == "tf32"


def test_training_and_evaluation_keep_the_users_settings():
    """They show how a network does where its user runs it."""
    torch.set_float32_matmul_precision("high")
    before, model = settings(), pair()[0]
    for work in (lambda: evaluate(model, IMAGES), lambda: train(model, IMAGES, epochs=1, precision="float32")):
        with observed() as seen:
            work()
        assert seen and all(each == before for each in seen)


# --- on a GPU ----------------------------------------------------------------------------------------------------------


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_convolutions_on_a_gpu_have_all_digits_of_float32():
    """PyTorch's default is TF32, whose error is some 1e-4; ResNets were refused for it."""
    x, w = normal(8, 64, 16, 16).float(), normal(64, 64, 3, 3, seed=1).float()
    expected = nn.functional.conv2d(x.double(), w.double())
    with exact():
        found = nn.functional.conv2d(x.cuda(), w.cuda()).cpu()
    assert (found - expected).abs().max() < 1e-5 * expected.abs().max()
    resnet = build({"architecture": "resnet", "size": 32, "classes": 10}, seed=0).cuda()
    METHODS["KF-Linear"].plan([resnet, resnet], normal(4, 3, 32, 32).float().cuda())


# --- numbers -----------------------------------------------------------------------------------------------------------


def medium():
    torch.set_float32_matmul_precision("medium")
    return ExitStack()


SURROUNDINGS = {
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "reduced precision": medium,
    "no_grad": torch.no_grad,
    "inference mode": torch.inference_mode,
    "float64 by default": lambda: default_dtype(torch.float64),
}


def fused(name):
    models, data, _ = case(FIRST, "two parents")
    options = options_for(name)
    return lambda: EVERY[name](models, data, **options).model


METHODS_THAT_RUN = [name for name in EVERY if not reason(name, FIRST, "two parents")]


@each_case("name", METHODS_THAT_RUN[::3])
def test_a_fusion_gives_the_same_network_whatever_surrounds_it(name):
    expected = fused(name)()
    work = fused(name)
    with ExitStack() as stack:
        for surrounding in SURROUNDINGS.values():
            stack.enter_context(surrounding())
        found = work()
    torch.set_float32_matmul_precision("highest")
    assert_same_tensors(found, expected)
