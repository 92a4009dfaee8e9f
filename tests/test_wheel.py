"""A wheel built from the repository has every package and every file that the workbench needs."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {"retrofit_core": Path("."), "app": Path("app")}
"""Top-level folder -> the folder whose content a wheel holds"""
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
SHIPPED = """
import sys
sys.path.insert(0, sys.argv[1])
from retrofit_app import runs
from retrofit_core.cli import main
assert all(module.__file__.startswith(sys.argv[1]) for module in (runs, sys.modules["retrofit_core.cli"]))
entries, problems = runs.entries()
print(len(entries), problems)
"""


def sources() -> list[Path]:
    """What a commit of this tree would hold, relative to it."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if listing.returncode:
        pytest.skip("this tree is no git repository, so nobody knows which files belong to it")
    return [Path(name) for name in listing.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built offline, from a copy, by the build backend itself."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    for name in sources():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tree / name)
    done = subprocess.run([sys.executable, "-c", BUILD, str(out)], cwd=tree, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return out / done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_every_file_of_the_packages_is_in_the_wheel(wheel):
    """Every module, so that no package can be forgotten in pyproject.toml, and every other file that is tracked."""
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {name.relative_to(PACKAGES[name.parts[0]]).as_posix() for name in sources() if name.parts[0] in PACKAGES}
    assert {"retrofit_app/bundled/bundle.json", "retrofit_app/static/favicon.png"} < wanted
    assert "retrofit_app/.streamlit/config.toml" in wanted
    assert sorted(wanted - held) == []
    assert sorted(name for name in held - wanted if ".dist-info/" not in name) == []


@pytest.mark.slow
def test_the_installed_app_has_its_shipped_runs(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    command = [sys.executable, "-W", "ignore", "-c", SHIPPED, str(tmp_path / "site")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["4 []"], done.stderr
