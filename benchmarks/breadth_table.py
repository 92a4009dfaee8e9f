"""docs/breadth.md, written from the record of breadth.py."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from machine import read

PAGE = Path(__file__).parent.parent / "docs" / "breadth.md"
HEAD = """# Which networks can be fused

`python benchmarks/breadth.py` writes this page; the record is `benchmarks/results/breadth.json`. The networks have random
weights, small images and five classes. A twin is the same network with its neurons in another order. Fused with its twin, a
network must come out unchanged, to 1e-6 of its outputs on the images that it was fused on; the number in brackets is the
difference. This is in double precision, the closed form with `ridge=0.0`. With the default ridge, and on images that the fusion
did not see, the closed form loses more: [why, and what to do](defaults.md#a-network-and-its-own-permuted-copy). A network without
a number passed the checks that every fusion begins with, one of which reorders the neurons and compares the outputs.

- **levels**: places where one tensor is alive; HF-Gradient and KF-Gradient fuse level by level. *In part*: modules whose
  code cannot be followed are taken whole.
- **aligned**: groups of neurons whose order is free, for Git Re-Basin (which fused the twins), OTFusion and ZipIt (which accept
  them). The groups of a grouped convolution are reordered as a whole.
- **closed form**: HF-Linear and KF-Linear: levels behind every layer, inside blocks, or one after the other (*chain*).
"""
#: Of the outputs, by which a fused twin may differ.
TOLERANCE = 1e-6
#: Classifiers of torchvision 0.29.
TORCHVISION = 80
LIBRARIES = {
    "torchvision": "torchvision: every classifier of `torchvision.models`",
    "timm": "timm: one small network of each family",
}


def table(content: dict[str, Any]) -> None:
    """Write the page."""
    PAGE.write_text("\n".join(lines(content)) + "\n")


def lines(content: dict[str, Any]) -> Iterator[str]:
    """The page, line by line."""
    yield HEAD
    facts = content["machine"]
    yield f"Last measured on {facts['date']}, commit {facts['commit']}; later versions may accept more."
    yield ""
    for library, title in LIBRARIES.items():
        rows = content.get(library, [])
        if rows:
            yield f"## {title}"
            yield ""
            yield counts(rows) + unmeasured(library, rows)
            yield ""
            yield "| network | million weights | image | levels | aligned | closed form |"
            yield "| --- | --- | --- | --- | --- | --- |"
            yield from map(line, rows)
            yield ""
            yield from reasons(rows)
    yield from of_transformers(read("transformers")["transformers"])


def of_transformers(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The section of the networks of transformers, from the record of breadth_transformers.py."""
    methods = list(rows[0]["fused"])
    exact = sum(all(isinstance(value, float) and value <= TOLERANCE for value in row["fused"].values()) for row in rows)
    yield "## transformers: one small network of each class"
    yield ""
    yield (
        f"`python benchmarks/breadth_transformers.py` writes this section. Fused with their twins, {exact} of {len(rows)} "
        "networks come out unchanged by all four methods, on inputs that the fusion did not see. They have two blocks, texts "
        "twelve tokens; language models give logits for each token, T5 reads the text again, and CLIP compares images with two "
        "constant texts. What is 2e-7 rounds inside: its RMSNorm computes in single precision."
    )
    yield ""
    yield f"| network | {' | '.join(methods)} |"
    yield f"| --- |{' --- |' * len(methods)}"
    for row in rows:
        values = [f"{value:.0e}" if isinstance(value, float) else f"no: {value}" for value in row["fused"].values()]
        yield f"| {row['name']} | {' | '.join(values)} |"


def counts(rows: list[dict[str, Any]]) -> str:
    """How many are cut, aligned and fused in closed form."""
    tried = [row for row in rows if "untried" not in row]
    cut, aligned, closed = (
        sum(succeeds(row.get(question)) for row in tried) for question in ("levels_of", "aligned", "closed_form")
    )
    twins = [[row for row in rows if "twin" in row.get(question, {})] for question in ("aligned", "closed_form")]
    return (
        f"Of {len(tried)} networks {cut} are cut into levels, {aligned} aligned, {closed} accepted in closed form. "
        f"Twins were fused with {len(twins[0])} by Git Re-Basin, with {len(twins[1])} in closed form."
    )


def unmeasured(library: str, rows: list[dict[str, Any]]) -> str:
    """How many of torchvision's classifiers were not tried, and how many the record lacks."""
    untried = sum("untried" in row for row in rows)
    missing = TORCHVISION - len(rows) if library == "torchvision" else 0
    words = f" Not tried for their size: {untried}." if untried else ""
    return words + (f" {missing} more are not measured yet." if missing > 0 else "")


def succeeds(facts: dict[str, Any] | None) -> bool:
    """Whether a question was answered with yes."""
    return facts is not None and "reason" not in facts


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    if "untried" in row:
        return f"| {row['name']} | {row['parameters'] / 1e6:.1f} | | not tried | | |"
    if "error" in row:
        return f"| {row['name']} | | | does not run: {row['error']} | | |"
    levels, aligned, closed = (row[question] for question in ("levels_of", "aligned", "closed_form"))
    cells = [
        row["name"],
        f"{row['parameters'] / 1e6:.1f}",
        str(row["size"]),
        f"{levels['levels']}{', in part' if levels['whole'] else ''}" if succeeds(levels) else "no",
        f"{aligned['groups']} groups{found(aligned)}" if succeeds(aligned) else "no",
        f"{closed['levels']}{', inside of blocks' if closed['inside'] else ', chain'}{found(closed)}"
        if succeeds(closed)
        else "no",
    ]
    return f"| {' | '.join(cells)} |"


def found(facts: dict[str, Any]) -> str:
    """How well the twin was found again."""
    return f" ({facts['twin']:.0e})" if "twin" in facts else ""


def reasons(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Why not, the networks of one reason together."""
    for question, title in {"levels_of": "Not cut", "aligned": "Not aligned", "closed_form": "No closed form"}.items():
        by_reason: dict[str, list[str]] = {}
        for row in rows:
            if question in row and not succeeds(row[question]):
                by_reason.setdefault(shortened(row[question]["reason"]), []).append(row["name"])
        if by_reason:
            yield f"**{title}**"
            yield ""
            for reason, names in sorted(by_reason.items(), key=lambda pair: -len(pair[1])):
                yield f"- {', '.join(names)}: {escaped(reason)}"
            yield ""


def shortened(reason: str) -> str:
    """A refusal without its way out, which differs from method to method."""
    ways = "Use|Name|Let levels|Cut|Keep|so neurons|so its neurons|so they|and the closed form|or name"
    return re.split(rf"[.,] (?:{ways})", reason)[0]


def escaped(text: str) -> str:
    """Plain text in Markdown."""
    return "".join(f"\\{letter}" if letter in "|*_<>[]`" else letter for letter in text)
