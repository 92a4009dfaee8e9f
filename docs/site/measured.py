"""What was measured, where and how: a page that lists the records in benchmarks/results."""

import ast
import json
from pathlib import Path

from grids import RESULTS, ROOT, grid

BENCHMARKS = ROOT / "benchmarks"
#: Record, by the beginning of its name -> the script that writes it, and the section of measurements.md that shows it, if any.
RECORDS: dict[str, tuple[str, str]] = {
    "accuracy-": ("accuracy.py", "accuracy"),
    "methods": ("methods.py", "every-method-on-one-pair"),
    "resnets": ("resnets.py", "two-equal-resnets"),
    "ancestors": ("ancestors.py", "parents-with-a-common-ancestor"),
    "leaderboard-": ("", ""),
    "speed": ("speed.py", "time"),
    "side-by-side": ("speed.py", ""),
    "training": ("training.py", "training-time"),
    "memory": ("memory.py", "memory"),
    "landscape-": ("landscape.py", "the-loss-landscape"),
    "experiments": ("", ""),
    "gpu-": ("gpu.py", "on-a-gpu"),
}
#: Records that commands write, not scripts.
COMMANDS = {
    "leaderboard-": "One call of `retrofit compare` on the VGG pair, method by method and class by class.",
    "experiments": "Every measured cell of the paper's tables, a file for each table, with settings and digests of what went "
    "in: `retrofit report --bundle`. [What it shows](findings.md); [how it is measured](experiments.md).",
    "side-by-side": "HF-Linear and KF-Linear before and after the core's second build, on one idle machine.",
}


def pages() -> dict[str, str]:
    """The one page."""
    lines = [
        "# All records",
        "Each number of this site comes from one of these records, which also hold the facts of the machine. "
        "[How to measure on a GPU](files/benchmarks/README.md.txt).",
        grid(["record", "what", "measured on", "measured by"], map(_row, sorted(RESULTS.iterdir()))),
        "The last column names files of `benchmarks`.",
    ]
    return {"measured.md": "\n\n".join(lines)}


def _row(path: Path) -> tuple[str, str, str, str]:
    """A record's line: its name, what it is, its machine, and what measures it again; without a line in RECORDS, the script of
    the same name says it."""
    beginning = next((beginning for beginning in RECORDS if path.name.startswith(beginning)), path.stem)
    script, anchor = RECORDS.get(beginning, (f"{path.stem}.py", ""))
    exists = bool(script) and (BENCHMARKS / script).exists()
    what = COMMANDS.get(beginning) or (_first_sentence(BENCHMARKS / script) if exists else "")
    shown = f" [Table](measurements.md#{anchor})." if anchor else ""
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
    return ", ".join(str(facts[name]) for name in ("gpu", "processor", "date") if facts.get(name))
