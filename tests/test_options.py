"""Settings of methods: fields of values, told through any door, checked before any work, stored in one form."""

import dataclasses
import inspect
import itertools
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrofit_core import fuse, train
from retrofit_core.cli.application import _settings_in
from retrofit_core.data import load
from retrofit_core.fusion.fit import FITS
from retrofit_core.fusion.grouping import GROUPINGS
from retrofit_core.fusion.importance import IMPORTANCE, Importance
from retrofit_core.fusion.task import Task
from retrofit_core.methods import METHODS
from retrofit_core.networks.architectures import build
from retrofit_core.runs import RunConfig, check_choices, method_keywords
from retrofit_core.runs.parents import train_parents
from retrofit_core.system.runtime import Runtime
from retrofit_core.system.settings import settings_of
from retrofit_core.system.texts import read_options, written_options
from retrofit_core.training.config import TrainConfig
from tests.marks import each_case
from tests.networks import mlp, normal

#: Every method with all scores, and the settings of other groupings.
CASES = [
    *(
        (name, {"importance": score})
        for name, method in METHODS.items()
        if method.takes.importance
        for score in IMPORTANCE
    ),
    *((name, {}) for name, method in METHODS.items() if not method.takes.importance),
    *(("KF-Linear", {"grouping": grouping, "importance": "uniform"}) for grouping in GROUPINGS),
]


def another(entry):
    """A valid value that is not the default."""
    values = (*entry.words, not entry.default, 2, 0.5, 0.25, "0.2x", ("a", "b"))
    return next(value for value in values if entry.takes(value) and entry.normalised(value) != entry.default)


@pytest.mark.slow
@each_case("name, chosen", CASES)
def test_every_setting_is_the_same_through_every_door(name, chosen):
    """Python, a config, its record, its command line, and a comparison's word."""
    method = METHODS[name]
    score, grouping = chosen.get("importance", "uniform"), {k: v for k, v in chosen.items() if k == "grouping"}
    for key, entry in method.settings(chosen).items():
        assert entry.help and entry.takes(entry.default), key
        assert inspect.signature(method).parameters.get(key, entry).default == entry.default or grouping
        plain = method.stored_options(grouping, score)
        assert key == "grouping" or method.stored_options({**grouping, key: entry.default}, score) == plain
        if key in ("preset", "grouping"):
            continue
        options = {**grouping, key: entry.normalised(another(entry))}
        config = RunConfig(("a",), method=name.lower(), importance=score, options=options)
        assert config.options == options
        assert RunConfig.from_json(config.to_json()) == config
        assert RunConfig.from_json(config.to_json()).key() == config.key() != RunConfig(("a",), method=name).key()
        assert _settings_in(shlex.split(config.command()), OWN)[0] == config.options
        assert read_options(written_options(config.options)) == config.options
        value = method.algorithm(**chosen, **{key: options[key]})
        held = [value, *(getattr(value, part) for part in method.parts)]
        assert key in settings_of(IMPORTANCE[score]) or options[key] in [getattr(each, key, None) for each in held]


#: Options of `retrofit fuse` that are no settings of a method.
OWN = {f"--{name}" for name in ("method", "importance")}


def clashes() -> set[tuple[str, str]]:
    """(method, setting) that two parts of a method have, or that a part has and the run itself."""
    shared = settings_of(Importance).keys()
    of_the_run = {field.name for value in (RunConfig, Task, Runtime) for field in dataclasses.fields(value)}
    found = set()
    for method in METHODS.values():
        tables = [*method.parts.values(), *([IMPORTANCE] if method.takes.importance else [])]
        parts = [{name for cls in table.values() for name in settings_of(cls)} for table in tables]
        groups = [of_the_run | method.parts.keys(), settings_of(method.value).keys(), *parts]
        for first, second in itertools.combinations(groups, 2):
            found |= {(method.name, name) for name in set(first) & set(second) - shared}
    return found


def test_no_two_parts_of_a_method_have_settings_of_one_name():
    """Flat keywords would not know which of them is meant; a run's own settings would hide an option outside Python."""
    assert not clashes()


@each_case(
    "method, options, sentence",
    [
        ("OTFusion", {"solver": "newton"}, "solver is 'newton'. Use exact, sinkhorn"),
        ("OTFusion", {"temperature": 2.0}, "OTFusion has no setting 'temperature'. .* a setting of KD"),
        ("KD", {"epochs": 2.5}, "epochs is 2.5. Use a whole number"),
        ("KF-Linear", {"epochs": 3}, "epochs is a setting of fit='gradient', which is not chosen"),
        ("HF-Linear", {"restarts": 3}, "restarts is a setting of grouping='kmeans', which is not chosen"),
        ("Auto", {"ridge": 1.0}, "Auto has no setting 'ridge'. .* a setting of HF-Linear"),
    ],
)
def test_unknown_settings_and_values_are_refused(method, options, sentence):
    config = RunConfig(("a",), fusion_from="iid", method=method, options=options)
    with pytest.raises(ValueError, match=sentence):
        check_choices(config)


values = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.none(),
    st.text(alphabet="abcxyz.=_", min_size=1).filter(lambda text: text[0] in "abc"),
)


@given(st.dictionaries(st.text(alphabet="abc_", min_size=1), values))
def test_words_and_options_are_inverse(options):
    assert read_options(written_options(options)) == options


def test_beside_a_preset_a_setting_at_our_default_is_kept():
    options = {"preset": "paper", "normalise_scores": True}
    config = RunConfig(("a",), method="KF-Linear", options=options)
    assert config.options == method_keywords(config) == options
    assert METHODS["KF-Linear"].algorithm(preset="paper").fit.ridge == 10.0
    assert RunConfig(("a",), method="KF-Linear", options={"normalise_scores": True}).options is None


# --- numbers out of range are refused before any work, in one sentence that names the option --------------------------


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
@each_case("value", [True, "3", float("nan"), -1, -0.5])
def test_no_value_takes_these(cls, name, value):
    if isinstance(value, (int, float)) and value < 0:
        value += min(settings_of(cls)[name].range.low, 0)  # below ranges that hold negative numbers, too
    with pytest.raises(ValueError, match=f"^{name} is .*Use a "):
        cls(**{name: value})


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, True])
def test_seeds_out_of_range_are_refused_everywhere(seed, tmp_path):
    images = load("digits")
    parents = [mlp(), mlp(seed=2)]
    for work in (
        lambda: fuse(parents, normal(20, 6), seed=seed),
        lambda: train(build("cnn"), images, seed=seed),
        lambda: build("cnn", seed=seed),
        lambda: check_choices(RunConfig(("a",), fusion_from="iid", seed=seed)),
        lambda: train_parents(TrainConfig(seed=seed), tmp_path / "parents"),
    ):
        with pytest.raises(ValueError, match="seed is .* Use a whole number from 0 to 9223372036854775807"):
            work()
    assert not list(tmp_path.iterdir())
