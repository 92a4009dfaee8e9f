"""Each entry of docs/troubleshooting.md is a refusal of the code: provoked here, word for word."""

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from retrofit_core import METHODS, build, save_model
from retrofit_core.cli import main
from retrofit_core.data import load, splits
from tests.marks import ROOT, skip_without

skip_without("docs")
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
#: Title -> its message, which the page breaks into lines.
ENTRIES = {
    title: text.replace("\n", " ")
    for title, text in re.findall(r"^### (.*?)\n\n```text\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
}
A, B = "parents/parent-0.safetensors", "parents/parent-1.safetensors"
pytestmark = pytest.mark.slow


class Decides(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(64, 8), nn.Linear(8, 10), nn.Linear(8, 10)

    def forward(self, x):
        h = self.a(x.flatten(1)).relu()
        return self.b(h) if h.isfinite().all() else self.c(h)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.rnn(x.flatten(1, 2))[0][:, -1])


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 8), nn.Linear(8, 10)

    def forward(self, x):
        h = self.a(x.flatten(1)).relu()
        return self.b(h), h


def mlp(width=16, classes=10):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, classes))


def residual(seed):
    return build({"architecture": "resnet", "width": 8, "channels": 1}, seed=seed)


@pytest.fixture(scope="module")
def digits():
    images = load("digits", "train")
    return images.inputs(range(60)), images.labels[:60]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the commands read: two checkpoints with their splits, and a pickled network."""
    path = tmp_path_factory.mktemp("trouble")
    images = load("digits", "train")
    (path / "parents").mkdir()
    for name, seed in ((A, 0), (B, 1)):
        save_model(build({"architecture": "cnn"}, seed=seed), path / name, architecture={"architecture": "cnn"})
    parts = splits.sharded(images.labels, 2, seed=0)
    files = [Path(A).name, Path(B).name]
    splits.write_splits(
        path / "parents/splits.json", parts, images.labels, model_files=files, training_set="digits", split="sharded"
    )
    torch.save(mlp(), path / "network.pt")
    return path


def fusing(method: str, *models: Callable[[], nn.Module], data=None, **keywords) -> Callable:
    def provoke(digits):
        given = digits if data is None else data(*digits)
        METHODS[method]([make() for make in models], given, **keywords)

    return provoke


#: Title -> a command, or what is called with the data.
PROVOKED: dict[str, str | Callable] = {
    "The command asks for a splits file": f"fuse {A} {B} --out fused.safetensors",
    "A file holds a pickled network": "evaluate network.pt",
    "A data set is not there": "train --data cifar10 --out trained",
    "The data have another shape": fusing("KF-Linear", mlp, mlp, data=lambda x, y: x.expand(-1, 3, -1, -1)),
    "HF with three parents, or with other widths": fusing("HF-Linear", mlp, lambda: mlp(24)),
    "The parents have different classes": fusing("KF-Linear", mlp, lambda: mlp(classes=9)),
    "A score needs data": fusing("KF-Linear", mlp, mlp, importance="conductance"),
    "A score needs labels": fusing(
        "KF-Linear", mlp, mlp, data=lambda x, y: x, importance="conductance", importance_data="fusion"
    ),
    "DeepLIFT on a residual network": fusing(
        "HF-Linear", lambda: residual(0), lambda: residual(1), importance="deeplift", importance_data="fusion"
    ),
    "The network cannot be traced": fusing("KF-Linear", Decides, Decides),
    "Neurons cannot be followed": fusing("Git-Re-Basin", Recurrent, Recurrent),
    "The network returns several tensors": fusing("KF-Linear", Two, Two),
    "The network returns one number": fusing("Ensemble", lambda: mlp(classes=1), lambda: mlp(classes=1)),
}


def test_every_entry_is_provoked():
    assert list(ENTRIES) == list(PROVOKED)


@pytest.mark.parametrize("title", PROVOKED)
def test_the_code_says_what_the_page_says(title, digits, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("RETROFIT_DATA", raising=False)
    provoke = PROVOKED[title]
    if isinstance(provoke, str):
        code, said = said_by(provoke)
        assert code == 2
        said = said.removeprefix("Error: ")
    else:
        with pytest.raises(ValueError) as refusal:
            provoke(digits)
        said = str(refusal.value)
    assert ENTRIES[title] == re.sub(r"0x[0-9a-f]+", "0x...", said.replace(f"{folder}/", ""))


def said_by(words: str) -> tuple[int, str]:
    """The exit code of a command, and what it says of errors."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words.split())
    return code, err.getvalue().strip()


#: Title -> what its cure says, done.
CURED: dict[str, Callable] = {
    "HF with three parents, or with other widths": fusing("KF-Linear", mlp, lambda: mlp(24)),
    "A score needs labels": fusing("KF-Linear", mlp, mlp, data=lambda x, y: x, active=True),
    "DeepLIFT on a residual network": fusing("HF-Linear", lambda: residual(0), lambda: residual(1)),
    "The network cannot be traced": fusing("Average", Decides, Decides),
    "Neurons cannot be followed": fusing("KF-Gradient", Recurrent, Recurrent, epochs=1),
    "The network returns several tensors": fusing("KF-Linear", Two, Two, logits=0),
    "The network returns one number": fusing("KF-Linear", lambda: mlp(classes=1), lambda: mlp(classes=1)),
}


@pytest.mark.parametrize("title", CURED)
def test_the_cure_is_one(title, digits):
    assert title in ENTRIES
    CURED[title](digits)
