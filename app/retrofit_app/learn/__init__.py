"""The live explanation of the method as one HTML file without a server. It imports none of the app's other rooms."""

import re
from functools import cache
from pathlib import Path

from retrofit_core.system import files

FOLDER = Path(__file__).parent
INCLUDE = re.compile(r"^[ \t]*<!-- include ([\w./-]+) -->[ \t]*$", re.MULTILINE)
#: Suffix of an included file -> what surrounds it.
AROUND = {
    ".js": ("<script>", "</script>"),
    ".css": ("<style>", "</style>"),
    ".json": ('<script type="application/json" id="{stem}">', "</script>"),
}


@cache
def page() -> str:
    """The whole page with everything it needs: page.html with its lines `<!-- include NAME -->` replaced by these files.

    It reads its theme from `data-theme` of its `html` element, by default the browser's. Within a frame, it reads from
    `data-state` what to show first, as its address has it after the `#`.
    """
    return INCLUDE.sub(lambda found: _included(FOLDER / found[1]), (FOLDER / "page.html").read_text(encoding="utf-8"))


def save(path: str | Path) -> None:
    """Write the page to a file, whole or not at all."""
    files.write(path, page())


def _included(path: Path) -> str:
    before, after = AROUND[path.suffix]
    text = path.read_text(encoding="utf-8").strip()
    if after in text:
        raise ValueError(f"{path.name} holds {after}, which would end it within the page.")
    return f"{before.format(stem=path.stem)}\n{text}\n{after}"
