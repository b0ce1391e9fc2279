"""What a client has reported about its leases, and when."""

from __future__ import annotations

from lockfast.events import Event
from lockfast.runtime.clock import Clock
from lockfast_challenge.processes import eventually


class Diary:
    """A hook that records the events it receives, and when."""

    def __init__(self) -> None:
        self._clock = Clock()
        self.entries: list[tuple[float, str, Event]] = []

    def __call__(self, event: Event) -> None:
        self.entries.append((self._clock.now(), type(event).__name__, event))

    def kinds(self) -> list[str]:
        """Return the lease events in order, without those about the store."""
        return [kind for _, kind, _ in self.entries if kind not in ("StoreError", "Reconnected")]

    def time_of(self, kind: str) -> float:
        """Return the time of the first event of this kind; hooks run after the lease changes."""
        eventually(lambda: kind in self.kinds(), what=kind)
        return next(at for at, one, _ in self.entries if one == kind)

    def count(self, kind: str) -> int:
        """Return the number of events of this kind."""
        return self.kinds().count(kind)

    def until_renewed(self, times: int = 1) -> None:
        """Wait until this many more renewals have been answered."""
        before = self.count("Renewed")
        eventually(lambda: self.count("Renewed") >= before + times, what="it is renewed")
