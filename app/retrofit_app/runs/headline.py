"""A finished run's finding: title, the networks as tiles, what exceeds chance, and what its samples lack."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from retrofit_app import figures
from retrofit_app.figures import Tile, difference, escaped, letter, lettered, listing, number, percent
from retrofit_app.figures.words import seconds_words
from retrofit_core.runs.store import Work

from . import followups, methods
from .records import Entry, bundle_facts

SEEN = 50.0  # the accuracy on every class, in per cent, from which a fused network "sees it all"
MOST_TILES = 6  # most parents with their own tiles
BESIDE = 2  # most parents in one row with the networks made of them


def title(entry: Entry, counts: Sequence[Sequence[int]] | None) -> str:
    """What was made of the networks; for `counts` see `rows`."""
    parents, together = len(entry.config["models"]), methods.keeps_parents(entry)
    if kept := methods.keeps_one(entry):
        return f"Auto kept {kept}: no fusion did better"
    if not together and _halves(counts, parents) and _sees_all(entry.metrics["networks"]["fused"]):
        return "Two half-blind networks, one that sees it all"
    return networks_title(parents, together)


# --- the tiles ------------------------------------------------------------------------------------


def rows(entry: Entry, counts: Sequence[Sequence[int]] | None, tuned: Work | None = None) -> list[list[Tile]]:
    """A run's tiles: its parents, the average, the fused network and the ensemble, as far as they differ, and the
    fine-tuned network.

    Args:
        counts: each parent's training images per class, if known.
    """
    networks, parents = entry.metrics["networks"], len(entry.config["models"])
    first = (
        [_parent(index, networks[f"parent {index}"], counts) for index in range(parents)]
        if parents <= MOST_TILES
        else [_all_parents([networks[f"parent {index}"]["accuracy"] for index in range(parents)])]
    )
    second = [*_made_of_them(entry, networks, parents), *_tuned(tuned)]
    return [first + second] if parents <= BESIDE or parents > MOST_TILES else [first, second]


def _parent(index: int, table: dict[str, Any], counts: Sequence[Sequence[int]] | None) -> Tile:
    seen = [count > 0 for count in counts[index]] if counts else []
    knows = sum(seen) if seen else sum((value or 0) >= figures.KNOWN for value in table["per_class"])
    classes = f"{'all' if knows == len(table['per_class']) else f'{knows} of'} {len(table['per_class'])} classes"
    note = f"{'saw' if seen else 'knows'} {classes}"
    return replace(_tile(f"Network {letter(index)}", table, note, seen=seen), number=index)


def _all_parents(accuracies: Sequence[float]) -> Tile:
    best = max(range(len(accuracies)), key=accuracies.__getitem__)
    value = f"{number(min(accuracies))} to {percent(max(accuracies))}"
    return Tile(f"{len(accuracies)} networks", value, "", f"the best is {letter(best)}")


def _made_of_them(entry: Entry, networks: dict[str, Any], parents: int) -> list[Tile]:
    """Average, fused network and ensemble, as far as they are networks of their own."""
    fused, average = networks["fused"], networks.get("average")
    cost = "runs both networks" if parents == 2 else f"runs all {parents} networks"  # of any widths
    if methods.keeps_parents(entry):
        return [_tile("Together", fused, cost, "fused")]
    size = "A's size" if not entry.config.get("target") else "the chosen size"
    row = [] if methods.keeps_one(entry) else [_tile("Fused", fused, f"one network of {size}", "fused")]
    if parents == 1:
        return row
    if average is None:
        row.insert(0, Tile("Plain average", "–", "", "not possible: other shapes", "reference"))
    elif average["per_class"] != fused["per_class"]:  # otherwise the run is the average
        row.insert(0, _tile("Plain average", average, "of the weights", "reference"))
    return [*row, _tile("Ensemble", networks["ensemble"], cost, "reference")]


def _tuned(tuned: Work | None) -> list[Tile]:
    """The fine-tuned network, if it exists and was measured."""
    if tuned is None or not followups.has_network(tuned):
        return []
    with suppress(ValueError):  # the panel below says what is damaged
        if table := followups.metrics(tuned):
            epochs = tuned.settings["epochs"]
            trained = f"fused, then {epochs} epoch{'' if epochs == 1 else 's'}"
            note = "as fused: no epoch was better" if followups.is_unchanged(tuned) else trained
            return [_tile("Fine-tuned", table, note, "fused")]
    return []


def _tile(name: str, table: dict[str, Any], note: str, role: str = "parent", seen: Sequence[bool] = ()) -> Tile:
    accuracy, samples = table["accuracy"], table["samples"]
    return Tile(name, percent(accuracy), figures.interval(accuracy, samples), note, role, table["per_class"], seen)


# --- the words ------------------------------------------------------------------------------------


def finding(entry: Entry) -> str:
    """What the method did, and how the result compares with the best parent and the ensemble."""
    networks, n = entry.metrics["networks"], len(entry.config["models"])
    fused, best = networks["fused"], best_parent(networks, n)
    if kept := methods.keeps_one(entry):
        tried: dict[str, float] = methods.decided(entry)["candidates"]
        fusions = [score for name, score in tried.items() if not name.startswith("parent ")]
        other = f"the best fusion {percent(max(fusions))}" if fusions else "no fusion was possible"
        return (
            f"On samples that no fusion saw, but networks may have, {kept} has {percent(max(tried.values()))}; {other}."
        )
    others = {f"parent {best}": f"{letter(best)} alone" if n > 1 else "network A"}
    average = networks.get("average", fused)
    leads = [difference(average, networks[f"parent {index}"]) for index in range(n)]
    beaten = [letter(index) for index, lead in enumerate(leads) if lead.clear and lead.points > 0]
    if n > 1 and not methods.keeps_parents(entry):
        if beaten and average["per_class"] != fused["per_class"]:
            others["average"] = f"the plain average (itself better than {listing(beaten)})"
        others["ensemble"] = "the ensemble"
    compared = [difference(fused, networks[other]).than(words) for other, words in others.items()]
    return f"{_settings_in_words(entry)}: {'; '.join(compared)}."


def best_parent(networks: dict[str, Any], parents: int) -> int:
    """The index of the most accurate parent."""
    return max(range(parents), key=lambda index: networks[f"parent {index}"]["accuracy"])


def _settings_in_words(entry: Entry) -> str:
    """The method, from which samples, in what time."""
    config, method = entry.config, escaped(entry.config["method"])
    if methods.keeps_parents(entry):
        return f"**{method}** runs all networks side by side and fuses nothing"
    chosen = escaped(methods.auto_words(entry))
    samples = escaped((methods.fusion(entry) if chosen else config)["samples"])  # Auto's are of all networks
    seconds = f", in {seconds_words(entry.status['seconds'])}\N{NO-BREAK SPACE}s" if "seconds" in entry.status else ""
    whose = " of network A's training images" if of_first(entry) else " training images"
    source = f", from {samples}{whose}" if methods.uses_samples(entry) else ""
    after = ", then trained as a whole" if methods.is_trained_after(entry) and not chosen else ""
    return f"**{method}{chosen}**{source}{after}{seconds}"


def reading(entry: Entry, guesses: bool) -> str:
    """How to read the tiles and the finding."""
    samples = entry.metrics["networks"]["fused"]["samples"]
    hollow = "; hollow: one that it recognises by chance, without training on it" if guesses else ""
    words = [
        f"Columns: share of each class that is recognised; bold: a class that the network was trained on{hollow}. ±: 95 % "
        f"interval on {samples:,} test images; in brackets: 95 % interval of a difference, paired image by image."
    ]
    if choice := methods.decided(entry).get("choice"):
        words.append(escaped(lettered(choice)))
    if entry.shipped:
        facts = bundle_facts()
        results = [table["fused"] for table in facts["tried"].values()]
        words.append(
            f"This is one split of scikit-learn's digits; over {len(results)} splits {facts['typical']} reaches "
            f"{number(min(results))} to {percent(max(results))}."
        )
    return " ".join(words)


def _halves(counts: Sequence[Sequence[int]] | None, parents: int) -> bool:
    """Whether two networks together saw every class, and none both."""
    return parents == 2 and counts is not None and all((a > 0) != (b > 0) for a, b in zip(*counts, strict=True))


def _sees_all(table: dict[str, Any]) -> bool:
    return all((value or 0) >= SEEN for value in table["per_class"])


def networks_title(parents: int, together: bool = False) -> str:
    count = {1: "One", 2: "Two", 3: "Three", 4: "Four", 5: "Five", 6: "Six"}.get(parents, str(parents))
    if together:
        return f"{count} networks, side by side"
    return "One network, made into another" if parents == 1 else f"{count} networks, fused into one"


KNOWN_WELL = 0.8  # the network is weak on classes below this share of its accuracy


def of_first(entry: Entry) -> bool:
    """Whether the samples are network A's own training images."""
    return (
        bool(entry.config.get("splits")) and entry.config.get("fusion_from") != "iid" and not methods.auto_choice(entry)
    )


def shortfall(entry: Entry, counts: Sequence[Sequence[int]] | None) -> str:
    """What the samples lack, if a parent is clearly better than the fused network; else empty.

    Args:
        counts: each parent's training images per class, if known.
    """
    networks, n = entry.metrics["networks"], len(entry.config["models"])
    best, fused = networks[f"parent {best_parent(networks, n)}"], networks["fused"]
    lost = difference(best, fused)
    clearly_worse = n > 1 and lost.points > 0 and lost.clear
    if not clearly_worse or not counts or not of_first(entry) or not methods.uses_samples(entry):
        return ""
    lacking = [
        escaped(name)
        for name, of_a, of_others, value in zip(
            entry.metrics["classes"], counts[0], zip(*counts[1:], strict=True), fused["per_class"], strict=True
        )
        if not of_a and any(of_others) and (value or 0) < KNOWN_WELL * fused["accuracy"]
    ]
    if not lacking:
        return ""
    what, them = (f"class {lacking[0]}", "it") if len(lacking) == 1 else (f"the classes {listing(lacking)}", "them")
    return (
        f"The fused network is weak on {what}. The samples are network A's images, and A saw none of {them}. Choose *Samples "
        f"from: all networks* in *New fusion* to include {them}."
    )
