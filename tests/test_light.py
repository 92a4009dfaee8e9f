"""What is imported when: the command line answers without torch, and the core works without the packages of the extras."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from retrofit_core.cli.comparing import CompareRequest
from retrofit_core.cli.landscape import LandscapeRequest
from retrofit_core.cli.requests import ReproduceRequest
from retrofit_core.data.splits import SPLITS
from retrofit_core.experiments.scales import SCALES
from retrofit_core.fusion.grouping import GROUPINGS
from retrofit_core.fusion.importance import IMPORTANCE
from retrofit_core.inspection.landscape import ALIGNMENTS
from retrofit_core.methods import METHODS
from retrofit_core.runs import RunConfig
from retrofit_core.system.settings import settings_of
from retrofit_core.training import RECIPES
from retrofit_core.training.config import TrainConfig
from tests.marks import ROOT, skip_without

#: Packages of the extras, as they are imported.
EXTRAS = (
    "torchvision",
    "pyarrow",
    "PIL",
    "captum",
    "ot",
    "streamlit",
    "plotly",
    "jupyterlab",
    "jupytext",
    "matplotlib",
    "mkdocs",
)
#: What only some work needs, beside the packages of extras.
LATER = ("sklearn", "scipy", "pandas", *EXTRAS)


def python(code: str, cwd: Path, *words: object) -> subprocess.CompletedProcess:
    """A new interpreter, in which nothing is imported yet."""
    path = {"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(cwd), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(command, cwd=cwd, env=path, capture_output=True, text=True, timeout=300)


#: Runs each command in this process; prints its code, what it said, and what has been imported by then.
EACH = """
import contextlib, io, json, sys
from retrofit_core.cli import main
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(words)
    heavy = [name for name in ("torch", "numpy", "pandas", "scipy", "sklearn", "retrofit_core.methods") if name in sys.modules]
    print(json.dumps([code, out.getvalue(), err.getvalue(), heavy]))
"""


def answers(lines: Iterable[str], cwd: Path, code: str = EACH) -> list[list[Any]]:
    done = python(code, cwd, json.dumps([line.split() for line in lines]))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


ANSWERED = {
    "--help": (0, "Usage: retrofit"),
    "fuse nothing.pt other.pt --out fused.safetensors": (2, "there is no checkpoint at nothing.pt"),
    "fuse nothing.pt other.pt": (2, "name an output for the fused network"),
    "fuse": (2, "name at least one checkpoint"),
    "fuse a.pt --method kf-lineer": (2, "Did you mean 'KF-Linear'?"),
    "fuse a.pt --samples many": (2, "Invalid value for '--samples'"),
    "compare nothing.pt": (2, "no checkpoint at nothing.pt"),
    "evaluate nothing.pt": (2, "no checkpoint at nothing.pt"),
    "train --epochs many": (2, "Invalid value for '--epochs'"),
}


@pytest.mark.slow
def test_the_command_line_answers_without_torch(tmp_path):
    ended = zip(ANSWERED.items(), answers(ANSWERED, tmp_path), strict=True)
    for (line, (code, said)), (actual, out, err, heavy) in ended:
        assert (actual, heavy) == (code, []) and said in out + err, (line, out, err)


@pytest.mark.slow
def test_a_table_of_the_paper_is_shown_without_torch(tmp_path):
    results = ROOT / "benchmarks" / "results" / "experiments"
    code = f"""
import sys
from retrofit_core.experiments import table
assert table("widths", results={str(results)!r}).column("1x, 1x").claims
print([name for name in ("torch", "pandas", "scipy") if name in sys.modules])
"""
    done = python(code, tmp_path)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_help_texts_name_what_there_is():
    """They are written by hand, because the tables import torch."""
    tables = (
        (RunConfig, "method", {**METHODS, **GROUPINGS}),
        (RunConfig, "importance", IMPORTANCE),
        (CompareRequest, "importance", IMPORTANCE),
        (LandscapeRequest, "align", ALIGNMENTS),
        (ReproduceRequest, "scale", SCALES),
        (TrainConfig, "recipe", {name for name in RECIPES if name != "finetune"}),
        (TrainConfig, "split", SPLITS),
    )
    for request, name, table in tables:
        words = re.findall(r"[\w-]+", settings_of(request)[name].help)
        assert set(table) <= set(words), (request, name)


@pytest.mark.slow
def test_public_names_and_a_fusion_bring_nothing_that_only_some_work_needs(tmp_path):
    """Torch's compiler takes three seconds, many times those of a small fusion, and 140 MB."""
    code = f"""
import sys
import retrofit_core
assert "torch" not in sys.modules
for name in retrofit_core.__all__:
    getattr(retrofit_core, name)
import retrofit_core.runs.comparison, retrofit_core.runs.execute, retrofit_core.data
early = [name for name in {LATER} if name in sys.modules]
import torch
network = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
retrofit_core.METHODS["HF-Linear"]([network, network], torch.randn(9, 4), device="cpu")
print(early + [name for name in ("torch._dynamo", "torch._inductor", "sympy") if name in sys.modules])
"""
    done = python(code, tmp_path)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


ALONE = f"""
import sys

class Absent:  # as if nothing of the extras were installed
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])

sys.meta_path.insert(0, Absent())
"""
FUSE = "fuse parents/parent-0.safetensors parents/parent-1.safetensors --splits parents/splits.json"
#: Commands that need more than the core, the package that is missing, and the extra that brings it.
MISSING = {
    f"{FUSE} --method kf-linear --importance deeplift --out a.safetensors": ("captum", "baselines"),
    f"{FUSE} --method otfusion --out a.safetensors": ("POT", "baselines"),
    f"{FUSE} --method transformer-otfusion --out a.safetensors": ("POT", "baselines"),
    "train --out others --epochs 1 --augment policy=cifar10": ("torchvision", "data"),
    f"{FUSE} --record record": ("pyarrow", "data"),
    "evaluate parents/parent-0.safetensors --data parquet": ("pyarrow", "data"),
    "evaluate parents/parent-0.safetensors --data folder": ("Pillow", "data"),
    "app --no-browser": ("streamlit", "app"),
}
WORKS = (
    "train --out parents --epochs 1",
    f"{FUSE} --method kf-linear --importance conductance --out fused.safetensors --evaluate --json",
    "evaluate fused.safetensors --json",
)


@pytest.mark.long
def test_the_core_alone_trains_fuses_and_measures_and_says_what_is_missing(tmp_path):
    for name in (
        "parquet/test.parquet",
        *(f"folder/{split}/{label}/1.png" for split in ("train", "test") for label in "ab"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    said = answers((*WORKS, *MISSING), tmp_path, ALONE + EACH)
    works, missing = said[: len(WORKS)], said[len(WORKS) :]
    assert [code for code, *_ in works] == [0] * len(WORKS), works
    assert json.loads(works[1][1])["accuracy"] == json.loads(works[2][1])["accuracy"]
    for (line, (package, extra)), (code, _, said, _) in zip(MISSING.items(), missing, strict=True):
        assert code == 2 and said == f'Error: needs {package}: pip install "retrofit-workbench[{extra}]".\n', (
            line,
            said,
        )
    assert not (tmp_path / "record").exists() and not (tmp_path / "a.safetensors").exists()


def requirements(path: str) -> set[str]:
    lines = (line.partition("#")[0].strip() for line in (ROOT / path).read_text().splitlines())
    return {line for line in lines if line}


def test_the_requirements_are_the_core_and_its_extras():
    skip_without("requirements.txt", "requirements-dev.txt")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    alone = {name: {each for each in listed if not each.startswith("retrofit-")} for name, listed in extras.items()}
    assert alone.pop("all") == set()
    assert alone.pop("docs") <= requirements("requirements-dev.txt")  # nobody needs them to use the product
    named = re.fullmatch(r"retrofit-workbench\[(.+)\]", extras["all"][0])
    assert named and set(named[1].split(",")) == set(alone)
    assert alone["dask"] <= requirements("requirements-dev.txt")
    whole = set(project["dependencies"]).union(*(listed for name, listed in alone.items() if name != "dask"))
    assert whole == requirements("requirements.txt")
