"""Values and texts of parameters."""

import pytest

from retrofit_app.address import readers
from retrofit_app.address.rule import option, values_of
from tests.marks import each_case

LEVEL = option("level", ["a", "b", "c"], "b", "level of this run")
SCORE = option("score", ["uniform", "deeplift"], "uniform", "importance")
FIELDS = [LEVEL, SCORE]


def test_an_address_gives_values_and_says_what_it_cannot_show():
    values, ignored = values_of(FIELDS, {"level": "99", "score": "deeplift", "other": "1"})
    assert values == {"level": "b", "score": "deeplift"}
    assert ignored == ["Ignored level=99 in the address: no such level of this run. Shown instead: b."]


@pytest.mark.parametrize("text", ["x" * 5000, "<script>", "a\x00", ""])
def test_hostile_values_fall_back(text):
    values, ignored = values_of(FIELDS, {"level": text})
    assert values["level"] == "b" and len(ignored[0]) < 200


@each_case("text", ["0" * 11 + "99", "2" + "0" * 12, "1" * 1900, "99", "x", "²", ""])
def test_a_whole_number_is_checked_as_it_is_used(text):
    with pytest.raises(ValueError, match="from 1 to 12"):
        readers.number(1, 12, digits=0)(text)
    assert readers.number(1, 12, digits=0)("12") == 12
