"""Broken: between the look and the DEL the lock may end, and be the next holder's."""

from __future__ import annotations

from lockfast.challenge.broken.polling import Lease
from lockfast.challenge.broken.single_server import SingleServer
from lockfast.challenge.contender import Refused


class ComparedLease(Lease):
    """What was acquired; it is looked at whose it is, and then deleted."""

    def release(self) -> None:
        """See the protocol."""
        if self.redis.get(self.name) != self.value:
            raise Refused(f"{self.name} was no longer ours")
        self.redis.delete(self.name)
        self.check()  # too late is at least said


class CompareThenDelete(SingleServer):
    """Taken as it should be."""

    lease = ComparedLease
