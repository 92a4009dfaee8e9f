"""Tables of Markdown, and the records that they show."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from retrofit_core.system.settings import Setting

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"


@cache
def record(name: str) -> Any:
    """A record of benchmarks/results; None where there is none."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def option_grid(settings: Mapping[str, Setting]) -> str:
    """Each option with its default, what it takes, and what it is."""
    if not settings:
        return "No options."
    rows = [
        (f"`{name}`", f"`{_plain(entry.default)}`", escaped(entry.description), escaped(entry.help))
        for name, entry in settings.items()
    ]
    return grid(["option", "default", "takes", "what it is"], rows)


def _plain(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def escaped(text: str) -> str:
    """Text in which nothing is markup, not even of a table."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
