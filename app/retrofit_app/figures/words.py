"""Numbers, networks and lists as text; foreign text, made safe for places that render Markdown."""

import re
from collections.abc import Sequence

#: Most decimals of a share near 0 or 100 %, and the distance within which it counts as that.
FINEST, EXACT = 2, 1e-9
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def number(value: float, digits: int = 1) -> str:
    """A number with a true minus sign."""
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def signed(value: float, digits: int = 1) -> str:
    """A difference with its sign; one that rounds to zero has none."""
    rounded = round(value, digits) or 0.0
    return f"{'+' if rounded > 0 else ''}{number(rounded, digits)}"


def within(ends: tuple[float, float] | None) -> str:
    """An interval after its value: " (0.4 to 5.1)"; empty if unknown."""
    return "" if ends is None else f" ({number(ends[0])} to {number(ends[1])})"


def share(value: float, digits: int = 1) -> str:
    """A number of per cent that reads 0 or 100 only if it is; near them it has more decimals, up to FINEST."""
    whole = next((end for end in (0, 100) if abs(value - end) < 10**-digits), None)
    if whole is None or abs(value - whole) < EXACT:
        return number(value, digits)
    while digits < FINEST and round(value, digits) == whole:
        digits += 1
    if round(value, digits) != whole:
        return number(value, digits)
    least = 10**-FINEST
    return f"over {number(whole - least, FINEST)}" if value < whole == 100 else f"under {number(whole + least, FINEST)}"


def percent(value: float, digits: int = 1) -> str:
    """`share` with a per-cent sign after a no-break space."""
    return f"{share(value, digits)}\N{NO-BREAK SPACE}%"


def letter(parent: int) -> str:
    """The workbench's name for a parent: A, B, ... (A again after Z)."""
    return LETTERS[parent % len(LETTERS)]


def network(parent: int) -> str:
    """A parent's name in a sentence: "network A"."""
    return f"network {letter(parent)}"


def seconds_words(seconds: float) -> str:
    """Seconds with one decimal, or three below a tenth."""
    return number(seconds, 1 if seconds >= 0.1 else 3)


def lettered(text: str) -> str:
    """A text with the library's "parent 0" replaced by "network A", and "Parent 0" by "Network A"."""
    return re.sub(r"\b([Pp])arent (\d+)", lambda found: f"{chr(ord(found[1]) - 2)}etwork {letter(int(found[2]))}", text)


def quoted(name: str) -> str:
    """A class's name on an axis, in quotes if it is not words, such as "?"."""
    return name if name.replace(" ", "").isalnum() else f"“{name}”"


def listing(words: Sequence[str]) -> str:
    """ "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else list(words))


def first_up(text: str) -> str:
    """A text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


# --- text for Markdown ----------------------------------------------------------------------------

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


def title(score: str) -> str:
    """An importance score's name on the page; for a score that the library does not know, its recorded name."""
    from retrofit_core.fusion.importance import IMPORTANCE  # takes seconds; not every page needs it

    return (IMPORTANCE[score].title or score.capitalize().replace("_", " ")) if score in IMPORTANCE else score
