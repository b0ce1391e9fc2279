"""The control: a lock that is right as long as its one server keeps what it was told."""

from __future__ import annotations

import time

from lockfast.challenge.broken.polling import Lease, Polling, a_value_of_its_own, milliseconds


class SingleServer(Polling):
    """Set with an end in one step, deleted by its owner in one step, not trusted past its end."""

    lease = Lease

    def try_acquire(self, name: str) -> Lease | None:
        """Ask once."""
        mine, sent = a_value_of_its_own(), time.monotonic()
        if not self.redis.set(name, mine, nx=True, px=milliseconds(self.ttl)):
            return None
        return self.lease(self, name, mine, sent=sent)
