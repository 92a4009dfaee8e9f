"""Settings of methods: fields of values, told through any door, checked before any work, stored in one form."""

import dataclasses
import inspect
import itertools
import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrofit_core.cli import main
from retrofit_core.cli.method_options import _settings_in
from retrofit_core.fusion.grouping import GROUPINGS
from retrofit_core.fusion.importance import IMPORTANCE, Importance
from retrofit_core.fusion.task import Task
from retrofit_core.methods import METHODS
from retrofit_core.runs import RunConfig, check_choices, method_keywords
from retrofit_core.runs.snippets import python
from retrofit_core.system.runtime import Runtime
from retrofit_core.system.settings import Range, setting, settings_of
from retrofit_core.system.texts import read_options, written_options
from tests.marks import each_case

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


@each_case("name, chosen", CASES)
def test_every_setting_is_the_same_through_every_door(name, chosen):
    """Python, a config, its record, its command line, that of version 0.2.0, a comparison's word and a script."""
    method = METHODS[name]
    score, grouping = chosen.get("importance", "uniform"), {k: v for k, v in chosen.items() if k == "grouping"}
    for key, entry in method.settings(chosen).items():
        assert entry.help and entry.takes(entry.default), key
        assert inspect.signature(method).parameters.get(key, entry).default == entry.default or grouping
        assert key == "grouping" or method.told({**grouping, key: entry.default}, score) == method.told(grouping, score)
        if key in ("preset", "grouping"):
            continue
        options = {**grouping, key: entry.normalised(another(entry))}
        config = RunConfig(("a",), method=name.lower(), importance=score, options=options)
        assert config.options == options
        assert RunConfig.from_json(config.to_json()) == config
        assert RunConfig.from_json(config.to_json()).key() == config.key() != RunConfig(("a",), method=name).key()
        assert _settings_in(shlex.split(config.command()), OWN)[0] == config.options
        assert read_options(written_options(config.options)) == config.options
        namespace: dict = {}
        exec(python(config).split("result,")[0], namespace)
        assert namespace["config"] == config
        needed = {"fit": "ridge"} if (name, key) == ("LP", "ridge") else {}
        value = method.algorithm(**chosen, **needed, **{key: options[key]})
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


@each_case("name", ["mean", "samples", "device", "labels", "monitor", "fit", "restarts", "ridge", "leaves"])
def test_a_name_that_is_taken_is_found(name, monkeypatch):
    fields = [(name, float, setting(1.0, "a sentence", Range(0)))]
    loud = dataclasses.make_dataclass("Loud", fields, bases=(Importance,), frozen=True, eq=False)
    monkeypatch.setitem(IMPORTANCE, "loud", loud)
    assert ("KF-Linear", name) in clashes()


def test_fixed_fields_are_no_settings_and_those_of_a_part_belong_to_its_methods():
    def settings(name, **given):
        return METHODS[name].settings(given).keys()

    assert "mode" not in settings("OTFusion-Weights") and "weighting" not in settings("FedAvg")
    assert "epochs" in settings("KF-Gradient") and "epochs" not in settings("kf-linear")
    assert {"restarts", "steps", "fallback", "leaves"} <= settings("KF-Linear")
    assert "steps" not in settings("KF-Linear", importance="uniform")
    assert "max_swaps" in settings("KF-Linear", grouping="local_search")


def test_records_and_keys_without_a_method_mean_the_first_default():
    """The key is that of 0.1.0, whose configs left KF-Linear out."""
    early, named = {"models": ["a.safetensors"], "splits": "splits.json"}, {"method": "KF-Linear"}
    config = RunConfig.from_json(early)
    assert config == RunConfig.from_json(early | named) and config.method == "KF-Linear"
    assert config.key() == "929374ab51" != RunConfig(config.models, splits=config.splits).key()
    assert config.command() == "retrofit fuse a.safetensors --method KF-Linear --splits splits.json"
    assert RunConfig.from_json(RunConfig(("a",)).to_json()).method == "Auto"


@each_case(
    "method, options, sentence",
    [
        ("OTFusion", {"solver": "newton"}, "solver is 'newton'. Use exact, sinkhorn"),
        ("OTFusion", {"repair": 1}, "repair is 1. Use true or false"),
        ("OTFusion", {"temperature": 2.0}, "OTFusion has no setting 'temperature'. .* a setting of KD"),
        ("OTFusion", {"temprature": 2.0}, "unknown keyword of OTFusion: 'temprature'. Known: .*solver"),
        ("KD", {"epochs": 2.5}, "epochs is 2.5. Use a whole number"),
        ("KD", {"mean": 2.5}, "unknown keyword of KD: 'mean'"),
        ("KF-Linear", {"epochs": 3}, "epochs is a setting of fit='gradient', which is not chosen"),
        ("KF-Linear", {"max_swaps": 3}, "max_swaps is a setting of grouping='local_search', which is not chosen"),
        ("KF-Linear", {"grouping": "k-means"}, "Did you mean 'kmeans'"),
        ("KF-Linear", {"preset": "papers"}, "unknown preset 'papers'. Known: default, paper"),
        ("Auto", {"ridge": 1.0}, "Auto has no setting 'ridge'. .*Name a method, as in --method kf-linear"),
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


@pytest.mark.parametrize("texts", [["repair"], ["=3"], ["a=1", "a=2"]])
def test_words_that_are_no_options_are_refused(texts):
    with pytest.raises(ValueError, match="write each option once, as NAME=VALUE"):
        read_options(texts)


def test_the_command_line_lists_methods_and_settings(capsys):
    assert main(["methods", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == METHODS.keys()
    assert main(["methods", "otfusion", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["solver"]["takes"] == "exact, sinkhorn"


@each_case(
    "words, sentence",
    [
        (["--restart", "3"], "Did you mean --restarts"),
        (["--restarts"], "requires an argument"),
        (["--resume", "r", "--restarts", "3"], "omit --restarts"),
        (["compare", "/dev/null", "--fusion-from", "iid", "--methods", "zipit,kd", "--restarts", "3"], "'restarts'"),
    ],
)
def test_words_that_no_command_or_method_has_are_refused(words, sentence, capsys):
    assert main(words if words[0] == "compare" else ["fuse", *words]) == 2
    assert sentence in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_beside_a_preset_a_setting_at_our_default_is_kept():
    options = {"preset": "paper", "normalise_scores": True}
    config = RunConfig(("a",), method="KF-Linear", options=options)
    assert config.options == method_keywords(config) == options
    assert METHODS["KF-Linear"].algorithm(preset="paper").fit.ridge == 10.0
    assert RunConfig(("a",), method="KF-Linear", options={"normalise_scores": True}).options is None


def test_a_number_is_stored_in_one_form():
    """2 from a command line and 2.0 from a form are the same work."""
    method = METHODS["KD"]
    assert method.told({"temperature": 2}) == method.told({"temperature": 2.0}) == {}
    assert repr(method.told({"temperature": 3, "epochs": 3})) == "{'epochs': 3, 'temperature': 3.0}"
