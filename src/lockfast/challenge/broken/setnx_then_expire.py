"""Broken: who dies or is cut off between the two requests leaves a lock that never ends."""

from __future__ import annotations

import time

from lockfast.challenge.broken.polling import Lease, Polling, a_value_of_its_own, milliseconds


class SetnxThenExpire(Polling):
    """SETNX takes the lock, and EXPIRE gives it an end."""

    def try_acquire(self, name: str) -> Lease | None:
        """Ask once."""
        mine, sent = a_value_of_its_own(), time.monotonic()
        if not self.redis.setnx(name, mine):
            return None
        self.redis.pexpire(name, milliseconds(self.ttl))
        return Lease(self, name, mine, sent=sent)
