"""Levels: a traced model cut where one tensor is alive, or after every layer (paper sec. 3; docs/method.md)."""

from .cuts import BOUNDARIES, read_boundaries
from .forms import Activated, Affine, Boundary, Form, Lookup, Opaque, Partwise, Tied
from .level import (
    Alive,
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

__all__ = [
    "BOUNDARIES",
    "Activated",
    "Affine",
    "Alive",
    "Boundary",
    "Carried",
    "Form",
    "Heads",
    "Level",
    "Lookup",
    "Opaque",
    "Partwise",
    "Parts",
    "Read",
    "Trace",
    "Written",
    "Tied",
    "check_composition",
    "classifier",
    "code_of",
    "compose",
    "cut_trace",
    "each",
    "is_branched",
    "levels_of_twin",
    "merged",
    "partition",
    "read_boundaries",
    "rows",
    "single_level",
    "trace",
    "trace_classifier",
]
