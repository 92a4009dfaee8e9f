"""What groups and the fit contribute: a 2 x 2 of fusions, with random groups and with those of alike neurons, without and with
the fit. It has no order: what one ingredient brings depends on the other."""

from collections.abc import Mapping

from .drawing import BARE, NOTHING, edge, lettering, line, note, picture_of
from .noise import Difference, Facts, difference
from .palette import Palette, mixed
from .picture import Picture
from .words import first_up, listing, share, signed

Corners = Mapping[tuple[bool, bool], Facts]
"""(whether groups are of alike neurons, whether there is a fit) -> the fusion's result"""
GROUPS, FITS = ("random groups", "alike groups"), ("no fit", "fit")
WIDE, HIGH = 0.28, 0.24  # half a tile


def gains(corners: Corners) -> dict[tuple[str, bool], Difference]:
    """What alike groups bring ("groups", without or with the fit), and the fit ("fit", in random or alike groups)."""
    edges = {
        **{("groups", fitted): ((True, fitted), (False, fitted)) for fitted in (False, True)},
        **{("fit", alike): ((alike, True), (alike, False)) for alike in (False, True)},
    }
    return {
        name: difference(corners[after], corners[before])
        for name, (after, before) in edges.items()
        if {after, before} <= corners.keys()
    }


def finding(corners: Corners) -> str:
    """What alike groups and the fit bring, each with and without the other, in one sentence."""
    said = []
    for kind, begin, sides in (
        ("groups", "alike groups bring", ("without the fit", "with it")),
        ("fit", "the fit brings", ("in random groups", "in alike ones")),
    ):
        known = [(gain, sides[also]) for (name, also), gain in gains(corners).items() if name == kind]
        words = [
            f"{signed(gain.points)}{' points' * (gain is known[0][0])} {side}{'' if gain.clear else ' (may be chance)'}"
            for gain, side in known
        ]
        said += [f"{begin} {listing(words)}"] if words else []
    return f"{first_up('; '.join(said))}." if said else ""


def two_by_two(corners: Corners, average: Facts | None, palette: Palette) -> Picture:
    """A tile for each fusion, filled up to its accuracy; between them what groups and fit bring, with 95 % intervals; a mark in
    each tile is the plain average.

    Args:
        average: its result; None if the networks have none.
    """
    tint, _ = mixed(palette.paper, palette.accent, 0.3)
    shapes, traces, words = [], [], []  # groups of alike neurons are "alike groups", to fit a phone
    notes = [note(f"<b>{name}</b>", x, HIGH, palette.ink, yanchor="bottom") for x, name in enumerate(FITS)]
    for (alike, fitted), facts in corners.items():
        left, low, high = fitted - WIDE, -alike - HIGH, -alike + HIGH
        for share_of, look in (
            (facts["accuracy"], {"fillcolor": tint, "line": edge(NOTHING, 0)}),
            (100, {"line": edge(palette.muted)}),
        ):
            right = left + 2 * WIDE * share_of / 100
            shapes.append({"type": "rect", "x0": left, "x1": right, "y0": low, "y1": high, "layer": "below", **look})
        if average:
            at = left + 2 * WIDE * average["accuracy"] / 100
            traces.append(line([at, at], [low, low + HIGH / 3], palette.ink, 3))
        tile = f"<b>{share(facts['accuracy'])} %</b><br>{GROUPS[alike]}"
        notes.append(note(tile, float(fitted), -float(alike), palette.ink, yshift=8))
        words.append(f"{GROUPS[alike]}, {FITS[fitted]} {share(facts['accuracy'])}")
    for (kind, also), gain in gains(corners).items():
        x, y, arrow = (float(also), -0.5, "↓") if kind == "groups" else (0.5, -float(also), "→")
        bold, _, rest = gain.words.partition(" ")
        notes.append(note(f"<b>{arrow} {bold}</b><br>{rest}", x, y, palette.ink))
    foot = f"Mark: the plain average of the weights, {share(average['accuracy'])} %" if average else ""
    notes.append(note(foot, 0.5, -1 - HIGH, palette.muted, yanchor="top"))
    bare = {**BARE, "showline": False, "showticklabels": False}
    return picture_of(
        palette,
        traces or [lettering([0], [0], [""])],
        340,
        f"Four fusions and their accuracies in per cent: {', '.join(words)}. {foot}",
        finding(corners),
        margin=(4, 4, 4, 4),
        shapes=shapes,
        annotations=notes,
        xaxis={**bare, "range": [-WIDE - 0.02, 1 + WIDE + 0.02]},
        yaxis={**bare, "range": [-1.42, 0.42]},
    )
