"""The style sheet's parts."""

import re
from functools import cache
from pathlib import Path

SHEET = Path(__file__).with_name("style.css")


@cache
def stylesheet(part: str) -> str:
    """A part of style.css as a style element.

    Raises:
        KeyError: there is no such part.
    """
    texts = re.split(r"/\* == (\w+) == \*/", SHEET.read_text())
    rules = dict(zip(texts[1::2], texts[2::2], strict=True))[part]
    return f"<style>{re.sub(r'/[*].*?[*]/', '', rules, flags=re.DOTALL).strip()}</style>"
