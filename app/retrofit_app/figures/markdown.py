"""Foreign text, made safe for places that render Markdown."""

import re

#: What starts Markdown, formulas and Streamlit's directives anywhere in a text.
SIGNS = re.compile(r"([\\`*_\[\]<$~&])")
#: What starts a heading, a quotation or a list at the beginning of a line.
BEGINNING = re.compile(r"^([#>=+-]|\d+(?=[.)](?:\s|$)))")
#: Here addresses become links, and names between colons icons, even after a backslash.
JOINTS = re.compile(r"(?<=:)(?=[/\w+-])|(?<=\bwww)(?=\.)|(?<=@)(?=\w)", re.IGNORECASE)
#: Line breaks and indents would start blocks; no-break spaces stay.
SPACES = re.compile(r"[^\S\N{NO-BREAK SPACE}]+")
JOINER = "\N{WORD JOINER}"


def escaped(text: object) -> str:
    """Markdown that shows exactly this text, in one line: no picture, link, formula, icon or heading.

    For names of files, levels, classes, methods and runs, for addresses, and for errors that quote them: a browser that
    rendered a picture from them would contact its host.
    """
    line = JOINTS.sub(JOINER, SIGNS.sub(r"\\\1", SPACES.sub(" ", str(text)).strip(" ")))
    return BEGINNING.sub(_harmless, line)


def claimed(finding: str) -> str:
    """A finding, `escaped`, with its claim in bold: up to the first semicolon or full stop."""
    claim = re.split(r"; |\.(?: |$)", finding, maxsplit=1)[0]
    return f"**{escaped(claim)}**{escaped(finding[len(claim) :])}" if claim else ""


def plain_text(markdown: str) -> str:
    """Bold and `escaped` text as it appears."""
    return re.sub(r"\\(.)|\*", lambda match: match.group(1) or "", markdown).replace(JOINER, "").strip()


def _harmless(beginning: re.Match[str]) -> str:
    sign = beginning.group()
    return sign + JOINER if sign.isdigit() else f"\\{sign}"
