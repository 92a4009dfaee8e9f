"""Results as Plotly figures and small HTML drawings; nothing here knows Streamlit.

Every function returns a `Picture`: the figure, an alternative text that states the finding with numbers, and a caption.
Colours, shapes and sizes follow one set of tokens (`palette`).
"""

from .agreement import agreement_matrix, agreement_words, cluster_sizes, index_words, title
from .classes import Network, class_grid
from .clusters import cluster_key, clusters
from .counterparts import flow
from .diagnosis import AVERAGED, fitted, worst_level
from .fits import group_words, loss_curve, loss_plane, residual_bars, stream_words
from .landscape import headline, landscape_plane, loss_path
from .markdown import claimed, escaped, plain_text
from .marks import Marks, cluster_words, marks
from .members import members_and_target
from .network import drawn_network
from .neurons import Neurons, densest_cluster, destinations, neurons, recorded, same_numbers
from .noise import Difference, difference, interval, margin
from .palette import CONFIG, DARK, LIGHT, Palette
from .picture import Picture, enlarged, sign
from .plane import activations
from .single import activity_histogram, explained, fit_scatter, members_words, r2_histogram, score_histogram
from .tiles import KNOWN, Tile, tiles
from .words import LETTERS, letter, lettered, listing, number, percent, share
