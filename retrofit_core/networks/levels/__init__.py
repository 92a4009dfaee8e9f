"""Levels: a traced model cut where one tensor is alive, or after every layer (paper sec. 3; docs/method.md)."""

from .cuts import BOUNDARIES, read_boundaries
from .forms import Activated, Affine, Boundary, Form, Lookup, Opaque, Partwise, Tied, unfolded
from .level import (
    Alive,
    Carried,
    Heads,
    Level,
    Parts,
    Read,
    Space,
    Written,
    compose,
    each,
    is_branched,
    merged,
    rows,
)
from .partition import check_composition, classifier, cut_trace, partition, single_level, trace_classifier
from .reading import places_read, reads_one_by_one
from .same_code import code_of, levels_of_twin, traces_of
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
    "Space",
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
    "places_read",
    "read_boundaries",
    "reads_one_by_one",
    "rows",
    "single_level",
    "trace",
    "trace_classifier",
    "traces_of",
    "unfolded",
]
