"""What a method alone can be told: read from its signature, checked before any work, the same in every form."""

import dataclasses
import inspect
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrofit_core.cli import main
from retrofit_core.fusion.importance import IMPORTANCE, Importance
from retrofit_core.fusion.task import Task
from retrofit_core.methods import METHODS
from retrofit_core.runs import RunConfig, method_keywords, with_options
from retrofit_core.runs.options import checked, options_of
from retrofit_core.runs.snippets import python
from retrofit_core.system.runtime import Runtime
from retrofit_core.system.settings import Range, setting, settings_of
from retrofit_core.system.texts import read_options, written_options
from tests.marks import each_case


def test_every_method_has_a_sentence_and_the_options_of_its_values():
    for name, method in METHODS.items():
        assert method.sentence.endswith(".") and method.description.endswith(").") == bool(method.source)
        for key, option in options_of(name).items():
            assert option.help and option.takes(option.default), (name, key)
            assert inspect.signature(method).parameters[key].default == option.default


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


@pytest.mark.parametrize("name", ["mean", "size", "samples"])
def test_an_option_named_as_a_setting_of_the_run_is_refused_as_such(name):
    with pytest.raises(ValueError, match=f"no option '{name}': that is a setting of the run itself. .*another name"):
        with_options(RunConfig(("a",)), {name: 1.0})


def test_fixed_fields_are_no_options_and_settings_of_a_part_belong_to_its_methods():
    assert "mode" not in options_of("OTFusion-Weights") and "weighting" not in options_of("FedAvg")
    assert "epochs" in options_of("KF-Gradient") and "epochs" not in options_of("kf-linear")
    assert options_of("OTFusion")["solver"].words == ("exact", "sinkhorn")
    assert {"restarts", "steps", "fallback", "leaves"} <= options_of("KF-Linear").keys()
    assert "steps" not in options_of("KF-Linear", importance="uniform")
    assert "max_swaps" in options_of("KF-Linear", grouping="local_search")


def test_defaults_are_left_out_so_that_equal_work_has_one_key():
    assert checked("OTFusion", {"solver": "exact", "repair": False}) is None
    assert checked("OTFusion", {"solver": "sinkhorn", "repair": False}) == {"solver": "sinkhorn"}
    assert RunConfig(("a",)).key() == RunConfig(("a",), options=None).key()
    assert (
        RunConfig(("a",), method="kf_linear", importance="Uniform").key() == RunConfig(("a",), method="KF-Linear").key()
    )


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
        ("OTFusion", {"solver": "newton"}, "option solver of OTFusion is 'newton'. It takes: exact, sinkhorn"),
        ("OTFusion", {"repair": 1}, "option repair of OTFusion is 1. It takes: true or false"),
        ("OTFusion", {"temperature": 2.0}, "OTFusion has no option 'temperature'. Known: .*solver, .* an option of KD"),
        ("KD", {"epochs": 2.5}, "option epochs of KD is 2.5. It takes: a whole number"),
        ("KD", {"epochs": True}, "option epochs of KD is True"),
        ("Average", {"repair": True}, "Average has no option 'repair'. Known: reset_norms"),
        ("KD", {"temperature": 1e-300}, "option temperature of KD is 1e-300. It takes: a number from 0.001 to 10000"),
        ("KF-Gradient", {"epochs": -1}, "option epochs of KF-Gradient is -1. It takes: a whole number from 0"),
        ("LP", {"patience": -1}, "option patience of LP is -1. It takes: a whole number from 0, none"),
        ("ZipIt", {"a": 2}, "option a of ZipIt is 2. It takes: a number from 0 to 1"),
        ("KF-Linear", {"epochs": 3}, "KF-Linear has no option 'epochs'. Known: .*normalise_scores"),
    ],
)
def test_unknown_options_and_values_are_refused(method, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        checked(method, options)


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


def test_command_script_and_config_carry_the_options(tmp_path):
    config = RunConfig(("a", "b"), method="KD", options={"loss": "mse", "temperature": 3.0})
    assert config.command() == "retrofit fuse a b --method KD --option loss=mse --option temperature=3.0"
    assert RunConfig.from_json(config.to_json()) == config
    namespace: dict = {}
    exec(python(config).split("result,")[0], namespace)
    assert namespace["config"] == config and namespace["config"].key() == config.key()


def test_the_command_line_lists_methods_and_options(capsys):
    assert main(["methods", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == METHODS.keys()
    assert main(["methods", "otfusion", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["solver"]["takes"] == "exact, sinkhorn"
    assert main(["methods", "otfusio"]) == 2
    assert "Did you mean 'OTFusion'" in capsys.readouterr().err


def test_beside_a_preset_an_option_at_our_default_is_kept():
    config = with_options(
        RunConfig(("a",), method="KF-Linear", options={"preset": "paper"}), {"normalise_scores": True}
    )
    assert config.options == {"preset": "paper", "normalise_scores": True}
    assert method_keywords(config) == config.options
    assert METHODS["KF-Linear"].algorithm(preset="paper").fit.ridge == 10.0
    assert with_options(RunConfig(("a",), method="KF-Linear"), {"normalise_scores": True}).options is None


def test_a_number_is_stored_in_one_form():
    """2 from a command line and 2.0 from a form are the same work."""
    for options in ({"temperature": 2}, {"temperature": 2.0}):
        assert checked("KD", options) is None
    assert checked("KD", {"temperature": 3}) == checked("KD", {"temperature": 3.0})
    assert type(checked("KD", {"temperature": 3})["temperature"]) is float
    assert type(checked("KD", {"epochs": 3})["epochs"]) is int


def test_an_option_of_another_grouping_says_whose_it_is():
    with pytest.raises(ValueError, match="no option 'max_swaps'.* It belongs to grouping='local_search', which is not"):
        checked("KF-Linear", {"max_swaps": 3})
    with pytest.raises(ValueError, match="importance is given as a value, so steps belongs inside it: Conductance"):
        METHODS["KF-Linear"]([], None, importance=IMPORTANCE["conductance"]("fusion"), steps=3)
