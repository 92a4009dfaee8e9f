"""What each ingredient of a fusion contributes: the plain average, groups, the fit; and what it achieves with other groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .drawing import NOTHING, Trace, bars, edge, lettering, line, note, picture_of, room, rows
from .noise import Difference
from .palette import TEXT, Palette
from .picture import Picture
from .words import share, signed


@dataclass(frozen=True)
class Step:
    """A row of the waterfall."""

    name: str
    start: float
    """Per cent, where its bar begins"""
    accuracy: float
    """Per cent, where it ends"""
    brings: Difference | None = None
    """Against the row above; for a control, against the fused network"""
    control: bool = False
    unfitted: float | None = None
    """A control's per cent without the fit"""

    @property
    def words(self) -> str:
        """ "+13.6 (10.0 to 17.3)"; empty without comparison."""
        return self.brings.words if self.brings else ""

    @property
    def ends(self) -> tuple[float, float]:
        """In per cent, the 95 % interval of what it brings, put at the bar's end."""
        if self.brings is None or self.brings.ends is None:
            return self.accuracy, self.accuracy
        low, high = (self.accuracy - self.brings.points + end for end in self.brings.ends)
        return low, high


def waterfall(every: Sequence[Step], finding: str, palette: Palette, shown: int | None = None) -> Picture:
    """A bar for each step, from where the one above ends; controls below, from zero, with a tick for their accuracy without fit.

    A line at a bar's end is the interval of what the step brings.

    Args:
        every: the steps, the controls last.
        finding: one sentence on what they show.
        shown: how many steps to draw, by default all; the others keep their place and name.
    """
    steps = every[:shown]
    rows_at = [index + 0.5 * step.control for index, step in enumerate(every)]
    full = [f"{escape(step.name)}{f'<br>{signed(step.brings.points)}' if step.brings else ''}" for step in every]
    heads = [*full[: len(steps)], *(escape(step.name) for step in every[len(steps) :])]
    fused = next((step.accuracy for step in reversed(steps) if not step.control), 0.0)
    # Controls are set apart from the steps.
    places = rows_at[: len(steps)]
    fills = [palette.paper if step.control else palette.accent if step.brings else palette.grey for step in steps]
    outlines = [palette.muted if step.control else NOTHING for step in steps]
    tips = [
        f"{escape(step.name)}: {share(step.accuracy)} %" + (f", {step.words}" if step.words else "") for step in steps
    ]
    traces = [
        bars(
            [step.accuracy - step.start for step in steps],
            places,
            "%{customdata}",
            orientation="h",
            base=[step.start for step in steps],
            width=0.6,
            marker={
                "color": fills,
                "line": edge(outlines, 1.5),
                "pattern": {
                    "shape": ["/" if step.control or not step.brings else "" for step in steps],
                    "fillmode": "overlay",
                    "fgcolor": [palette.grey if step.control else palette.paper for step in steps],
                    "size": 7,
                    "solidity": 0.25,
                },
            },
            customdata=tips,
        ),
        *(_intervals(steps, places, colour, width) for colour, width in ((palette.paper, 5), (palette.ink, 2))),
        lettering(  # right of the fused network's line, not on it
            [max(step.ends[1], fused) if step.control else step.ends[1] for step in steps],
            places,
            [f" <b>{share(step.accuracy)}</b>" for step in steps],
            textposition="middle right",
        ),
    ]
    shapes = [  # from a step's end to the next one's beginning
        {
            "type": "line",
            "x0": after.start,
            "x1": after.start,
            "y0": y + 0.3,
            "y1": y + 0.7,
            "line": edge(palette.muted),
        }
        for y, after in zip(places, steps[1:], strict=False)
        if not after.control
    ]
    controls = [place for place, step in zip(places, steps, strict=True) if step.control]
    if controls:
        last = len(steps) - len(controls) - 1
        shapes.append(
            {
                "type": "line",
                "x0": fused,
                "x1": fused,
                "y0": last + 0.3,
                "y1": controls[-1] + 0.4,
                "line": edge(palette.accent, 1, "dot"),
            }
        )
    ticks = [(place, step.unfitted) for place, step in zip(places, steps, strict=True) if step.unfitted is not None]
    shapes += [
        {"type": "line", "x0": at, "x1": at, "y0": place - 0.3, "y1": place + 0.3, "line": edge(palette.ink, 2)}
        for place, at in ticks
    ]
    notes = [
        note(
            f"no fit {share(at)}",
            at,
            place,
            palette.ink,
            xanchor="right",
            xshift=-3,
            bgcolor=palette.paper,
            borderpad=1,
        )
        for place, at in ticks
    ]
    return picture_of(
        palette,
        traces,
        34 + 48 * len(every),
        "Waterfall of test accuracy in per cent: "
        + ", ".join(f"{step.name} {share(step.accuracy)} {step.words}".strip() for step in steps),
        finding,
        margin=(room([part for head in full for part in head.split("<br>")]), 4, 26, 6),
        shapes=shapes,
        annotations=notes,
        xaxis={"range": [0, 120], "tickvals": [0, 50, 100], "ticktext": ["0", "50", "100 %"], "side": "top"},
        yaxis=rows(
            palette,
            autorange=False,
            range=[rows_at[-1] + 0.5, -0.5],
            tickvals=rows_at,
            ticktext=heads,
            tickfont={"size": TEXT, "color": palette.ink},
        ),
    )


def _intervals(steps: Sequence[Step], places: Sequence[float], colour: str, width: float) -> Trace:
    """A line for each step's interval."""
    x = [end for step in steps for end in (*step.ends, None)]
    return line(x, [at for place in places for at in (place, place, None)], colour, width)
