"""Marks that several files give to their cases."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow_but(cases: Iterable[Any], few: Iterable[Any]) -> list[Any]:
    """All cases; those beside the few are marked as slow: `make quick` leaves them to `make test`."""
    few = tuple(few)
    return [case if case in few else pytest.param(case, marks=pytest.mark.slow) for case in cases]
