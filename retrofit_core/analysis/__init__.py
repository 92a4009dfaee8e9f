"""What the pictures of a finished fusion need beyond its reports, computed once and kept in the run's record.

Per level: the scores of every importance method, the groupings that each of them and other seeds would have made of the
same Gram matrix, what of each parent neuron is left in its fused neuron, and the loss around the fitted weights. Over all
levels: the accuracy had the fusion stopped there.
"""

from .analyse import ROWS, SEEDS, TEST_IMAGES, analyse
from .record import FILES, Analysis, LevelAnalysis

__all__ = ["FILES", "ROWS", "SEEDS", "TEST_IMAGES", "Analysis", "LevelAnalysis", "analyse"]
