"""Pictures that all sessions share, and what their files are called."""

import pytest

from retrofit_app import runs
from retrofit_app.figures import LIGHT, drawn_network
from retrofit_app.widgets.charts import signed
from retrofit_app.widgets.downloads import file_stem
from retrofit_core.fusion.results import frame


def test_signing_leaves_the_shared_picture_as_it_is(shipped):
    entry = runs.read_entry(shipped.folder, shipped=True)
    shared = drawn_network(frame(shipped.levels), [], LIGHT)
    before = shared.figure.to_json()
    first, second = signed(shared, LIGHT, entry), signed(shared, LIGHT, entry)
    assert shared.figure.to_json() == before
    assert first.figure.to_json() == second.figure.to_json() != before


@pytest.mark.parametrize(
    ("level", "stem"), [("1-features.0", "a-1-features.0-kept"), ("2-x/../y z", "a-2-x_.._y_z-kept"), ("", "a-kept")]
)
def test_files_of_two_levels_have_two_names(level, stem):
    assert file_stem("a", level, "kept") == stem
