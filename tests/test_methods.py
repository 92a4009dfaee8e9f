"""The four methods on real checkpoints (skipped where those are absent)."""

import pytest

from retrofit_core import METHODS
from retrofit_core.baselines.auto import Auto
from retrofit_core.baselines.distillation import Distilled
from retrofit_core.fusion.algorithm import Retrofit
from retrofit_core.methods import BEYOND, CONTROLS, RETROFITTING
from retrofit_core.runs import RunConfig, execute
from retrofit_core.system.registry import find


def test_the_four_methods_are_one_algorithm():
    ours = ["HF-Linear", "KF-Linear", "HF-Gradient", "KF-Gradient"]
    assert list(METHODS)[:4] == ours == list(RETROFITTING)
    assert {METHODS[name].value for name in (*ours, *CONTROLS)} == {Retrofit}
    assert {METHODS[name].value for name in BEYOND} == {Distilled, Auto}
    by_level = sorted(name for name, method in METHODS.items() if method.takes.levels)
    assert by_level == sorted((*ours, "KF-Linear-KD", *CONTROLS))
    assert find(METHODS, "kf-linear", "method") is METHODS["KF-Linear"]


def config(shared, name, data, **settings):
    models = tuple(str(shared / "models" / f"{name}-{k}.safetensors") for k in (0, 1))
    splits = str(shared / "models" / f"{name}-splits.json")
    return RunConfig(models=models, data=str(shared / "data" / data), splits=splits, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["HF-Linear", "KF-Linear", "KF-Gradient"])
def test_mnist_pair_with_conductance_passes_94(shared, method):
    run = config(shared, "mnist-mlp-noniid2", "mnist", importance="conductance", method=method, evaluate=True)
    _, metrics = execute(run)
    networks = metrics["networks"]
    assert networks["parent 0"]["accuracy"] == pytest.approx(88.69, abs=0.02)
    assert networks["parent 1"]["accuracy"] == pytest.approx(84.82, abs=0.02)
    assert networks["ensemble"]["accuracy"] == pytest.approx(96.62, abs=0.02)
    assert networks["average"]["accuracy"] == pytest.approx(81.57, abs=0.02)
    assert networks["fused"]["accuracy"] >= 94.0
