"""Results as Plotly figures and small HTML drawings; nothing here knows Streamlit.

Every function returns a `Picture`: the figure, an alternative text that states the finding with numbers, and a caption.
Colours, shapes and sizes follow one set of tokens (`palette`).
"""

from .accuracy import Network, accuracy_bars, class_grid
from .cards import cards, class_card
from .clusters import cluster_key, clusters, densest_cluster, mark_size, neighbour_hues
from .levels import level_errors
from .palette import CONFIG, DARK, GLYPHS, LIGHT, SHAPES, TEXT, Palette
from .picture import Picture, listing, number, percent

__all__ = [
    "CONFIG", "DARK", "GLYPHS", "LIGHT", "SHAPES", "TEXT", "Network", "Palette", "Picture", "accuracy_bars", "cards",
    "class_card", "class_grid", "cluster_key", "clusters", "densest_cluster", "level_errors", "listing", "mark_size",
    "neighbour_hues", "number", "percent",
]  # fmt: skip
