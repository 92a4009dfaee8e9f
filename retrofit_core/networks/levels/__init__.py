"""Levels: a traced model cut where one tensor is alive, or after every layer (paper sec. 3; docs/method.md)."""

from .cuts import BOUNDARIES, read_boundaries
from .forms import Activated, Affine, Boundary, Form, Lookup, Tied
from .level import (
    Carried,
    Heads,
    Level,
    Parts,
    Read,
    Written,
    compose,
    each,
    is_branched,
    merged,
    rows,
)
from .partition import check_composition, classifier, cut_trace, partition, single_level, trace_classifier
from .same_code import code_of, levels_of_twin
from .tracing import Trace, trace
