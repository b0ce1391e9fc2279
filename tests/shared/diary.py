"""What a client has told of its leases, and when."""

from __future__ import annotations

from lockfast.challenge.eventually import eventually
from lockfast.events import Event
from lockfast.runtime.clock import Clock


class Diary:
    """A hook that keeps the events it is told, and when."""

    def __init__(self) -> None:
        self._clock = Clock()
        self.entries: list[tuple[float, str, Event]] = []

    def __call__(self, event: Event) -> None:
        self.entries.append((self._clock.now(), type(event).__name__, event))

    def kinds(self) -> list[str]:
        """Return what was told of leases, in its order; not how the store fares."""
        return [kind for _, kind, _ in self.entries if kind not in ("StoreError", "Reconnected")]

    def time_of(self, kind: str) -> float:
        """Return when such a thing was first told; hooks are called after the lease is told."""
        eventually(lambda: kind in self.kinds(), what=kind)
        return next(at for at, one, _ in self.entries if one == kind)

    def count(self, kind: str) -> int:
        """Return how often such a thing was told."""
        return self.kinds().count(kind)

    def until_renewed(self, times: int = 1) -> None:
        """Wait until so many renewals more have been answered."""
        before = self.count("Renewed")
        eventually(lambda: self.count("Renewed") >= before + times, what="it is renewed")
