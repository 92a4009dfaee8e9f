"""Which cluster of one grouping is which of another: the largest have a colour, and keep it in every picture."""

import numpy as np

from .neurons import Neurons

NAMED = 6  # clusters with a colour: the densest in ink, and five hues
ALIKE = 0.1  # of the members of two clusters together, how many both must have to be called the same


def named(reference: Neurons) -> list[int]:
    """The clusters of a grouping that have a colour: its densest, then the largest; of equal ones the most important."""
    if reference.densest is None:
        return []
    weights = np.bincount(reference.labels, reference.weights, reference.width)
    order = np.lexsort((-weights, -reference.counts)).tolist()
    several = [cluster for cluster in order if reference.counts[cluster] > 1 and cluster != reference.densest]
    return [reference.densest, *several[: NAMED - 1]]


def counterparts(reference: Neurons, grouped: Neurons) -> np.ndarray:
    """For each cluster (width,) of a grouping the place among `named(reference)` of the one that it is; -1 for none.

    Two clusters are the same if they share most, measured by the members of both over those of either (Jaccard); the most
    alike are joined first, each once.
    """
    places = np.full(grouped.width, -1)
    alike = []
    for number, cluster in enumerate(named(reference)):
        members = reference.labels == cluster
        shared = np.bincount(grouped.labels[members], minlength=grouped.width)
        either = grouped.counts + int(members.sum()) - shared
        others = np.flatnonzero((shared > 0) & (grouped.counts > 1)).tolist()
        alike += [(-shared[other] / either[other], number, other) for other in others]
    joined: set[int] = set()
    for share, number, other in sorted(alike):
        if -share >= ALIKE and number not in joined and places[other] < 0:
            places[other] = number
            joined.add(number)
    return places


def flow(reference: Neurons, grouped: Neurons) -> str:
    """Where the members of the largest cluster are in another grouping: "40 of 63 members stay together, joined by 41 others"."""
    if reference.densest is None:
        return "no cluster to follow"
    first = np.flatnonzero(counterparts(reference, grouped) == 0)
    before = reference.labels == reference.densest
    if not len(first):
        return f"the {before.sum()} members are spread over {len(np.unique(grouped.labels[before]))} groups"
    after = grouped.labels == first[0]
    together = int((before & after).sum())
    others = int(after.sum()) - together
    whole = "all" if together == before.sum() else f"{together} of"
    beside = f", joined by {others} other{'' if others == 1 else 's'}" if others else ""
    return f"{whole} {before.sum()} members stay together{beside}"
