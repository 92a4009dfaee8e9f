"""The analysis of a finished fusion, for the workbench's pictures: computed once and kept in the run's record.

Per level: the scores of every importance method, the groupings that each of them would make of the same Gram matrix, and
some rows of targets and fitted outputs. Also the accuracy if the fusion had stopped after each level.
"""

from .analyse import ROWS, TEST_IMAGES, analyse
from .record import FILES, Analysis, LevelAnalysis
