"""The one table of methods that command line, app, worker and tests read: the lines of `catalogue`, with their classes."""

from . import baselines
from .baselines.distilled import Distilled
from .catalogue import CATALOGUE, CONTROL, OURS, PAPER, Line
from .fusion.algorithm import Retrofit
from .method import Method, Methods

#: The classes of values that are no baseline.
FUSIONS = {value.__name__: value for value in (Retrofit, Distilled)}


def _method(line: Line) -> Method:
    value = FUSIONS.get(line.value) or getattr(baselines, line.value)
    return Method(line.name, line.sentence, line.source, value, line.fixed, line.version, line.unchanged)


METHODS = Methods({name: _method(line) for name, line in CATALOGUE.items()})
#: The paper's own four, ours that go beyond them, and our controls of them; all of these go level by level. The others are what
#: it compares with.
RETROFITTING = tuple(name for name, method in METHODS.items() if method.source == PAPER)
BEYOND = tuple(name for name, method in METHODS.items() if method.source == OURS)
CONTROLS = tuple(name for name, method in METHODS.items() if method.source == CONTROL)


def methods_with(keyword: str) -> list[str]:
    """Names of the methods that have a keyword, whatever their parts."""
    return [name for name, method in METHODS.items() if keyword in {**method.settings(), **method.keywords()}]
