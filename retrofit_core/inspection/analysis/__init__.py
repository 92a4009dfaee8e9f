"""The analysis of a finished fusion, for the workbench's pictures: computed once and kept in the run's record.

Per level: the scores of every importance method, the groupings that each of them and other seeds would make of the same
Gram matrix, the share of each parent neuron's variance that its fused neuron explains, and the loss around the fitted
weights. Also the accuracy if the fusion had stopped after each level.
"""

from .analyse import ROWS, TEST_IMAGES, analyse
from .groups import SEEDS
from .record import FILES, Analysis, LevelAnalysis
