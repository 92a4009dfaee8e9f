"""Progress events and cancellation: the channel between a long computation and its caller."""

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, TypeVar

Item = TypeVar("Item")
Event = dict[str, Any]


class Cancelled(Exception):  # noqa: N818 - not an error
    """The computation was cancelled between two steps; a recorder keeps what was finished before."""


class Monitor:
    """Passes events to `on_event` and stops the work between two steps once `cancelled()` is true.

    Events are plain dicts with a key "kind" ("level", "step", "epoch", ...); the terminal shows them as a bar, the worker
    writes them to the run record, tests collect them. Without arguments it does nothing.
    """

    def __init__(
        self,
        on_event: Callable[[Event], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        self._on_event = on_event
        self._cancelled = cancelled

    def changed(self, change: Callable[[Event], Event | None]) -> "Monitor":
        """A monitor that passes on what `change` makes of each event (None: nothing), and is cancelled with this one."""

        def event(event: Event) -> None:
            if (passed := change(event)) is not None:
                self.emit(**passed)

        return Monitor(event, self._cancelled)

    def emit(self, kind: str, **fields: object) -> None:
        """Report one event."""
        if self._on_event is not None:
            self._on_event({"kind": kind, **fields})

    def check(self) -> None:
        """Raise `Cancelled` if requested."""
        if self._cancelled is not None and self._cancelled():
            raise Cancelled("cancelled on request")

    def each(self, kind: str, items: Iterable[Item], **fields: object) -> Iterator[Item]:
        """Iterate with one event and one cancellation check before each item."""
        total = len(items) if isinstance(items, Sized) else None
        for index, item in enumerate(items):
            self.check()
            name = getattr(item, "name", None)
            self.emit(kind, index=index, total=total, **({"name": name} if name else {}), **fields)
            yield item
        self.check()
