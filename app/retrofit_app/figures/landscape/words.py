"""A landscape in words: networks, losses, places and finding."""

import re
from math import isfinite
from typing import Any

import numpy as np

from ..words import lettered, listing, number, percent
from .scale import PAPER


def short(name: str) -> str:
    """A network's name on its marker: "A", "aligned B", "average"."""
    return lettered(name).replace("network ", "")


def caption(survey: Any) -> str:
    """How the landscape was measured: networks, resolution, images, seed, BatchNorm."""
    none = " No BatchNorm in these networks." if survey.facts["norms"] == "none" else ""
    return lettered(survey.caption()).replace(" x ", " × ") + none


def headline(survey: Any) -> str:
    """One or two sentences on whether the loss rises between the networks."""
    if not survey.paths:
        return ""
    worst = max(survey.paths, key=lambda path: path.barrier)
    least = min(survey.paths, key=lambda path: path.barrier)
    between = f"{short(worst.first)} and {short(worst.last)}"
    if worst.barrier < 0.01:
        return "There is no barrier between the networks; the loss stays within 0.01 of the straight lines between its ends."
    text = (
        f"The highest barrier is between {between}; the loss rises by {loss_words(worst.barrier)} on the straight line."
    )
    if least is not worst:
        text += f" The lowest, {loss_words(least.barrier)}, lies between {short(least.first)} and {short(least.last)}."
    return text


def average_words(survey: Any) -> str:
    """The plain average's accuracy beside its parents'; empty if it is not among the networks."""
    known = {marker.name: marker.accuracy for marker in survey.markers}
    parents = [name for name in known if re.fullmatch(r"parent \d+", name)]
    if "average" not in known or len(parents) < 2:
        return ""
    average, alone = known["average"], [known[name] for name in parents]
    where = (
        f"Half way between {listing([short(name) for name in parents])}" if len(parents) == 2 else "Amid the parents"
    )
    all_of_them = "either" if len(parents) == 2 else "all of them"
    if average < min(alone):
        rank = f"worse than {all_of_them}"
    else:
        rank = f"better than {all_of_them}" if average > max(alone) else "between worst and best"
    each = ", ".join(f"{short(name)} {percent(value)}" for name, value in zip(parents, alone, strict=True))
    return f"{where} is the plain average: {percent(average)}, {rank}; alone: {each}."


def rises_words(survey: Any) -> str:
    """Around which networks the loss rises least and most."""
    rises = sorted(survey.rises, key=lambda rise: rise.mean)
    least, most = loss_words(rises[0].mean), loss_words(rises[-1].mean)
    where = (
        f"{least} on average around {'every network' if len(rises) > 1 else short(rises[0].name)}"
        if least == most
        else f"least around {short(rises[0].name)} ({least} on average), most around {short(rises[-1].name)} ({most})"
    )
    slope = "; where it falls, there is no basin" if rises[0].mean <= -0.005 else ""  # as the words round it
    return f"Rise of the loss at a distance of {loss_words(survey.facts['radius'])} in the plane's directions: {where}{slope}."


def loss_words(value: float) -> str:
    """A loss with two decimals, or none from 100 on."""
    if not isfinite(value):
        return "infinite"
    return number(value, 2 if abs(value) < 100 else 0)


def values_words(kind: str, value: float) -> str:
    """A picture's value in words."""
    return loss_words(value) if kind == "loss" else percent(value)


def place_words(survey: Any, x: float, y: float) -> str:
    """A point of the plane as shares of the networks that span it."""
    names = [short(name) for name in survey.through]
    return " + ".join(
        f"{number(100 * share, 0)} % {name}" for share, name in zip(shares(survey, x, y), names, strict=True)
    )


def shares(survey: Any, x: float, y: float) -> tuple[float, float, float]:
    """The mixture of the three networks at a point of the plane; they sum to one."""
    corners = {marker.name: marker for marker in survey.markers}
    _, second, third = (corners[name] for name in survey.through)
    towards_third = y / third.y
    towards_second = (x - towards_third * third.x) / second.x
    return 1 - towards_second - towards_third, towards_second, towards_third


def plane_words(survey: Any, kind: str) -> str:
    """The networks' values, the grid's extremes, and how much is hatched."""
    at = [f"{lettered(marker.name)} {values_words(kind, getattr(marker, kind))}" for marker in survey.markers]
    values = getattr(survey, kind).numpy()
    low, high = float(np.min(values)), float(np.max(values))
    text = f"{kind.capitalize()} of the networks themselves: {listing(at)}."
    text += f" The grid has {values_words(kind, low)} to {values_words(kind, high)}."
    above = int((values > PAPER).sum()) if kind == "loss" else 0
    return text + (f" Hatched: {above} of {values.size} points are above {PAPER}." if above else "")
