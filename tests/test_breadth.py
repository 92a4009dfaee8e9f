"""The page of networks that can be fused is the record's, and the script says of a network what is so."""

import importlib.util
import json
import sys

import pytest
import torch

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


def test_the_record_holds_networks_of_the_lists(breadth):
    content = json.loads(RECORD.read_text())
    assert [row["name"] for row in content["timm"]] == list(breadth.TIMM) and len(set(breadth.TIMM)) == 92
    measured = [row["name"] for row in content["torchvision"]]
    assert measured == [name for name in breadth.torchvision_names() if name in measured]
    text = (ROOT / "docs" / "breadth.md").read_text()
    assert all(f"| {name} |" in text for name in (*measured, *breadth.TIMM))


@pytest.mark.slow
def test_what_is_said_of_a_network(breadth):
    row = breadth.looked_at("torchvision", "squeezenet1_1")
    assert row["levels_of"] == {"levels": 10, "affine": 2, "whole": []}  # stem, eight modules, head
    assert row["aligned"] == {"groups": 25} and breadth.unfused(row)  # three of each module, and the stem's
    assert row["closed_form"] == {"levels": 26, "inside": True} and not breadth.refused(row)
    kept = {**row, "aligned": {"reason": "not tried"}, "closed_form": {"levels": 1, "inside": False}}
    again = breadth.looked_at("torchvision", "squeezenet1_1", kept)
    assert breadth.refused(kept) and again["aligned"] == row["aligned"] and again["closed_form"] == kept["closed_form"]
    giant = breadth.looked_at("torchvision", "vit_h_14")
    assert giant["untried"] and giant["parameters"] > 6e8 and not breadth.unfused(giant) and not breadth.refused(giant)
    model, x = breadth.made(breadth.torchvision_network, "mnasnet0_5")
    assert all(tensor.std() > 0 for tensor in model.state_dict().values() if tensor.numel() > 1)
    facts = breadth.answered(breadth.levels_of, torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()), x)
    assert "does not run on an input" in facts["reason"]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed (pip install timm)")
@pytest.mark.parametrize("name", ["lcnet_035", "repghostnet_050", "mobilevit_xxs"])
def test_networks_of_timm(breadth, name):
    """A network with weights of its own layers, one with concatenations, and one that looks at shapes."""
    row = breadth.looked_at("timm", name)
    assert "reason" not in row["levels_of"] and "reason" not in row["aligned"]
