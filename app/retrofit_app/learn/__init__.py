"""The explanation of the method, live in a browser: one file, without a server. It imports none of the app's other rooms."""

import html
import re
from functools import cache
from pathlib import Path

from retrofit_core.system import files

FOLDER = Path(__file__).parent
INCLUDE = re.compile(r"^[ \t]*<!-- include ([\w./-]+) -->[ \t]*$", re.MULTILINE)
#: What stands around an included file, by the end of its name.
AROUND = {
    ".js": ("<script>", "</script>"),
    ".css": ("<style>", "</style>"),
    ".json": ('<script type="application/json" id="{stem}">', "</script>"),
}


def page(theme: str = "", state: str = "") -> str:
    """The whole page, with everything that it needs.

    Args:
        theme: "light" or "dark"; empty: the browser's. The page finds it in `data-theme` of its `html` element.
        state: what the page shows first, as its address says it after the `#`; it finds it in `data-state`.
    """
    told = [f'{name}="{html.escape(text)}"' for name, text in (("data-theme", theme), ("data-state", state)) if text]
    return _assembled().replace("<html", " ".join(["<html", *told]), 1)


def save(path: str | Path) -> None:
    """Write the page to a file, whole or not at all."""
    files.write(path, page())


@cache
def _assembled() -> str:
    """page.html, its lines `<!-- include NAME -->` replaced by the files beside it."""
    return INCLUDE.sub(lambda found: _included(FOLDER / found[1]), (FOLDER / "page.html").read_text(encoding="utf-8"))


def _included(path: Path) -> str:
    before, after = AROUND[path.suffix]
    text = path.read_text(encoding="utf-8").strip()
    if after in text:
        raise ValueError(f"{path.name} holds {after}, which would end it within the page.")
    return f"{before.format(stem=path.stem)}\n{text}\n{after}"
