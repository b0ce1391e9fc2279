"""The leases that end with the transactions of one session or connection.

Whoever ties a second lease to the same transaction must not find it committed because of the
first: all are checked before it is, and all are released afterwards.

They are released when the transaction is settled: the commit or the rollback was answered. A
commit that was sent and not answered may still take effect, at a server that is slow or waits for
its standby. Then nothing is released: the leases are no longer renewed, and end by their ttl. A
library that is added has to tell the two apart.
"""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

from lockfast.errors import LockError
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from lockfast._async.lease import AsyncLease

T = TypeVar("T")


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
            logging.getLogger("lockfast").warning(
                "the transaction that it was tied to is over, but the lease on %r was not "
                "released cleanly: %s",
                self._lease.name,
                error,
            )

    def run_out(self) -> None:
        """Leave the lease to its ttl: the commit was sent, and nobody knows what came of it."""
        self._lease.run_out()
        self._duty.fulfil()

    def run_out_if_dropped(self) -> None:
        """Let the client's background do the same, should this be dropped; for finalizers."""
        self._duty.run_out()


class AsyncTies:
    """All that end with the transaction that is open now, or begins next."""

    def __init__(self) -> None:
        self._state = runtime.StateLock()
        self._ties: list[AsyncTie] = []
        self._is_unanswered = False
        """Whether a commit was sent and not answered, so that only the next answer settles it."""

    def add(self, lease: AsyncLease) -> None:
        """Let the lease end with it."""
        one = AsyncTie(lease)
        with self._state:
            self._ties.append(one)

    def check(self) -> None:
        """Raise if one of the names is no longer ours."""
        with self._state:
            ties = list(self._ties)
        for one in ties:
            one.check()

    def __bool__(self) -> bool:
        return bool(self._ties)

    async def end_with(
        self,
        act: Callable[[], Coroutine[Any, Any, T]],
        *,
        is_over: Callable[[], bool],
        is_unanswered: Callable[[], bool] | None = None,
        settles: bool = True,
    ) -> T:
        """Do what ends the transaction, then release them all; unless it failed, and is open still.

        A commit may fail before anything was sent: refused by the driver, or cancelled in a
        line for the connection. Whoever catches that and commits later needs the leases then.

        Of a commit, `is_unanswered` says whether it may have been sent without an answer. What
        `settles` gets an answer from the server if it succeeds; closing does not.
        """
        is_done = False
        try:
            result = await act()
            is_done = True
            return result
        finally:
            if is_done and settles:
                self._is_unanswered = False
            elif not is_done and is_unanswered is not None and is_unanswered():
                self._is_unanswered = True
            if is_done or is_over():
                await self.settle()

    def commit_was_sent(self) -> None:
        """Know that what settles the transaction is under way, and was not answered yet."""
        self._is_unanswered = bool(self)

    def commit_was_answered(self) -> None:
        """Know that it was."""
        self._is_unanswered = False

    def run_out(self) -> None:
        """Leave them all to their ttl."""
        for one in self._taken():
            one.run_out()

    async def settle(self) -> None:
        """Release them all, or leave them to their ttl if a commit was sent and not answered."""
        if self._is_unanswered:
            self.run_out()
        else:
            await self.end()

    async def end(self) -> None:
        """Release them all, whatever becomes of each; an interrupt or a cancellation comes last."""
        await runtime.shield(_end_all(self._taken()))

    def _taken(self) -> list[AsyncTie]:
        # None may stay behind: it would refuse a later commit, of somebody who knows nothing of it.
        with self._state:
            ties, self._ties = self._ties, []
            self._is_unanswered = False
        return ties


async def _end_all(ties: Iterable[AsyncTie]) -> None:
    async with runtime.ExitStack() as stack:
        for one in ties:
            stack.push_async_callback(one.end)


# By what has the transaction, as long as it lives: hooks that were hung in once cannot be taken
# out where they run, and a session may live as long as its process.
_ties_of: weakref.WeakKeyDictionary[object, AsyncTies] = weakref.WeakKeyDictionary()


def ties_of(target: object) -> tuple[AsyncTies, bool]:
    """Return what is tied to it, and whether nobody has asked for it before."""
    found = _ties_of.get(target)
    if found is not None:
        return found, False
    return _ties_of.setdefault(target, AsyncTies()), True
