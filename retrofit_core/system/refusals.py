"""Errors with cures, a setting and a value with which the request would work; and notices, which do not stop the work."""

from typing import Any

#: A setting of a run or an option of its method, and a value that may work.
Cure = tuple[str, Any]


class Refusal(ValueError):
    """The request cannot be met; each cure may make it work."""

    def __init__(self, message: str, *cures: Cure) -> None:
        super().__init__(message)
        self.cures = cures


def cures_of(error: BaseException | None) -> tuple[Cure, ...]:
    """The cures of an error, or of its cause."""
    while error is not None and not isinstance(error, Refusal):
        error = error.__cause__
    return error.cures if error else ()


class Notice(UserWarning):
    """A choice made for the user, or a doubt, in one sentence. The command line prints it on standard error."""
