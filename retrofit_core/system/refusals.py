"""Refusals that know a way out: a setting, and the value of it with which the same would work."""

from typing import Any

#: A setting of a run or an option of its method, and the value that cures.
Cure = tuple[str, Any]


class Refusal(ValueError):
    """What is asked cannot be done, and each of these cures may make it work."""

    def __init__(self, message: str, *cures: Cure) -> None:
        super().__init__(message)
        self.cures = cures


def cures_of(error: BaseException | None) -> tuple[Cure, ...]:
    """The cures of an error, or of the one that it was raised from."""
    while error is not None and not isinstance(error, Refusal):
        error = error.__cause__
    return error.cures if error else ()
