"""The memcached transport for asyncio: one multiplexed connection."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lockfast.backends.memcached import errors, meta
from lockfast.backends.memcached.handshake import handshake
from lockfast.backends.memcached.verbs import Versions
from lockfast.backends.network.codec import Misread, ProtocolError, misbehaved
from lockfast.backends.network.connection_aio import SocketConnection, SocketTransport
from lockfast.errors import LockError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from lockfast.backends.memcached.address import Address
    from lockfast.backends.memcached.verbs import Steps
    from lockfast.backends.network.target import Handshake
    from lockfast.runtime.clock import Clock

__all__ = ["MemcachedConnection", "MemcachedTransport"]

T = TypeVar("T")


class MemcachedConnection(SocketConnection):
    """One connection, and the versions of the items that it has written."""

    _special_reply = meta.MetaError

    def __init__(self, ours: bytes, clock: Clock, *, where: str) -> None:
        super().__init__(meta.MetaCodec(ours), where=where)
        self.versions: Versions = Versions(clock.now)

    def _take(self, reply: meta.MetaReply) -> None:
        self._answer(reply)
        if isinstance(reply, meta.MetaError) and not (
            reply.is_in_step or errors.asks_for_login(reply)
        ):
            # Drop the connection at once and not when the request's task runs. Otherwise data that
            # follows in the same packet would be taken for replies to other requests.
            self._lose(Misread(reply.text))


class MemcachedTransport(SocketTransport[MemcachedConnection]):
    """The transport to one server; it lists only the server's keys that begin with `ours`."""

    def __init__(self, address: Address, *, ours: bytes, clock: Clock) -> None:
        unreachable = partial(errors.unreachable, target=address.target)
        super().__init__(address.target, unreachable=unreachable, clock=clock)
        self._address = address
        self._ours = ours

    async def run_steps(self, begin: Callable[[Versions], Steps[T]], *, deadline: float) -> T:
        """Run the steps over one connection, and return their result.

        Raises BackendUnavailable if nothing was sent, and OutcomeUnknown if a reply is missing.
        """
        connection = self._connection
        if connection is None or connection.lost.done():
            connection = await self._connected(deadline)
        return await self._drive(connection, begin(connection.versions), self._loop_time(deadline))

    async def run_all_steps(
        self, begins: Sequence[Callable[[Versions], Steps[T]]], *, deadline: float
    ) -> list[T | LockError]:
        """Run independent steps concurrently; return the result or the error of each."""
        connection = await self._connected(deadline)
        moment = self._loop_time(deadline)

        async def one(begin: Callable[[Versions], Steps[T]]) -> T | LockError:
            try:
                return await self._drive(connection, begin(connection.versions), moment)
            except LockError as error:
                return error

        return await asyncio.gather(*map(one, begins))

    async def answer(self, request: bytes, *, deadline: float) -> Any:  # noqa: ANN401 - any reply
        """Return the reply to one command; an error from the server is raised."""
        connection = await self._connected(deadline)
        answer = await connection.send(request, deadline=self._loop_time(deadline))
        try:
            return self._accepted(request, answer)
        except ProtocolError as error:
            raise self._misread(connection, error) from error

    async def _drive(
        self, connection: MemcachedConnection, steps: Generator[bytes, Any, T], moment: float
    ) -> T:
        try:
            request = next(steps)
            while True:
                answer = await connection.send(request, deadline=moment)
                request = steps.send(self._accepted(request, answer))
                if connection.lost.done():
                    raise OutcomeUnknown(f"{self.where} closed the connection between two requests")
        except StopIteration as end:
            result: T = end.value
            return result
        except ProtocolError as error:
            raise self._misread(connection, error) from error

    def _accepted(self, request: bytes, answer: meta.MetaReply) -> meta.MetaReply:
        if isinstance(answer, meta.MetaError):
            raise errors.refused(answer, where=self.where)
        if not meta.fits(request, answer):
            raise ProtocolError(answer)
        return answer

    def _misread(self, connection: MemcachedConnection, error: ProtocolError) -> LockError:
        connection.close()
        return misbehaved(*error.args, where=self.where)

    def _new_connection(self) -> MemcachedConnection:
        return MemcachedConnection(self._ours, self._clock, where=self.where)

    async def _handshake(self) -> Handshake:
        return handshake(self._address)
