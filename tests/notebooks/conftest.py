"""A kernel of this checkout, and one runs folder for all notebooks of a file."""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.marks import ROOT, skip_without

skip_without("notebooks", "docs")
if importlib.util.find_spec("jupytext") is None:  # which takes seconds to import
    pytest.skip("Jupyter is not installed", allow_module_level=True)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel of this interpreter that imports this checkout, whatever kernels the user has installed."""
    folder = tmp_path / "jupyter" / "kernels" / "this"
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "this", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return "this"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A runs folder of all notebooks of a file, so that parents and fusions that several show are made once."""
    return str(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def executing() -> Any:
    """docs/notebooks.py, which is no package."""
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
