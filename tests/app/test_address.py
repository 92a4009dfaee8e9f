"""Values and texts of parameters."""

import pytest

from retrofit_app.address import neurons, readers
from retrofit_app.address.rule import option, texts_of, values_of
from tests.marks import each_case

LEVEL = option("level", ["a", "b", "c"], "b", "level of this run")
SCORE = option("score", ["uniform", "deeplift"], "uniform", "importance")
FIELDS = [LEVEL, SCORE]


def test_an_address_gives_values_and_says_what_it_cannot_show():
    values, ignored = values_of(FIELDS, {"level": "99", "score": "deeplift", "other": "1"})
    assert values == {"level": "b", "score": "deeplift"}
    assert ignored == ["Ignored level=99 in the address: no such level of this run. Shown instead: b."]


def test_defaults_are_not_written():
    assert texts_of(FIELDS, {"level": "b", "score": "deeplift"}) == {"score": "deeplift"}


@pytest.mark.parametrize("text", ["x" * 5000, "<script>", "a\x00", ""])
def test_hostile_values_fall_back(text):
    values, ignored = values_of(FIELDS, {"level": text})
    assert values["level"] == "b" and len(ignored[0]) < 200


@pytest.mark.parametrize(
    ("picked", "text"),
    [([], ""), ([(0, 3)], "A3"), ([(0, 5), (0, 6), (0, 7), (1, 8)], "A5-7.B8"), ([(1, 0), (0, 511)], "A511.B0")],
)
def test_picks_go_there_and_back(picked, text):
    assert neurons.text_of(picked) == text
    assert neurons.neurons_of(text, parents=2) == sorted(picked)


@each_case("text", ["C1", "A", "A-1", "A1-", "A1-2-3", "3", "A²", "A" + "9" * 9, "a1", "A1..;drop"])
def test_nonsense_is_no_pick(text):
    with pytest.raises(ValueError, match="no such list of neurons"):
        neurons.parameter("pick", 2).read(text)


@each_case("text", ["0" * 11 + "99", "2" + "0" * 12, "1" * 1900, "99", "x", "²", ""])
def test_a_whole_number_is_checked_as_it_is_used(text):
    with pytest.raises(ValueError, match="from 1 to 12"):
        readers.number(1, 12, digits=0)(text)
    assert readers.number(1, 12, digits=0)("12") == 12


def test_a_short_text_cannot_name_millions_of_neurons(monkeypatch):
    made = []
    monkeypatch.setattr(neurons, "range", lambda *ends: made.append(ends) or range(*ends), raising=False)
    with pytest.raises(ValueError, match="more than 50,000 neurons"):
        neurons.neurons_of(".".join(["A0-99999"] * 150), parents=2)
    assert not made
    assert len(neurons.neurons_of("A0-4095.B0-4095", parents=2)) == 8192
