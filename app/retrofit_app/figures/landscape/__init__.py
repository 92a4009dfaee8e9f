"""Landscapes: planes with their networks, lines between them, words; a file for each."""

from .paths import loss_path
from .plane import landscape_plane
from .scale import KINDS
from .words import (
    average_words,
    caption,
    headline,
    plane_words,
    rises_words,
    short,
)
