"""How large the project is, and how much of it one fusion executes.

    python benchmarks/size.py                      prints the table, with what the record says of earlier commits
    python benchmarks/size.py --keep               and adds this commit to results/size.json

Tokens are those of `tokenize` in Python files, without comments, docstrings, and line ends. Lines are all lines of files in git.
The fusion is KF-Linear of two MLPs with two hidden layers, on 64 random samples.
"""

import argparse
import ast
import io
import subprocess
import sys
import tokenize
from pathlib import Path

import machine

ROOT = Path(__file__).parent.parent
#: Rooms, and the endings of the files that count as theirs.
ROOMS = {
    "retrofit_core": (".py",),
    "app": (".py", ".js", ".css"),
    "tests": (".py",),
    "benchmarks": (".py",),
    "notebooks": (".py",),
    "docs": (".py", ".md"),
}
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def files(room: str) -> list[Path]:
    """The room's files that git knows."""
    names = subprocess.run(["git", "ls-files", room], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.split("\n") if name.endswith(ROOMS[room]) and (ROOT / name).exists()]


def docstring_lines(source: str) -> set[int]:
    """The lines on which strings that stand as statements begin."""
    return {
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }


def tokens(source: str) -> int:
    """Tokens of Python code without comments, docstrings, and line ends."""
    described = docstring_lines(source)
    return sum(
        token.type not in SILENT and not (token.type == tokenize.STRING and token.start[0] in described)
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
    )


def executed() -> tuple[int, int]:
    """Functions and files of the core that one closed-form fusion of two MLPs executes."""
    import torch
    from torch import nn

    from retrofit_core import METHODS

    networks = []
    for seed in range(2):
        torch.manual_seed(seed)
        networks.append(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3)))
    data = torch.randn(64, 8, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 3
    core, seen = str(ROOT / "retrofit_core"), set()

    def watch(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(core) and not frame.f_code.co_name.startswith("<"):
            seen.add(frame.f_code)

    METHODS["KF-Linear"](networks, data)  # what is imported late is imported now
    sys.setprofile(watch)
    try:
        METHODS["KF-Linear"](networks, data)
    finally:
        sys.setprofile(None)
    return len(seen), len({code.co_filename for code in seen})


def measured() -> dict[str, int]:
    """The rows of the table."""
    lines = {room: sum(len(path.read_text().splitlines()) for path in files(room)) for room in ROOMS}
    functions, opened = executed()
    return {
        "tokens of the core": sum(tokens(path.read_text()) for path in files("retrofit_core")),
        "lines of the product (core and app)": lines["retrofit_core"] + lines["app"],
        **{f"lines of {room}": count for room, count in lines.items()},
        "functions that one fusion executes": functions,
        "files that they are in": opened,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="add this commit to the record")
    arguments = parser.parse_args()
    kept = {commit: rows for commit, rows in machine.read("size").items() if commit != "machine"}
    commits = {**kept, (machine.commit() or "now"): measured()}
    print(" ".join(f"{commit:>14}" for commit in ("", *commits)))
    for name in next(reversed(commits.values())):
        print(" ".join(f"{rows.get(name, 0):>14,}" for rows in commits.values()), name)
    if arguments.keep:
        machine.write("size", commits)


if __name__ == "__main__":
    main()
