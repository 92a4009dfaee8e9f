"""What holds on every page: what an address says in vain is named, and every control explains itself."""

import pytest

from retrofit_app.figures import plain_text
from tests.marks import each_case

from .pages import claims, clean, count, page_at

pytestmark = pytest.mark.slow

NEW, SHIPPED = {"view": "new"}, {"run": "kf-linear"}
#: Page, what its address says with a meaning and without one, and a part of the reason.
NONSENSE = [
    ("", NEW, {"preset": "nope", "parents": "99", "ratio": "zero", "method": "Magic", "split-seed": "-1"}, ""),
    ("", NEW, {"run": "gone"}, ""),
    ("", NEW | {"method": "OTFusion"}, {"options": "temperature=2"}, "a setting of KD"),
    ("", NEW | {"method": "KD"}, {"options": "epochs=many"}, "a whole number"),
    ("", NEW | {"method": "KD"}, {"options": "nonsense"}, "NAME=VALUE"),
    ("", SHIPPED, {"tuned": "gone"}, ""),
    ("levels", SHIPPED, {"level": "99", "step": "dance", "score": "guess", "neuron": "-1"}, ""),
    ("levels", SHIPPED, {"view": "Z9"}, ""),
    ("levels", SHIPPED, {"example": "359"}, "a whole number from 0 to 358"),
    ("landscape", SHIPPED, {"map": "gone", "path": "7"}, ""),
    ("compare", {}, {"runs": "kf-linear|gone"}, "no such finished run (gone)"),
    ("paper", {"table": "widths"}, {"cell": "KF-Linear, conductance|2-way"}, "no such cell of this table"),
]


@each_case(("name", "address", "nonsense", "why"), NONSENSE)
def test_what_means_nothing_in_an_address_is_named_and_the_page_stands(runs_folder, name, address, nonsense, why):
    page = page_at(name, **address, **nonsense)
    said = plain_text(" ".join(warning.value for warning in page.warning))
    assert not page.exception and not page.error and page.title[0].value
    assert [word for word, text in nonsense.items() if f"{word}={text}" not in said] == [] and why in said
    assert all(page.query_params[word] == text for word, text in nonsense.items())  # or Back would lead nowhere


@each_case(
    ("name", "address"),
    [
        ("", {"view": "runs", "tuned": "0123456789", "tune-epochs": "7"}),
        ("", {"view": "runs", "lecture": "1", "slide": "2"}),
    ],
)
def test_what_means_something_elsewhere_is_kept_without_a_word(runs_folder, name, address):
    assert clean(page_at(name, **address))


@each_case(
    ("name", "address"),
    [
        *(("", NEW | {"method": method}) for method in ("KF-Linear", "KD", "ZipIt")),
        ("", NEW | {"preset": "four"}),
        ("", NEW | {"preset": "own", "data": "../data/nowhere"}),
        *(("levels", SHIPPED | {"step": step}) for step in ("activations", "grouping", "fit")),
        ("landscape", SHIPPED),
        ("compare", {}),
        ("", SHIPPED | {"example": "3"}),
        ("paper", {}),
    ],
)
def test_every_control_has_a_help_text_and_no_claim_is_long(runs_folder, name, address):
    page = page_at(name, **address)
    assert [claim for element in page.markdown for claim in claims(element.value) if count(claim) > 15] == []
    kinds = (page.selectbox, page.number_input, page.text_input, page.text_area, page.button, page.toggle)
    assert [control.label for kind in kinds for control in kind if not control.help] == []
