"""The leases that end with the transactions of one session or connection.

Whoever ties a second lease to the same transaction must not find it committed because of the
first: all are checked before it is, and all are released afterwards.
"""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING

from holdfast.errors import LockError

if TYPE_CHECKING:
    from holdfast._async.lease import AsyncLease


class AsyncTie:
    """Released once the transaction is over; dropped before, the client's background does it."""

    def __init__(self, lease: AsyncLease) -> None:
        self._lease, self._duty = lease.beyond_its_block()

    def check(self) -> None:
        """Raise LeaseLost or NotOwner if the name is no longer ours: nothing may commit then."""
        self._lease.check()

    async def end(self) -> None:
        """Release it, and raise nothing: what the transaction came to must not be mistaken."""
        try:
            await self._lease.release()
        except LockError as error:
            # Not answered, say, and then the client's background goes on with it.
            logging.getLogger("holdfast").warning(
                "the transaction that it was tied to is over, but the lease on %r was not "
                "released cleanly: %s",
                self._lease.name,
                error,
            )


class AsyncTies:
    """All that end with the transaction that is open now, or begins next."""

    def __init__(self) -> None:
        self._ties: list[AsyncTie] = []

    def add(self, lease: AsyncLease) -> None:
        """Let the lease end with it."""
        self._ties.append(AsyncTie(lease))

    def check(self) -> None:
        """Raise if one of the names is no longer ours."""
        for one in self._ties:
            one.check()

    async def end(self) -> None:
        """Release them all."""
        while self._ties:
            await self._ties.pop().end()


# By what has the transaction, as long as it lives: hooks that were hung in once cannot be taken
# out where they run, and a session may live as long as its process.
_ties_of: weakref.WeakKeyDictionary[object, AsyncTies] = weakref.WeakKeyDictionary()


def ties_of(target: object) -> tuple[AsyncTies, bool]:
    """Return what is tied to it, and whether nobody has asked for it before."""
    found = _ties_of.get(target)
    if found is not None:
        return found, False
    return _ties_of.setdefault(target, AsyncTies()), True
