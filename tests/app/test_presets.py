"""The form's picks: in the address and back, and as configs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrofit_app import bundle
from retrofit_app.address.rule import parameters_of
from retrofit_app.pages.fuse import configs, parameters, presets
from retrofit_app.pages.fuse.parameters import Picks
from retrofit_app.pages.fuse.presets import PRESETS
from retrofit_core.fusion.grouping import GROUPINGS
from retrofit_core.fusion.importance import IMPORTANCE
from retrofit_core.methods import METHODS

from .pages import address_of, form_of

VALUES = {
    "networks": st.sampled_from(list(parameters.NETWORKS)),
    "arch": st.sampled_from(parameters.ARCHITECTURES),
    "parents": st.integers(1, 12),
    "widths": st.sampled_from(list(parameters.WIDTHS)),
    "split": st.sampled_from(list(parameters.SPLITS)),
    "ratio": st.integers(1, 100).map(lambda n: n / 100),
    "samples": st.integers(10, 9999),
    "method": st.sampled_from(list(METHODS)),
    "grouping": st.sampled_from(["", *GROUPINGS]),
    "importance": st.sampled_from(list(IMPORTANCE)),
    "fusion_seed": st.integers(0, 9999),
    "files": st.lists(st.sampled_from(["a.safetensors", "b c.safetensors"]), max_size=2, unique=True).map(tuple),
    "options": st.lists(st.sampled_from(["solver=sinkhorn", "repair=true"]), max_size=2, unique=True).map(tuple),
    "data": st.sampled_from(["digits", "../a"]),
}

#: What the form's parameters are called in the address.
WORDS = [each.word for each in (presets.PRESET, *parameters_of(Picks()))]


@given(st.sampled_from(list(PRESETS)), st.builds(Picks, **VALUES))
def test_the_address_brings_every_pick_back(preset, picks):
    address = address_of(preset, picks)
    assert form_of(address) == (preset, picks, [])
    assert set(address) <= set(WORDS)


def test_the_command_lines_spelling_is_understood():
    _, picks, ignored = form_of({"method": "kf-gradient", "grouping": "same-index", "importance": "DeepLift"})
    assert (picks.method, picks.grouping, picks.importance, ignored) == ("KF-Gradient", "same_index", "deeplift", [])


@pytest.mark.slow
@given(
    st.dictionaries(
        st.sampled_from(WORDS),
        st.text(max_size=30),
    )
)
def test_no_address_breaks_the_form(address):
    preset, picks, ignored = form_of(address)
    assert preset in PRESETS and 1 <= picks.parents <= parameters.MOST_PARENTS and len(ignored) <= len(address)


def test_another_grouping_stands_in_the_config_and_the_methods_own_does_not():
    picks = replace(PRESETS["shipped"].picks, grouping="same_index", options=("steps=20",))
    config = configs.fusion(picks, None, 64, 10)
    assert config.options == {"grouping": "same_index", "steps": 20}
    assert "--grouping same_index" in config.command() and "--steps 20" in config.command()
    same = configs.fusion(replace(picks, grouping="kmeans", options=()), None, 64, 10)
    assert same == configs.fusion(PRESETS["shipped"].picks, None, 64, 10)
    average = configs.fusion(replace(picks, method="Average", options=()), None, 64, 10)
    assert average.options is None and average.importance == "uniform" and not average.analyse


def test_configs_of_the_presets():
    picks = PRESETS["shipped"].picks
    assert configs.training(picks, 64, 10) is None
    assert configs.fusion(picks, None, 64, 10) == replace(
        bundle.config("KF-Linear"), importance="deeplift", options=None
    )
    twins = configs.training(PRESETS["twins"].picks, 64, 10)
    assert twins.twins and twins.split == "full"
    small = PRESETS["compress"].picks
    config = configs.fusion(small, configs.training(small, 64, 10), 64, 10)
    assert len(config.models) == 1 and config.target == "cnn"
    uneven = configs.training(PRESETS["widths"].picks, 64, 10)
    assert len(set(uneven.arch)) == 2
