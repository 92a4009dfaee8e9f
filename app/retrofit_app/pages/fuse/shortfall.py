"""What to do where a fused network is clearly worse than one of its parents alone: what its samples lack."""

from collections.abc import Sequence

from retrofit_app import runs
from retrofit_app.figures import difference, escaped, listing
from retrofit_app.runs import methods

KNOWN_WELL = 0.8  # of the whole accuracy, below which a class counts as one where the network is weak


def of_first(entry: runs.Entry) -> bool:
    """Whether the samples are network A's own training images."""
    return bool(entry.config.get("splits")) and entry.config.get("fusion_from") != "iid"


def words(entry: runs.Entry, counts: Sequence[Sequence[int]] | None) -> str:
    """What the samples lack, if one network alone is clearly better than the fused one; else empty.

    Args:
        counts: training images per class of each parent, where they are known.
    """
    networks, n = entry.metrics["networks"], len(entry.config["models"])
    alone = [networks[f"parent {index}"]["accuracy"] for index in range(n)]
    best, fused = max(range(n), key=alone.__getitem__), networks["fused"]
    lost = difference(alone[best], fused["accuracy"], fused["samples"])
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
    what = f"class {lacking[0]}" if len(lacking) == 1 else f"the classes {listing(lacking)}"
    return (
        f"The samples are network A's images, and it saw none of {what}, where the fused network is weak. "
        "*Samples from: all networks*, in *New fusion*, has them, too."
    )
