"""Levels: a traced model cut where one tensor is alive, or after every layer (paper sec. 3; docs/method.md)."""

from .cuts import BOUNDARIES, read_boundaries
from .forms import Activated, Affine, Boundary, Form, Lookup, Opaque, Partwise, Tied, unfolded
from .level import (
    Alive,
    Carried,
    Heads,
    Level,
    Parts,
    Space,
    Written,
    compose,
    each,
    is_branched,
    merged,
    rows,
)
from .partition import cut_trace, partition, single_level, trace_classifier
from .reading import places_read, reads_one_by_one
from .tracing import Trace

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
    "Space",
    "Trace",
    "Written",
    "Tied",
    "compose",
    "cut_trace",
    "each",
    "is_branched",
    "merged",
    "partition",
    "places_read",
    "read_boundaries",
    "reads_one_by_one",
    "rows",
    "single_level",
    "trace_classifier",
    "unfolded",
]
