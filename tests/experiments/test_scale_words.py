"""What differs from the paper, in words made of the scale's own numbers."""

import dataclasses

import pytest

from retrofit_core.experiments.bundles import Bundle, GivenParents
from retrofit_core.experiments.scale_words import differences
from retrofit_core.experiments.scales import SCALES
from retrofit_core.experiments.setting import settings
from retrofit_core.experiments.tables import TABLES


@pytest.fixture(autouse=True)
def all_data_are_here(monkeypatch):
    monkeypatch.setattr("retrofit_core.experiments.scales.is_on_disk", lambda name: True)


def words(table: str, scale: str, given: tuple[GivenParents, ...] = (), column: str | None = None) -> tuple[str, ...]:
    return differences(settings(TABLES[table], Bundle({}, given), [SCALES[scale]], columns=column and [column])[0])


def test_the_papers_own_settings_differ_in_nothing():
    assert [words(table, "paper") for table in TABLES] == [()] * len(TABLES)


def test_width_and_epochs_stand_beside_the_papers():
    assert words("vgg11-noniid", "evening") == ("half width", "30 epochs in place of 200")
    assert words("vit-sharded-cifar100", "evening") == (
        "192 of 384 channels, 5 of 7 blocks",
        "15 epochs in place of 250",
        "2,000 of 5,000 fusion samples",
        "at most 50 epochs a fit",
    )
    assert words("resnet-compression", "evening")[:2] == (
        "a quarter of the width",
        "30 epochs",
    )  # the paper prints none


def test_given_parents_are_said_by_what_is_known_of_them():
    facts = {"given": ["a", "b"], "data": "cifar10"}
    given = GivenParents((("vgg11-noniid", "2-way"),), ("a", "b"), facts, about="VGG11s of full width")
    assert words("vgg11-noniid", "paper", (given,)) == ("given VGG11s of full width",)
    assert words("vgg11-noniid", "paper", (dataclasses.replace(given, about=""),)) == ("given parents",)


def test_another_data_set_is_named(monkeypatch):
    monkeypatch.setattr("retrofit_core.experiments.scales.is_on_disk", lambda name: name == "cifar10")
    assert "cifar10 in place of cifar100" in words("resnet-compression", "small")
