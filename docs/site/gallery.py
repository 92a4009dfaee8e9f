"""The executed notebooks as pages: text, code and outputs as they are stored; nothing is run."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
#: Kinds of an output, the best first: Plotly figures have a picture beside them, which needs no script.
KINDS = ("text/markdown", "image/svg+xml", "image/png", "text/html", "text/plain")
COLOURS_OF_A_TERMINAL = re.compile(r"\x1b\[[0-9;]*m")
EMPTY_LINES = re.compile(r"\n\s*\n")


def navigation() -> list[Any]:
    """The gallery, and a page for each notebook."""
    return ["notebooks.md", *({_title(path): f"notebooks/{path.stem}.md"} for path in _notebooks())]


def pages() -> dict[str, str | bytes]:
    """Path -> Markdown, or the bytes of a picture."""
    made: dict[str, str | bytes] = {}
    for path in _notebooks():
        pictures: dict[str, bytes] = {}
        text = "\n\n".join(_cells(json.loads(path.read_text()), path.stem, pictures))
        made[f"notebooks/{path.stem}.md"] = text
        made |= {f"notebooks/{name}": content for name, content in pictures.items()}
    return made


def _notebooks() -> list[Path]:
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


def _title(path: Path) -> str:
    """The number and first heading of a notebook."""
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "markdown" and (found := re.match(r"#\s+(.+)", "".join(cell["source"]))):
            return f"{path.stem.partition('_')[0]} {found[1].strip()}"
    return path.stem


def _cells(notebook: dict[str, Any], name: str, pictures: dict[str, bytes]) -> Iterator[str]:
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield source
        elif cell["cell_type"] == "code" and source.strip():
            yield f"````python\n{source}\n````"
            for output in cell["outputs"]:
                yield from _output(output, name, pictures)


def _output(output: dict[str, Any], name: str, pictures: dict[str, bytes]) -> Iterator[str]:
    data = {"text/plain": output["text"]} if output["output_type"] == "stream" else output.get("data", {})
    kind = next((kind for kind in KINDS if kind in data), None)
    if kind is None:
        return
    content = "".join(data[kind])
    if kind == "text/markdown":
        yield content
    elif kind == "image/png":
        picture = f"{name}_{len(pictures)}.png"
        pictures[picture] = base64.b64decode(content)
        yield f'<div class="output"><img src="{picture}" alt="Output of the cell above" loading="lazy"></div>'
    elif kind == "text/plain":
        yield f"````text\n{COLOURS_OF_A_TERMINAL.sub('', content).rstrip()}\n````"
    else:  # no blank lines, for one would end the block; tables of pandas look like all others
        table = re.sub(r'<table [^>]*class="dataframe"[^>]*>', "<table>", content)
        yield f'<div class="output">{EMPTY_LINES.sub(chr(10), table)}</div>'
