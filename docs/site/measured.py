"""What was measured, where and how: a page that lists the records in benchmarks/results."""

import ast
import json
from pathlib import Path

from grids import RESULTS, ROOT, grid

BENCHMARKS = ROOT / "benchmarks"
#: Record, by the beginning of its name -> the script that writes it, and the section that shows it, if any.
RECORDS: dict[str, tuple[str, str]] = {
    "accuracy-": ("accuracy.py", "measurements.md#accuracy"),
    "ancestors": ("", "which_method.md#2-were-the-parents-trained-from-the-same-starting-weights"),
    "block-priors": ("", "findings_beyond.md#a-prior-inside-of-blocks"),
    "experiments": ("", "findings.md"),
    "few-samples": ("", "defaults.md#few-samples"),
    "gpu-": ("gpu.py", "measurements.md#on-a-gpu"),
    "methods": ("methods.py", "measurements.md#every-method-on-one-pair"),
    "resnets": ("", "which_method.md#6-are-the-networks-residual-or-transformers"),
    "speed": ("speed.py", "measurements.md#time"),
    "text-classifiers": ("", "findings_beyond.md#text-classifiers"),
    "transformers": ("breadth_transformers.py", "breadth.md#transformers-one-small-network-of-each-class"),
}
#: Records of studies that ran once, and of commands.
ONCE = {
    "ancestors": "Merges of parents with a common ancestor.",
    "auto": "Auto beside the best parent, KF-Linear and the ensemble.",
    "block-priors": "The ridge towards zero, the parents' weights, and their average after REPAIR, in networks with blocks.",
    "depth": "Where grouping and importance matter: pairs of VGG11s, fused one way in the first levels, another way after.",
    "experiments": "Every measured cell of the paper's tables, a CSV file for each table. [How it is measured](experiments.md).",
    "explanations": "Two explanations of results that contradict the paper, tested.",
    "few-samples": "The ridge towards zero and towards the parents' weights, from 50, 100 and 400 samples.",
    "frontier": "Accuracy over the images and the processor seconds that a fusion gets.",
    "heads": "Options of the last level.",
    "landscape-": "The plane through two VGG11s of 200 epochs and their fusion.",
    "recipes": "The paper's training of the parents with one change at a time.",
    "resnets": "HF-Linear beside KF-Linear on two equal ResNets.",
    "text-classifiers": "KF-Linear, its options, Auto and the ensemble on six pairs of text classifiers.",
    "text": "Two language models of letters, which notebook 60 trains and fuses.",
}


def pages() -> dict[str, str]:
    """The one page."""
    lines = [
        "# All records",
        "Each number of this site comes from one of these records, which also hold the facts of the machine.",
        grid(["record", "what", "measured on", "measured by"], map(_row, sorted(RESULTS.iterdir()))),
        "The last column names files of `benchmarks`.",
    ]
    return {"measured.md": "\n\n".join(lines)}


def _row(path: Path) -> tuple[str, str, str, str]:
    """A record's line: its name, what it is, its machine, and what measures it again."""
    beginning = next((name for name in (*RECORDS, *ONCE) if path.name.startswith(name)), path.stem)
    script, page = RECORDS.get(beginning, (f"{path.stem}.py", ""))
    exists = bool(script) and (BENCHMARKS / script).exists()
    what = ONCE.get(beginning) or (_first_sentence(BENCHMARKS / script) if exists else "")
    table = f" [Table]({page})." if page else ""
    return _links(path), f"{what}{table}", _machine(path), f"`{script}`" if exists else ""


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
