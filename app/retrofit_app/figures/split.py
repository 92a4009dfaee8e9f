"""Which network gets which classes: a strip of classes per network, as an accessible HTML table."""

from collections.abc import Sequence
from html import escape

from .palette import Palette, mixed, scale
from .words import percent

NUMBERED = 20  # most classes for which cells have numbers


def split_strip(
    counts: Sequence[Sequence[int]], classes: Sequence[str], networks: Sequence[str], palette: Palette
) -> str:
    """Each network's (rows) training images of each class (columns); transposed on narrow screens.

    Cells are shaded by count, in the network's colour, and contain the number, or "·" for none, so that colour alone says
    nothing.

    Args:
        counts: one row of class counts per network.
    """
    most = max((value for row in counts for value in row), default=0) or 1
    numbered = len(classes) <= NUMBERED
    head = _row(
        [_cell("columnheader", "", "")]
        + [_cell("columnheader", escape(name) if numbered else "", "head", name) for name in [*classes, "all"]]
    )
    rows = [
        _row(
            [_cell("rowheader", escape(network), "name")]
            + [
                _cell(
                    "cell",
                    _number(value) if numbered else "",
                    "",
                    f"{network}, class {name}: {value}",
                    _fill(value / most, palette, index),
                )
                for name, value in zip(classes, row, strict=True)
            ]
            + [_cell("cell", _number(sum(row)), "sum")]
        )
        for index, (network, row) in enumerate(zip(networks, counts, strict=True))
    ]
    across, down = len(classes) + 2, len(networks) + 1
    unit = "minmax(0,1fr)"
    style = (
        f"<style>.retrofit-split{{display:grid;gap:2px;grid-template-columns:auto repeat({across - 2},{unit}) auto;"
        f"font-size:14px;line-height:26px;color:{palette.ink};font-variant-numeric:tabular-nums}}"
        ".retrofit-split [role=row]{display:contents}.retrofit-split [role]{text-align:center;border-radius:2px;"
        "min-width:0;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}"
        f".retrofit-split .name,.retrofit-split .sum{{text-align:right;padding:0 8px;color:{palette.muted}}}"
    )
    if numbered:  # classes as rows: a phone does not fit ten numbers side by side
        style += (
            "@media(max-width:700px){.retrofit-split{grid-auto-flow:column;"
            f"grid-template-columns:auto repeat({down - 1},{unit});grid-template-rows:repeat({across},auto)}}"
            ".retrofit-split .head{text-align:right;padding-right:8px;max-width:9em}"
            ".retrofit-split .name,.retrofit-split .sum{text-align:center;padding:0}}"
        )
    alt = escape(f"Training images per class and network. {split_words(counts, classes, networks)}", quote=True)
    return f"{style}</style><div class='retrofit-split' role='table' aria-label='{alt}'>{head}{''.join(rows)}</div>"


def split_words(counts: Sequence[Sequence[int]], classes: Sequence[str], networks: Sequence[str]) -> str:
    """What the strip shows beside its numbers; empty for a single network."""
    owners = [sum(row[index] > 0 for row in counts) for index in range(len(classes))]
    alone = sum(count == 1 for count in owners)
    if len(networks) == 1:
        return ""
    if alone == len(classes):
        return "No class is seen by two networks."
    if all(list(row) == list(counts[0]) for row in counts):
        return f"Each network gets the same {sum(counts[0])} images of {len(classes)} classes."
    shares = [
        max(row[index] for row in counts) / (sum(row[index] for row in counts) or 1) for index in range(len(classes))
    ]
    worst = max(range(len(classes)), key=shares.__getitem__)
    owner = networks[max(range(len(counts)), key=lambda parent: counts[parent][worst])]
    return f"Most unequal: {owner} has {percent(100 * shares[worst], 0)} of class {classes[worst]}."


def _row(cells: Sequence[str]) -> str:
    return f"<div role='row'>{''.join(cells)}</div>"


def _cell(role: str, text: str, kind: str, title: str = "", style: str = "") -> str:
    tip = f" title='{escape(title, quote=True)}'" if title else ""
    return f"<div role='{role}' class='{kind}'{tip} style='{style}'>{text or '&nbsp;'}</div>"


def _number(value: int) -> str:
    return f"{value}" if value else "·"


def _fill(share: float, palette: Palette, parent: int) -> str:
    colour, ink = mixed(scale(palette)[0], palette.parent(parent), 0.85 * share)
    return f"background:{colour};color:{ink}"
