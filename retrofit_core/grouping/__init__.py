"""Grouping: which of the parents' neurons each fused neuron stands for (paper sec. 4.2.1), in Gram space.

Legend: m neurons of all parents side by side, G (m, m) their inner products, s (m,) scores, d groups, R_k group k.
Every grouping is a function `(gram, scores, widths, width, *, generator, **options) -> Grouping` and one line below.
"""

from .base import Grouping, averaging_matrix, pairwise_costs
from .compare import adjusted_rand, adjusted_rand_matrix
from .hungarian import hungarian
from .kmeans import kmeans
from .local_search import local_search
from .order import ordered, ordered_like
from .same_index import same_index

GROUPINGS = {
    "hungarian": hungarian,
    "kmeans": kmeans,
    "local_search": local_search,
    "same_index": same_index,
}

__all__ = [
    "GROUPINGS",
    "Grouping",
    "adjusted_rand",
    "adjusted_rand_matrix",
    "averaging_matrix",
    "hungarian",
    "kmeans",
    "local_search",
    "ordered",
    "ordered_like",
    "pairwise_costs",
    "same_index",
]
