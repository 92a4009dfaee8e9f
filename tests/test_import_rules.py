"""Who may import whom, print, or seed; read off the source."""

import ast
import functools
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import retrofit_core
from tests.marks import ROOT, skip_without

CORE = ROOT / "retrofit_core"
#: A file imports files of its own room and of the rooms above it in this list; `docs/architecture.md` shows the same order.
ROOMS = (
    "system",
    "data",
    "networks",
    "training",
    "fusion",
    "graph",
    "baselines",
    "catalogue",
    "methods",
    "inspection",
    "runs",
    "experiments",
    "__init__",
    "cli",
    "__main__",
)
FILES = sorted(CORE.rglob("*.py"))


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def name_of(path: Path) -> str:
    """The part of the core to which a file belongs: its folder, or the file itself."""
    return path.relative_to(CORE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[str, str]]:
    """(top-level package, part of the core or "") for each import, relative ones resolved."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                head, *rest = alias.name.split(".")
                yield head, (rest or ["__init__"])[0] if head == "retrofit_core" else ""
        elif isinstance(node, ast.ImportFrom):
            parts = (node.module or "").split(".") if node.module else []
            if node.level:
                folder = ["retrofit_core", *path.relative_to(CORE).parts[:-1]]
                parts = folder[: len(folder) - node.level + 1] + parts
            if parts[0] != "retrofit_core":
                yield parts[0], ""
            elif len(parts) > 1:
                yield parts[0], parts[1]
            else:
                for alias in node.names:  # from retrofit_core import levels, or a name of __init__
                    known = (CORE / f"{alias.name}.py").exists() or (CORE / alias.name).is_dir()
                    yield parts[0], alias.name if known else "__init__"


def calls_of(path: Path) -> Iterator[tuple[str, int]]:
    """(dotted name, line) of each call."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node.lineno


def test_every_file_is_in_a_room():
    assert {name_of(path) for path in FILES} == set(ROOMS)


def test_the_architecture_page_lists_the_rooms_in_this_order():
    skip_without("docs")
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| `(\w+)/?` \| [^|]+ \|$", page, re.MULTILINE)
    assert [row for row in rows if row in ROOMS] == [room for room in ROOMS if not room.startswith("__")]


def test_rooms_import_only_rooms_above_them():
    for path in FILES:
        importer = name_of(path)
        for package, part in imports_of(path):
            assert package not in {"streamlit", "plotly", "app", "retrofit_app"}, f"{path} imports {package}"
            assert package != "captum" or path.name == "deeplift.py", f"{path} imports captum"
            if package == "retrofit_core" and {part, importer} not in ({importer}, {"fusion", "graph"}):
                assert ROOMS.index(part) < ROOMS.index(importer), f"{path} ({importer}) imports {part}"


def files_imported_by(path: Path) -> Iterator[Path]:
    """Files of the core that a file imports, anywhere in it; names that a package hands on count for the package's file."""
    folder = path.relative_to(CORE).parent.parts
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = CORE.joinpath(*folder[: len(folder) - node.level + 1], *(node.module or "").split("."))
        for target in ([base] if node.module else []) + [base / alias.name for alias in node.names]:
            candidates = (target.with_suffix(".py"), target / "__init__.py")
            yield from (file for file in candidates if file in FILES and file != CORE / "__init__.py")


def test_no_two_files_need_each_other():
    """Imports inside functions count too; a package's own files do not import through it."""
    needs = {path: set(files_imported_by(path)) - {path} for path in FILES}
    while ready := [path for path, needed in needs.items() if not needed]:
        for path in ready:
            del needs[path]
        for needed in needs.values():
            needed.difference_update(ready)
    assert not needs, sorted(str(path.relative_to(CORE)) for path in needs)


@pytest.mark.slow
def test_only_the_command_line_prints():
    for path in FILES:
        if name_of(path) not in ("cli", "__main__"):
            assert [line for name, line in calls_of(path) if name in ("print", "sys.stdout.write")] == [], path


@pytest.mark.slow
def test_the_global_generator_is_seeded_only_in_a_fork():
    for path in FILES:
        forked = {
            inner
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.With) and any("fork_rng" in ast.unparse(item.context_expr) for item in node.items)
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call):
                name, where = ast.unparse(node.func), f"{path}:{node.lineno} seeds the global generator"
                if name in ("torch.manual_seed", "torch.random.manual_seed", "torch.default_generator.manual_seed"):
                    assert node in forked, where
                assert name not in ("torch.seed", "np.random.seed", "numpy.random.seed", "random.seed"), where


def test_every_public_name_is_found():
    for name in retrofit_core.__all__:
        assert getattr(retrofit_core, name) is not None and name in dir(retrofit_core)
    assert {*retrofit_core._HOMES, "__version__"} == set(retrofit_core.__all__)
    assert not hasattr(retrofit_core, "no_such_name")


def test_the_version_is_that_of_the_installation():
    try:
        installed = version("retrofit-workbench")
    except PackageNotFoundError:
        pytest.skip("the package is not installed")
    assert retrofit_core.__version__ == installed


def test_every_package_is_installed():
    """pyproject.toml takes every folder with an __init__.py; one without would be left out of a wheel."""
    for package in (CORE, ROOT / "app" / "retrofit_app"):
        folders = {path.parent for path in package.rglob("*.py")}
        assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []
