"""The page of networks that can be fused is the record's, and the script says of a network what is so."""

import importlib.util
import json
import sys

import pytest

from tests.marks import ROOT, skip_without

skip_without("benchmarks", "docs")
RECORD = ROOT / "benchmarks" / "results" / "breadth.json"


@pytest.fixture(scope="module")
def breadth():
    """benchmarks/breadth.py, whose neighbours are imported as a script's are."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return importlib.import_module("breadth")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


def test_the_page_is_the_record(breadth):
    content = json.loads(RECORD.read_text())
    page = "\n".join(sys.modules["breadth_table"].lines(content)) + "\n"
    assert (ROOT / "docs" / "breadth.md").read_text() == page
    assert RECORD.stat().st_size < 200_000
