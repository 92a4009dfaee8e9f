"""docs/breadth.md, written from the record of breadth.py."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from machine import read

PAGE = Path(__file__).parent.parent / "docs" / "breadth.md"
HEAD = """# Which networks can be fused

`python benchmarks/breadth.py` writes this page; `benchmarks/results/breadth.json` has each network's levels, groups and refusals.
The networks have random weights, small images and five classes. *Cut*: HF-Gradient and KF-Gradient fuse level by level.
*Aligned*: Git Re-Basin, OTFusion and ZipIt find the neurons whose order is free. *Closed form*: HF-Linear and KF-Linear. An
accepted network passed the checks that a fusion begins with, one of which reorders the neurons and compares the outputs.

A twin is the same network with its neurons in another order. Fused with its twin, a network must come out unchanged, to 1e-6 of
its outputs on the images that it was fused on (double precision, closed form with `ridge=0.0`). On images that the fusion did not
see, the default ridge loses more: [why, and what to do](defaults.md#a-network-and-its-own-permuted-copy).
"""
#: Entry of the record -> what a network is without it.
QUESTIONS = {"levels_of": "Not cut", "aligned": "Not aligned", "closed_form": "No closed form"}
#: Of the outputs, by which a fused twin may differ.
TOLERANCE = 1e-6
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
            yield counts(rows)
            yield ""
            yield from names(rows)
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
    cut, aligned, closed = (sum(succeeds(row.get(question)) for row in tried) for question in QUESTIONS)
    twins = [
        [row[question]["twin"] for row in rows if "twin" in row.get(question, {})]
        for question in ("aligned", "closed_form")
    ]
    found = [f"{len(each)} (largest difference {max(each):.0e})" if each else "0" for each in twins]
    return (
        f"Of {len(tried)} networks {cut} are cut into levels, {aligned} aligned, {closed} accepted in closed form. "
        f"Fused with their twins by Git Re-Basin: {found[0]}; in closed form: {found[1]}."
    )


def succeeds(facts: dict[str, Any] | None) -> bool:
    """Whether a question was answered with yes."""
    return facts is not None and "reason" not in facts


def names(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The networks of which all three are so, and those that were not tried."""
    plain = [row["name"] for row in rows if all(succeeds(row.get(name)) for name in QUESTIONS)]
    yield f"**Cut, aligned and in closed form**: {', '.join(plain)}."
    yield ""
    if untried := [row["name"] for row in rows if "untried" in row]:
        yield f"**Not tried**, for their size: {', '.join(untried)}."
        yield ""


def reasons(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Why not, the networks of one reason together."""
    for question, title in QUESTIONS.items():
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
