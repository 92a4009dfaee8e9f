"""Results as Plotly figures and small HTML drawings; nothing here knows Streamlit.

Every function returns a `Picture`: the figure, an alternative text that states the finding with numbers, and a caption.
Colours, shapes and sizes follow one set of tokens (`palette`).
"""

from .accuracy import Network, accuracy_bars, class_grid
from .agreement import agreement_matrix, agreement_words, cluster_sizes, title
from .clusters import (
    Neurons,
    activations,
    cluster_key,
    clusters,
    densest_cluster,
    destinations,
    flow,
    neighbour_hues,
    neurons,
    same_numbers,
)
from .diagnosis import fitted, worst_level
from .fits import loss_curve, loss_plane, residual_bars
from .landscape import headline, landscape_plane, loss_path
from .levels import errors_scatter, knowledge_strip
from .markdown import escaped, shown
from .noise import Difference, difference, interval, margin
from .palette import CONFIG, DARK, LIGHT, Palette
from .picture import LETTERS, Picture, enlarged, letter, lettered, listing, number, percent, share, sign
from .single import activity_histogram, explained, fit_scatter, kept_histogram, members_words, score_histogram
from .tiles import KNOWN, Tile, tiles

__all__ = [
    "CONFIG",
    "DARK",
    "Difference",
    "KNOWN",
    "LETTERS",
    "LIGHT",
    "Network",
    "Neurons",
    "Palette",
    "Picture",
    "Tile",
    "accuracy_bars",
    "activations",
    "activity_histogram",
    "agreement_matrix",
    "agreement_words",
    "class_grid",
    "cluster_key",
    "cluster_sizes",
    "clusters",
    "densest_cluster",
    "destinations",
    "difference",
    "enlarged",
    "errors_scatter",
    "escaped",
    "fitted",
    "explained",
    "fit_scatter",
    "flow",
    "headline",
    "interval",
    "kept_histogram",
    "knowledge_strip",
    "landscape_plane",
    "letter",
    "lettered",
    "listing",
    "loss_curve",
    "loss_path",
    "loss_plane",
    "margin",
    "members_words",
    "neighbour_hues",
    "neurons",
    "number",
    "percent",
    "residual_bars",
    "same_numbers",
    "score_histogram",
    "share",
    "shown",
    "sign",
    "tiles",
    "title",
    "worst_level",
]
