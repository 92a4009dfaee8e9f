"""Numbers out of range are refused before any work, in one sentence that names the option."""

import pytest
import torch

from retrofit_core import METHODS, fuse, train
from retrofit_core.cli import main
from retrofit_core.data import load
from retrofit_core.fusion.fit import FITS
from retrofit_core.fusion.grouping import GROUPINGS
from retrofit_core.fusion.importance import IMPORTANCE
from retrofit_core.fusion.walk import level_generator
from retrofit_core.networks.architectures import build
from retrofit_core.runs import RunConfig, check_choices
from retrofit_core.system.monitor import Monitor
from retrofit_core.system.runtime import Runtime
from retrofit_core.system.settings import settings_of
from retrofit_core.training.parents import TrainConfig, train_parents
from tests.marks import each_case
from tests.networks import mlp, normal

LARGEST = 2**63 - 1


#: Every number that any value takes.
NUMBERS = [
    (cls, name)
    for cls in {
        Runtime,
        *(method.value for method in METHODS.values()),
        *GROUPINGS.values(),
        *FITS.values(),
        *IMPORTANCE.values(),
    }
    for name, entry in settings_of(cls).items()
    if entry.range is not None
]


@each_case("cls, name", sorted(NUMBERS, key=str))
@each_case("value", [True, "3", [1], float("nan"), float("inf"), -1, -0.5])
def test_no_value_takes_these(cls, name, value):
    if isinstance(value, (int, float)) and value < 0:
        value += min(settings_of(cls)[name].range.low, 0)  # below ranges that hold negative numbers, too
    with pytest.raises(ValueError, match=f"^{name} is .*Use a "):
        cls(**{name: value})


@each_case("options", [{"batch_size": 0}, {"seed": -1}, {"memory": -1}])
def test_methods_refuse_before_any_work(options):
    events: list = []
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"{name} is {value!r}. Use"):
        METHODS["KF-Gradient"]([mlp(), mlp(seed=2)], normal(20, 6), monitor=Monitor(events.append), **options)
    assert not events
    words = [f"kf-gradient+{name}={value}"] if name == "batch_size" else ["kf-gradient", f"--{name}", value]
    assert main(["compare", "/dev/null", "--fusion-from", "iid", "--methods", *map(str, words)]) == 2


@pytest.mark.parametrize("seed", [-1, LARGEST + 1, 1.5, "0", True])
def test_seeds_out_of_range_are_refused_everywhere(seed, tmp_path):
    images = load("digits")
    parents = [mlp(), mlp(seed=2)]
    for work in (
        lambda: fuse(parents, normal(20, 6), seed=seed),
        lambda: METHODS["KD"](parents, normal(20, 6), seed=seed),
        lambda: train(build("cnn"), images, seed=seed),
        lambda: build("cnn", seed=seed),
        lambda: check_choices(RunConfig(("a",), fusion_from="iid", seed=seed)),
        lambda: train_parents(TrainConfig(seed=seed), tmp_path / "parents"),
    ):
        with pytest.raises(ValueError, match="seed is .* Use a whole number from 0 to 9223372036854775807"):
            work()
    assert not list(tmp_path.iterdir())


def test_the_largest_seed_serves():
    parents = [mlp(), mlp(seed=2)]
    for method in ("KF-Gradient", "KD", "OTFusion", "Git-Re-Basin-Weights"):
        METHODS[method](
            parents, normal(20, 6), seed=LARGEST, **({"epochs": 1} if method in ("KF-Gradient", "KD") else {})
        )
    assert torch.equal(level_generator(3, 2).get_state(), torch.Generator().manual_seed(3 * 1_000_003 + 2).get_state())
