"""The one table of methods that command line, app, worker and tests read."""

from typing import Any

from .fusion import Retrofit
from .method import Method, Methods
from .settings import Value

PAPER = "Luenam et al."


def _method(name: str, sentence: str, source: str, value: type[Value], version: int = 1, **fixed: Any) -> Method:
    return Method(name, sentence, source, value, fixed, version)


METHODS = Methods(
    {
        method.name: method
        for method in (
            _method(
                "HF-Linear",
                "Retrofitting: pairs the neurons of two equal networks, closed form (Luenam et al.).",
                PAPER,
                Retrofit,
                grouping="hungarian",
                fit="ridge",
            ),
            _method(
                "KF-Linear",
                "Retrofitting: clusters the neurons of any networks, closed form (Luenam et al.).",
                PAPER,
                Retrofit,
                grouping="kmeans",
                fit="ridge",
            ),
            _method(
                "HF-Gradient",
                "Retrofitting: pairs the neurons of two equal networks, each level fitted by gradient descent.",
                PAPER,
                Retrofit,
                grouping="hungarian",
                fit="gradient",
            ),
            _method(
                "KF-Gradient",
                "Retrofitting: clusters the neurons of any networks, each level fitted by gradient descent.",
                PAPER,
                Retrofit,
                grouping="kmeans",
                fit="gradient",
            ),
        )
    }
)


def methods_with(keyword: str) -> list[str]:
    """Names of the methods that have a keyword, whatever their parts."""
    return [name for name, method in METHODS.items() if keyword in {**method.settings(), **method.keywords()}]


#: The paper's own, which go level by level; the others are what it compares with.
RETROFITTING = tuple(name for name, method in METHODS.items() if method.takes.levels)
