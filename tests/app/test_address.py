"""Address, what was seen of it, and widgets: who wins."""

import pytest

from retrofit_app.address import neurons, readers
from retrofit_app.address.rule import merged, option, settle
from tests.marks import each_case

LEVEL = option("level", ["a", "b", "c"], "b", "level of this run")
SCORE = option("score", ["uniform", "deeplift"], "uniform", "importance")
FIELDS = [LEVEL, SCORE]


def test_a_new_visit_takes_the_address_and_says_what_it_cannot_show():
    settled = settle(FIELDS, {"level": ["99"], "score": ["deeplift"]}, {}, {})
    assert settled.values == {"level": "b", "score": "deeplift"}
    assert settled.ignored == ["Ignored level=99 in the address: no such level of this run. Shown instead: b."]
    assert not settled.moved  # the address is left as it is, or Back would lead nowhere


def test_a_widget_wins_while_the_address_stands_still():
    settled = settle(FIELDS, {"level": ["a"]}, {"level": ["a"]}, {"level": "c", "score": "uniform"})
    assert settled.values["level"] == "c" and settled.moved and settled.address == {"level": "c"}


def test_back_wins_over_the_widget():
    # The widget still holds c, which was written last; the address went back to a, and then to nothing.
    for texts, shown in ([["a"], "a"], [[], "b"]):
        settled = settle(FIELDS, {"level": texts}, {"level": ["c"]}, {"level": "c"})
        assert settled.values["level"] == shown and not settled.moved


def test_nonsense_stays_named_until_the_next_change_and_then_goes():
    url = {"level": ["99"]}
    again = settle(FIELDS, url, url, {"level": "b", "score": "uniform"})
    assert again.ignored and not again.moved
    assert merged(url, FIELDS, {"level": "c"}) == {"level": "c"}


def test_a_doubled_key_counts_once_and_is_written_once():
    settled = settle(FIELDS, {"level": ["a", "c"]}, {}, {})
    assert settled.values["level"] == "c" and "2 times" in settled.ignored[0]
    assert merged({"level": ["a", "c"], "run": ["x"]}, FIELDS, {"level": "c"}) == {"run": "x", "level": "c"}


def test_defaults_are_not_written_and_foreign_keys_stay():
    assert settle(FIELDS, {}, {}, {"level": "b", "score": "uniform"}).address == {}
    assert merged({"other": ["1"], "level": ["a"]}, FIELDS, {}) == {"other": "1"}


@pytest.mark.parametrize("text", ["x" * 5000, "<script>", "a\x00", ""])
def test_hostile_values_fall_back(text):
    settled = settle(FIELDS, {"level": [text]}, {}, {})
    assert settled.values["level"] == "b" and len(settled.ignored[0]) < 200


@pytest.mark.parametrize(
    ("picked", "text"),
    [([], ""), ([(0, 3)], "A3"), ([(0, 5), (0, 6), (0, 7), (1, 8)], "A5-7.B8"), ([(1, 0), (0, 511)], "A511.B0")],
)
def test_picks_go_there_and_back(picked, text):
    assert neurons.written(picked) == text
    assert neurons.read(text, parents=2) == sorted(picked)


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
        neurons.read(".".join(["A0-99999"] * 150), parents=2)
    assert not made
    assert len(neurons.read("A0-4095.B0-4095", parents=2)) == 8192
