"""Broken: who comes too late to release deletes the lock of the next holder."""

from __future__ import annotations

from lockfast.challenge.broken.polling import Lease
from lockfast.challenge.broken.single_server import SingleServer


class BareLease(Lease):
    """What was acquired; DEL releases it, without a look at whose lock it is by now."""

    def release(self) -> None:
        """See the protocol."""
        self.redis.delete(self.name)
        self.check()  # too late is at least said


class BareDelete(SingleServer):
    """Taken as it should be."""

    lease = BareLease
