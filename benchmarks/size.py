"""How large the project is, and how much of it one fusion executes, beside the ceilings of `ceilings.json`.

    python benchmarks/size.py                      prints the table
    python benchmarks/size.py --check              and fails if a number is above its ceiling

The commit that makes something smaller lowers its ceiling; nothing raises one.
Tokens are those of `tokenize` in Python files, without comments, docstrings and line ends. Words are those of `docs/**/*.md`
(without README and CHANGELOG). The fusion is KF-Linear of two small CNNs, on 64 random samples; a class counts if it runs a
method of its own other than `__init__` and its like.
"""

import argparse
import ast
import io
import json
import sys
import tokenize
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
CORE, APP = ROOT / "retrofit_core", ROOT / "app"
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def texts(folder: Path, *endings: str) -> list[str]:
    """Contents of a folder's files with these endings."""
    return [path.read_text() for path in folder.rglob("*") if path.suffix in endings]


def tokens(sources: Iterable[str]) -> int:
    """Tokens of Python code without comments, docstrings and line ends."""
    count = 0
    for source in sources:
        strings = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr))
        docstrings = {one.lineno for one in strings if isinstance(one, ast.Constant) and isinstance(one.value, str)}
        count += sum(
            token.type not in SILENT and not (token.type == tokenize.STRING and token.start[0] in docstrings)
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
        )
    return count


def lines(sources: Iterable[str]) -> int:
    """All lines, empty ones and comments too."""
    return sum(len(source.splitlines()) for source in sources)


def executed() -> tuple[int, int, int]:
    """Functions, files and classes of the core that one closed-form fusion of two CNNs executes."""
    sys.path[:0] = [str(ROOT), str(APP)]  # this checkout, whichever is installed
    import torch
    from torch import nn

    from retrofit_core import METHODS

    networks = []
    for seed in range(2):
        torch.manual_seed(seed)
        features = [
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
        networks.append(nn.Sequential(*features, nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)))
    data = torch.randn(64, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 10
    codes = set()

    def watch(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(CORE)) and not code.co_name.startswith("<"):
            codes.add(code)

    METHODS["KF-Linear"](networks, data)  # what is imported late is imported now
    sys.setprofile(watch)
    try:
        METHODS["KF-Linear"](networks, data)
    finally:
        sys.setprofile(None)
    methods = [code.co_qualname.split(".") for code in codes if "<locals>" not in code.co_qualname]
    classes = {name[0] for name in methods if len(name) > 1 and not name[1].startswith("__")}
    return len(codes), len({code.co_filename for code in codes}), len(classes)


def sizes() -> dict[str, int]:
    """The numbers that have a ceiling."""
    product = texts(CORE, ".py") + texts(APP, ".py", ".js", ".css")
    functions, files, classes = executed()
    return {
        "core tokens": tokens(texts(CORE, ".py")),
        "app tokens": tokens(texts(APP, ".py")),
        "product lines": lines(product),
        "tests tokens": tokens(texts(ROOT / "tests", ".py")),
        "benchmarks lines": lines(texts(ROOT / "benchmarks", ".py")),
        "docs words": sum(len(text.split()) for text in texts(ROOT / "docs", ".md")),
        "functions that one fusion executes": functions,
        "files that they are in": files,
        "classes with such a method": classes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if a number is above its ceiling")
    check = parser.parse_args().check
    ceilings = json.loads((Path(__file__).parent / "ceilings.json").read_text())
    above = []
    print("     today    ceiling")
    for name, size in sizes().items():
        above += [name] * (size > ceilings[name])
        print(f"{size:>10,} {ceilings[name]:>10,}  {name}{' (too many)' if size > ceilings[name] else ''}")
    if check and above:
        sys.exit(f"Above the ceiling: {', '.join(above)}. Give something up; a ceiling is never raised.")


if __name__ == "__main__":
    main()
