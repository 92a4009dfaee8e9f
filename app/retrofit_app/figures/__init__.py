"""Results as Plotly figures and small HTML drawings; nothing here knows Streamlit.

Every function returns a `Picture`: the figure, an alternative text that states the finding with numbers, and a caption.
Colours, shapes and sizes follow one set of tokens (`palette`).
"""

from .classes import Network
from .clusters import cluster_key, clusters
from .diagnosis import fitted, worst_level
from .fits import group_words, loss_curve, stream_words
from .landscape import headline, landscape_plane, loss_path
from .losses import level_losses
from .neurons import Neurons, neurons, recorded, same_numbers
from .noise import Difference, difference, interval, margin
from .palette import CONFIG, DARK, LIGHT, Palette
from .picture import Picture, enlarged, sign
from .plane import activations
from .ribbon import ribbon
from .single import (
    explained,
    fit_scatter,
    members_and_target,
    score_histogram,
)
from .tiles import KNOWN, Tile, tiles
from .words import LETTERS, claimed, escaped, letter, lettered, listing, number, percent, plain_text, share, title
