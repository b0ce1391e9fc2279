"""Broken: acquire says no, nobody listens, and the work is done all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.challenge.broken.never_renewed import UnwatchedLease
from lockfast.challenge.broken.polling import PAUSE, Polling

if TYPE_CHECKING:
    from lockfast.challenge.contender import Held


class UncheckedAcquire(Polling):
    """The lock that comes with redis-py, whose acquire returns whether it was acquired."""

    def acquire(self, name: str, *, timeout: float) -> Held:
        """See the protocol."""
        lock = self.redis.lock(name, timeout=self.ttl, sleep=PAUSE[1])
        lock.acquire(blocking_timeout=min(timeout, self.ttl / 4))
        return UnwatchedLease(lock)
