"""Files of the repository outside of docs/, as pages and files of the site."""

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = (
    "LICENSE",
    "CITATION.cff",
    "benchmarks/README.md",
    *(path.relative_to(ROOT).as_posix() for path in (ROOT / "benchmarks/results").rglob("*.*")),
)
#: Files outside of docs/ that pages may link to -> where the site has them; browsers show .txt and .json, and offer others for
#: download.
TARGETS = {
    "CHANGELOG.md": "changelog.md",
    "benchmarks/results": "measured.md",
    "notebooks": "notebooks.md",
    **{f"notebooks/{path.name}": f"notebooks/{path.stem}.md" for path in (ROOT / "notebooks").glob("*.ipynb")},
    **{name: f"files/{name}{'' if name.endswith(('.json', '.csv')) else '.txt'}" for name in FILES},
}
#: Code, in which nothing is a link, or the target of a link that is no address and no anchor of its own page.
LINK = re.compile(r"^(`{3,})[^\n]*\n.*?^\1|`[^`\n]+`|(?<=\]\()(?!\w+:|#)([^)\s]+)(?=\))", re.MULTILINE | re.DOTALL)


def pages() -> dict[str, str | bytes]:
    """The changelog, the licence and the records of what was measured."""
    return {TARGETS[name]: (ROOT / name).read_bytes() for name in ("CHANGELOG.md", *FILES)}


def rewritten(markdown: str, page: str) -> str:
    """A page's text, its links out of docs/ led to the site's copies; links that stay within are left alone.

    Args:
        page: its path on the site, such as "methods/average.md".
    Raises:
        ValueError: a link to a file that the site does not have.
    """
    return LINK.sub(lambda found: _target(found[2], page) if found[2] else found[0], markdown)


def _target(link: str, page: str) -> str:
    path, hash_, anchor = link.partition("#")
    source = posixpath.normpath(posixpath.join(_home(page), path))
    if source.startswith("docs/"):
        if _home(page).startswith("docs"):
            return link
        target = source.removeprefix("docs/")
    elif source in TARGETS:
        target = TARGETS[source]
    else:
        raise ValueError(f"{page} links to {link}, which the site does not have. Add it to docs/site/links.py.")
    return posixpath.relpath(target, posixpath.dirname(page) or ".") + hash_ + anchor


def _home(page: str) -> str:
    """The folder from which a page names its links."""
    if page == TARGETS["CHANGELOG.md"]:
        return "."
    folder = posixpath.dirname(page)
    return folder if folder == "notebooks" else posixpath.join("docs", folder).rstrip("/")
