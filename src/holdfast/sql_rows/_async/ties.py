"""The leases that end with the transactions of one session or connection.

Whoever ties a second lease to the same transaction must not find it committed because of the
first: all are checked before it is, and all are released afterwards.
"""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import LockError
from holdfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from holdfast._async.lease import AsyncLease

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
            logging.getLogger("holdfast").warning(
                "the transaction that it was tied to is over, but the lease on %r was not "
                "released cleanly: %s",
                self._lease.name,
                error,
            )


class AsyncTies:
    """All that end with the transaction that is open now, or begins next."""

    def __init__(self) -> None:
        self._state = runtime.StateLock()
        self._ties: list[AsyncTie] = []

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
    ) -> T:
        """Do what ends the transaction, then release them all; unless it failed, and is open still.

        A commit may fail before anything was sent: refused by the driver, or cancelled in a
        line for the connection. Whoever catches that and commits later needs the leases then.
        """
        is_done = False
        try:
            result = await act()
            is_done = True
            return result
        finally:
            if is_done or is_over():
                await self.end()

    async def end(self) -> None:
        """Release them all, whatever becomes of each; an interrupt or a cancellation comes last."""
        # None may stay behind: it would refuse a later commit, of somebody who knows nothing of it.
        with self._state:
            ties, self._ties = self._ties, []
        await runtime.shield(_end_all(ties))


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
