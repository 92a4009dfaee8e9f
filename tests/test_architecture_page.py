"""The score of docs/architecture.md, pasted into its folder: it fuses, and its option decides something."""

import re

import pytest
import torch

from retrofit_core import METHODS
from retrofit_core.fusion.importance import IMPORTANCE
from tests.marks import ROOT, skip_without
from tests.networks import CNN_SHAPE, cnn, labels, normal

skip_without("docs")
PAGE = (ROOT / "docs" / "architecture.md").read_text()
X, Y = normal(70, *CNN_SHAPE), labels(70, 3)


@pytest.mark.slow
def test_the_example_fuses_and_its_option_decides_something(monkeypatch):
    code = re.search(r"```python\n(.*?)```", PAGE[PAGE.index("**An importance score**") :], re.S)
    assert code
    names = {"__name__": "retrofit_core.fusion.importance.pasted", "__package__": "retrofit_core.fusion.importance"}
    exec(code[1], names)
    monkeypatch.setitem(IMPORTANCE, "loudness", names["Loudness"])

    def fused(**options):
        parents = [cnn(seed=seed) for seed in range(2)]
        given = {"importance": "loudness", "importance_data": "fusion", "device": "cpu"}
        return METHODS["KF-Linear"](parents, (X, Y), **given | options)

    plain, cubed = fused(), fused(power=3)
    assert {"importance": "loudness", "power": 1.0}.items() <= plain.config.items()
    assert not torch.allclose(plain.levels[0].scores, cubed.levels[0].scores)
    assert plain.levels[0].scores[:4].sum().item() == pytest.approx(1)
    assert fused(importance=names["Loudness"]).config == plain.config
