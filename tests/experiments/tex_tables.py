"""Tables of settings, read off the paper's LaTeX source."""

import re


def header_and_body(text: str) -> tuple[str, list[list[str]]]:
    """Of the first outer tabular: what stands above its first \\midrule, and the cells of each row below."""
    text = re.sub(r"(?m)(?<!\\)%.*$", "", text)
    text = re.sub(
        r"\\begin\{tabular\}\[c\].*?\\end\{tabular\}", lambda inner: inner[0].replace(r"\\", " "), text, flags=re.DOTALL
    )
    text = text[text.index("\\toprule") : text.index("\\bottomrule")]
    header, _, body = text.partition("\\midrule")
    rows = re.split(r"\\\\(?:\[[^\]]*\])?", body.replace("\\midrule", " "))
    return header, [[cell.strip() for cell in row.split("&")] for row in rows if row.strip()]


def plain(cell: str) -> str:
    """What is read: no colours, no footnotes, no "(Ours)"."""
    cell = re.sub(r"\\footnotemark\[\d+\]|\\tnote\{\w\}|\(Ours\)", "", cell)
    cell = re.sub(r"\\textcolor\{\w+\}|\\(?:text(?:bf|sc|it)|math(?:bf|rm)|small|scriptsize)\b", "", cell)
    return " ".join(re.sub(r"[{}$]", "", cell).split())


def settings_after(tex: str, start: str) -> dict[str, list[str]]:
    """The first tabular behind a text: its rows by name, each cell as a Python literal would be, header included."""
    text = tex[tex.index(start) + len(start) :]
    header, rows = header_and_body(text[: text.index("\\end{tabular}")])
    titles = header.replace("\\toprule", "").replace(r"\\", "")
    return {plain(name): [literal(cell) for cell in cells] for name, *cells in [titles.split("&"), *rows]}


def literal(cell: str) -> str:
    """`$3 \\cdot 10^{-4}$` as 3e-4; words as they are."""
    power = re.fullmatch(r"\$(?:(\d+) ?\\cdot ?)?10(?:\^\{(-?\d+)\})?\$", cell.strip())
    return f"{power[1] or 1}e{power[2] or 1}" if power else plain(cell)
