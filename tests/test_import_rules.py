"""Who may import whom, print, or seed; read off the source."""

import ast
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

import retrofit_core

CORE = Path(__file__).parents[1] / "retrofit_core"
#: A file imports only files with a lower number, or of its own folder.
LAYERS = {
    "files": 0,
    "catalogue": 0,
    "extras": 0,
    "registry": 0,
    "settings": 0,
    "presets": 0,
    "labels": 0,
    "monitor": 0,
    "device": 0,
    "runtime": 0,
    "training_flags": 0,
    "outputs": 0,
    "packing": 0,
    "own": 0,
    "wrappers": 0,
    "notices": 0,
    "weightfiles": 1,
    "statedicts": 1,
    "classnames": 1,
    "levels": 1,
    "batchnorm": 1,
    "descent": 1,
    "moments": 1,
    "lags": 1,
    "targets": 1,
    "data": 1,
    "architectures": 1,
    "grouping": 2,
    "importance": 2,
    "samples": 2,
    "budget": 2,
    "contributors": 2,
    "layersums": 2,
    "attention": 3,
    "walk": 3,
    "norm_statistics": 2,
    "symmetry": 2,
    "composites": 2,
    "fit": 4,
    "alignment": 3,
    "evaluation": 3,
    "checkpoints": 3,
    "results": 4,
    "training": 4,
    "streams": 4,
    "eligibility": 5,
    "network_levels": 5,
    "task": 6,
    "fusion": 7,
    "baselines": 7,
    "method": 7,
    "distilled": 8,
    "methods": 8,
    "analysis": 8,
    "landscape": 8,
    "runs": 9,
    "estimate": 10,
    "snippets": 10,
    "comparison": 10,
    "comparing": 10,
    "experiments": 10,
    "__init__": 10,
    "cli": 11,
    "__main__": 12,
}
#: The steps inside a layer: folding is a part of partitioning, lags are another way to the moments, errors are those of targets,
#: an experiment counts what a comparison counts, and a comparison is copied as text.
INSIDE_LAYERS = {
    ("levels", "batchnorm"),
    ("methods", "distilled"),
    ("lags", "moments"),
    ("moments", "targets"),
    ("device", "registry"),
    ("outputs", "registry"),
    ("own", "registry"),
    ("outputs", "training_flags"),
    ("packing", "labels"),
    ("packing", "registry"),
    ("packing", "training_flags"),
    ("runtime", "device"),
    ("runtime", "monitor"),
    ("runtime", "settings"),
    ("experiments", "comparison"),
    ("snippets", "comparison"),
    ("comparing", "comparison"),
    ("__init__", "comparing"),
}
FILES = sorted(CORE.rglob("*.py"))


def name_of(path: Path) -> str:
    """The part of the core to which a file belongs: its folder, or the file itself."""
    return path.relative_to(CORE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[str, str]]:
    """(top-level package, part of the core or "") for each import, relative ones resolved."""
    for node in ast.walk(ast.parse(path.read_text())):
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
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node.lineno


def test_every_file_has_a_layer():
    assert {name_of(path) for path in FILES} == LAYERS.keys()


def test_the_architecture_page_tells_the_same_floors():
    page = (CORE.parent / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| (\d+) \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE)
    floors = {name.removesuffix("/"): int(floor) for floor, names in rows for name in re.findall(r"`(\w+/?)`", names)}
    assert floors == LAYERS


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CORE)))
def test_imports_go_down(path):
    importer = name_of(path)
    for package, part in imports_of(path):
        assert package not in {"streamlit", "plotly", "app", "retrofit_app"}, f"{path.name} imports {package}"
        if package == "captum":
            assert path == CORE / "importance" / "deeplift.py"
        if package == "retrofit_core" and part != importer:
            allowed = LAYERS[part] < LAYERS[importer] or (importer, part) in INSIDE_LAYERS
            assert allowed, f"{importer} (layer {LAYERS[importer]}) imports {part} (layer {LAYERS[part]})"


def files_imported_by(path: Path) -> Iterator[Path]:
    """Files of the core that a file imports, anywhere in it; names that a package hands on count for the package's file."""
    folder = path.relative_to(CORE).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CORE)))
def test_only_the_command_line_prints(path):
    if name_of(path) in ("cli", "__main__"):
        return
    assert [line for name, line in calls_of(path) if name in ("print", "sys.stdout.write")] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CORE)))
def test_the_global_generator_is_seeded_only_in_a_fork(path):
    tree = ast.parse(path.read_text())
    forked = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.With) and any("fork_rng" in ast.unparse(item.context_expr) for item in node.items)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in ("torch.manual_seed", "torch.random.manual_seed", "torch.default_generator.manual_seed"):
                assert node in forked, f"{path.name}:{node.lineno} seeds the global generator"
            assert name not in ("torch.seed", "np.random.seed", "numpy.random.seed", "random.seed"), (
                f"{path.name}:{node.lineno}"
            )


def test_every_public_name_is_found():
    for name in retrofit_core.__all__:
        assert getattr(retrofit_core, name) is not None and name in dir(retrofit_core)
    assert {*retrofit_core._HOMES, "__version__"} == set(retrofit_core.__all__)
    assert retrofit_core.__version__ == version("retrofit-workbench")
    assert not hasattr(retrofit_core, "no_such_name")


def test_every_package_is_installed():
    """pyproject.toml takes every folder with an __init__.py; one without would be left out of a wheel."""
    root = CORE.parent
    for package in (CORE, root / "app" / "retrofit_app"):
        folders = {path.parent for path in package.rglob("*.py")}
        assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []
