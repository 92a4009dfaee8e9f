"""Tables read off the paper's LaTeX source; it knows nothing of paper.csv."""

import re

Number = tuple[float, float | None]
NUMBER = re.compile(r"(\d+(?:\.\d+)?)(?:[^\d±]*±\s*(\d+(?:\.\d+)?))?")
#: Gains such as {\small\textcolor{darkgreen}{+1.8}}
GAIN = re.compile(r"\{\\small\\textcolor\{dark(?:green|red)\}\{([+-][\d.]+)\}\}")


def environment(tex: str, label: str) -> str:
    """The table or figure that bears a label."""
    for _, text in re.findall(r"\\begin\{((?:table|figure)\*?)\}(.*?)\\end\{\1\}", tex, re.DOTALL):
        if f"\\label{{{label}}}" in text:
            return text
    raise LookupError(label)


def caption(text: str) -> str:
    """Of an environment; it ends where its braces close."""
    start = text.index("\\caption{") + len("\\caption{")
    depth = 1
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if not depth:
            return text[start:end]
    raise LookupError("caption without an end")


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


def numbers(cell: str) -> list[Number]:
    """Every number of a cell, with the deviation behind it; gains left out."""
    cell = re.sub(r"\\begin\{tabular\}\[c\]\{.*?l@\{\}\}", "", GAIN.sub("", cell)).replace("\\pm", "±")
    return [(float(mean), float(deviation) if deviation else None) for mean, deviation in NUMBER.findall(cell)]


def named_rows(tex: str, label: str, names: int = 1) -> list[tuple[str, list[list[Number]]]]:
    """(name, numbers of each cell) by row; the first `names` columns are the name."""
    _, rows = header_and_body(environment(tex, label))
    return [(", ".join(map(plain, row[:names])), [numbers(cell) for cell in row[names:]]) for row in rows]


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
