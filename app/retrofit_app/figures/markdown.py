"""Text that is not ours, for places that render Markdown."""

import re

#: What Markdown, formulas and Streamlit's directives begin with, wherever it stands.
SIGNS = re.compile(r"([\\`*_\[\]<$~&])")
#: What makes a heading, a quotation or a list at the beginning of a line.
BEGINNING = re.compile(r"^([#>=+-]|\d+(?=[.)](?:\s|$)))")
#: Between these, addresses become links, and names between colons icons, even where a backslash stands before them.
JOINTS = re.compile(r"(?<=:)(?=[/\w+-])|(?<=\bwww)(?=\.)|(?<=@)(?=\w)", re.IGNORECASE)
#: Lines and indents would begin blocks; what keeps a number and its sign together stays.
SPACES = re.compile(r"[^\S\N{NO-BREAK SPACE}]+")
JOINER = "\N{WORD JOINER}"


def escaped(text: object) -> str:
    """A text as Markdown that shows exactly this text, in one line: no picture, link, formula, icon or heading.

    For names of files, levels, classes, methods and runs, for what the address says, and for errors that quote them: a
    browser that renders a picture out of them would contact its host.
    """
    line = JOINTS.sub(JOINER, SIGNS.sub(r"\\\1", SPACES.sub(" ", str(text)).strip(" ")))
    return BEGINNING.sub(_harmless, line)


def plain_text(markdown: str) -> str:
    """What one sees of bold and `escaped` text."""
    return re.sub(r"\\(.)|\*", lambda match: match.group(1) or "", markdown).replace(JOINER, "").strip()


def _harmless(beginning: re.Match[str]) -> str:
    sign = beginning.group()
    return sign + JOINER if sign.isdigit() else f"\\{sign}"
