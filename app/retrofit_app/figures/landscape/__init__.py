"""Landscapes: planes with their networks, lines between them, words; a file for each."""

from .paths import loss_path, paths_of
from .plane import landscape_plane
from .scale import KINDS, PAPER
from .words import (
    average_words,
    better_words,
    caption,
    headline,
    loss_words,
    place_words,
    plane_words,
    rises_words,
    short,
)
