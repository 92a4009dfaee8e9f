"""What was measured, where and how: a page from the records in benchmarks/results, by the functions of README's tables."""

import ast
import json
import sys
from pathlib import Path

from grids import RESULTS, ROOT, grid, record

BENCHMARKS = ROOT / "benchmarks"
sys.path.append(str(BENCHMARKS))

import tables  # noqa: E402 - benchmarks are scripts, not a package

#: Record, by the beginning of its name -> the script that writes it, and its table on this page; others have no table.
RECORDS: dict[str, tuple[str, str]] = {
    "accuracy-": ("accuracy.py", "accuracy"),
    "methods": ("methods.py", "every-method"),
    "leaderboard-": ("", "leaderboard"),
    "speed": ("speed.py", "time"),
    "side-by-side": ("speed.py", ""),
    "training": ("training.py", "training"),
    "memory": ("memory.py", "memory"),
    "landscape-": ("landscape.py", ""),
    "experiments": ("", ""),
}
#: Records that commands write, not scripts.
COMMANDS = {
    "leaderboard-": "One call of `retrofit compare` on the VGG pair, method by method and class by class.",
    "experiments": "Every measured cell of the paper's tables, a file for each table, with settings and digests of what went "
    "in: `retrofit report --bundle`. [What it shows](findings.md); [how it is measured](experiments.md).",
    "side-by-side": "HF-Linear and KF-Linear before and after the core's second build, on one idle machine.",
}
PAIRS = ("cifar10-vgg11-noniid2", "cifar10-vgg11half-sharded2", "mnist-mlp-noniid2")


def pages() -> dict[str, str]:
    """The one page."""
    named = {"Every method": "methods", "Time": "speed", "Training": "training", "Memory": "memory"}
    pairs = [[record(f"accuracy-{pair}-{fit}") for fit in ("linear", "gradient")] for pair in PAIRS]
    lines = [
        "# What is measured, and where",
        "Each number of this site comes from one of these records, which hold the machine's facts beside it. Nothing was "
        "measured on CUDA yet: [how it will be](files/benchmarks/README.md.txt).",
        grid(["record", "what", "measured on", "measured by"], map(_row, sorted(RESULTS.iterdir()))),
        "The last column names files of `benchmarks`; `python benchmarks/tables.py` prints the tables below.",
        "## Accuracy",
        *(tables.accuracy([facts for facts in records if facts]) for records in pairs),
        *(f"## {title}\n\n{getattr(tables, name)(record(name))}" for title, name in named.items()),
    ]
    return {"measured.md": "\n\n".join(lines)}


def _row(path: Path) -> tuple[str, str, str, str]:
    """A record's line: its name, what it is, its machine, and what measures it again; without a line in RECORDS, the script of
    the same name says it."""
    beginning = next((beginning for beginning in RECORDS if path.name.startswith(beginning)), path.stem)
    script, anchor = RECORDS.get(beginning, (f"{path.stem}.py", ""))
    exists = bool(script) and (BENCHMARKS / script).exists()
    what = COMMANDS.get(beginning) or (_first_sentence(BENCHMARKS / script) if exists else "")
    shown = f" [Table](#{anchor})." if anchor and anchor != "leaderboard" else ""
    again = f"`{script}`" if exists and beginning != "side-by-side" else ""
    return _links(path), f"{what}{shown}", _machine(path), again


def _links(path: Path) -> str:
    """A record's name, or those of a folder's files."""
    if path.is_dir():
        files = (f"[{file.stem}](files/benchmarks/results/{path.name}/{file.name})" for file in sorted(path.iterdir()))
        return f"{path.name}: {', '.join(files)}"
    return f"[{path.name}](files/benchmarks/results/{path.name})"


def _first_sentence(script: Path) -> str:
    first = (ast.get_docstring(ast.parse(script.read_text())) or "").split("\n\n")[0].replace("\n", " ")
    return first if first.endswith(".") else f"{first}."


def _machine(path: Path) -> str:
    content = json.loads(path.read_text()) if path.suffix == ".json" else {}
    facts = content.get("machine", {}) if isinstance(content, dict) else {}
    return ", ".join(str(facts[name]) for name in ("processor", "date") if facts.get(name))
