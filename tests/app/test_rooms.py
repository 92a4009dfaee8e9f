"""What the rooms of the workbench may import, read from their files."""

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from retrofit_app import runs

APP = runs.BUNDLED.parent
FILES = sorted(APP.rglob("*.py"))
#: Room -> the rooms that it may import; docs/architecture.md has the same table.
ROOMS = {
    "figures": set(),
    "runs": {"figures"},
    "address": {"figures"},
    "learn": set(),
    "share": {"figures", "runs", "shell", "widgets"},
    "models": {"figures", "runs"},
    "widgets": {"figures", "runs", "address", "models"},
    "shell": {"figures", "runs", "address", "widgets", "pages"},
    "pages": {"figures", "runs", "address", "models", "widgets", "shell", "bundle", "learn", "share"},
    "bundle": {"runs"},
}
WITHOUT_STREAMLIT = (
    "figures",
    "runs",
    "learn",
    "shell/style.py",
    "address/rule.py",
    "address/readers.py",
)


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def name_of(path: Path) -> str:
    return str(path.relative_to(APP))


def room_of(path: Path) -> str:
    return path.relative_to(APP).parts[0].removesuffix(".py")


def imports_of(path: Path, nodes: Iterable[ast.AST] = ()) -> Iterator[tuple[str, ...]]:
    """The parts of every imported name, relative ones resolved: ("retrofit_app", "runs", "methods")."""
    for node in nodes or ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ["retrofit_app", *path.relative_to(APP).parts[:-1]]
            module = (node.module or "").split(".") if node.module else []
            parts = base[: len(base) - node.level + 1] + module if node.level else module
            yield from ((*parts, alias.name) for alias in node.names)


def test_rooms_import_what_they_may():
    for path in FILES:
        room, parts = room_of(path), path.relative_to(APP).parts
        for imported in imports_of(path):
            if imported[0] != "retrofit_app" or imported[1] == room != "pages":
                continue
            if imported[1] == "pages" and room == "pages":
                assert len(parts) > 2 and imported[2] == parts[1], f"{name_of(path)} imports the page {imported[2]}"
            else:
                assert imported[1] in ROOMS[room], f"{name_of(path)} imports {imported[1]}"
                assert imported[1] != "pages" or imported[2] == "PAGES", f"{name_of(path)} knows a page's inside"


@pytest.mark.slow
def test_what_needs_no_page_imports_no_streamlit():
    for path in FILES:
        if name_of(path).startswith(WITHOUT_STREAMLIT):
            assert "streamlit" not in {imported[0] for imported in imports_of(path)}, path


@pytest.mark.slow
def test_torch_is_imported_in_functions_only():
    for path in FILES:
        if path.name in ("bundle.py", "train.py"):  # programs of their own
            continue
        functions = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef)]
        inside = {id(node) for function in functions for node in ast.walk(function)}
        outside = [node for node in ast.walk(tree_of(path)) if id(node) not in inside]
        assert not {"torch", "torchvision"} & {parts[0] for parts in imports_of(path, outside)}, path


def test_the_address_is_touched_by_its_room_and_the_shell_only():
    for path in FILES:
        used = {node.attr for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute)}
        assert room_of(path) in ("address", "shell") or "query_params" not in used, path


def test_the_architecture_page_has_the_same_table():
    page = (APP.parents[1] / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \|([^|]*)\|$", page, re.MULTILINE)
    assert {room: set(re.findall(r"`(\w+)`", names)) for room, names in rows if room in ROOMS} == ROOMS
