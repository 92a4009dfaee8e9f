"""Which clusters of two groupings correspond: the largest have a colour and keep it in every picture."""

import numpy as np

from .neurons import Neurons

NAMED = 6  # clusters with a colour: the densest in ink, and five hues
ALIKE = 0.1  # the least Jaccard index at which two clusters correspond


def named(reference: Neurons) -> list[int]:
    """A grouping's coloured clusters: its densest, then the largest; among equals the most important."""
    if reference.densest is None:
        return []
    weights = np.bincount(reference.labels, reference.weights, reference.width)
    order = np.lexsort((-weights, -reference.counts)).tolist()
    several = [cluster for cluster in order if reference.counts[cluster] > 1 and cluster != reference.densest]
    return [reference.densest, *several[: NAMED - 1]]


def counterparts(reference: Neurons, grouped: Neurons) -> np.ndarray:
    """(width,) for each cluster of a grouping, the index in `named(reference)` of its counterpart; -1 for none.

    Pairs are formed greedily by the Jaccard index (members of both over members of either), the most alike first, each
    cluster once.
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
    """Where the densest cluster's members go in another grouping: "40 of 63 members stay together, joined by 41 others"."""
    if reference.densest is None:
        return "no group to follow"
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
