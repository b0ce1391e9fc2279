"""The memcached transport for asyncio: one multiplexed connection."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from lockfast.backends.memcached import errors, meta
from lockfast.backends.memcached.verbs import Versions, handshake
from lockfast.backends.network.codec import Misread, ProtocolError, misbehaved
from lockfast.backends.network.connection_aio import SocketConnection, SocketTransport
from lockfast.errors import BackendMisbehaved, LockError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from lockfast.backends.memcached.address import Address
    from lockfast.backends.memcached.verbs import Steps
    from lockfast.runtime.clock import Clock

__all__ = ["MemcachedConnection", "MemcachedTransport"]

T = TypeVar("T")


class MemcachedConnection(SocketConnection):
    """One connection, and the versions of the items that it has written."""

    _special_reply = meta.MetaError

    def __init__(self, ours: bytes, clock: Clock, *, where: str) -> None:
        super().__init__(meta.MetaCodec(ours), where=where)
        self.versions: Versions = Versions(clock.now)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Use this asyncio transport from now on."""
        self._transport = cast("asyncio.Transport", transport)

    def _take(self, reply: meta.MetaReply) -> None:
        is_last = isinstance(reply, meta.MetaError) and not (
            reply.is_in_step or errors.asks_for_login(reply)
        )
        if is_last and self._waiting and not self._sent_at:
            # A server that accepts no more connections sends this error to every new client, before
            # any request. The error counts as the reply to the request that we were about to send,
            # and the request is not sent.
            self._sent_at.append(self._received_at)
        self._answer(reply)
        if isinstance(reply, meta.MetaError) and is_last:
            # Drop the connection at once and not when the request's task runs. Otherwise data that
            # follows in the same packet would be taken for replies to other requests.
            self._lose(Misread(reply.text))


class MemcachedTransport(SocketTransport[MemcachedConnection]):
    """The transport to one server; it lists only the server's keys that begin with `ours`."""

    def __init__(self, address: Address, *, ours: bytes, clock: Clock) -> None:
        super().__init__(clock=clock, where=address.where)
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
                if connection.lost.done():
                    raise OutcomeUnknown(f"{self.where} closed the connection between two requests")
                answer = await connection.send(request, deadline=moment)
                request = steps.send(self._accepted(request, answer))
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

    # -- connecting --------------------------------------------------------------------

    async def _connect(self, deadline: float) -> MemcachedConnection:
        address, loop = self._address, asyncio.get_running_loop()
        made = partial(MemcachedConnection, self._ours, self._clock, where=self.where)
        connection: MemcachedConnection | None = None
        try:
            async with asyncio.timeout_at(self._loop_time(deadline)):
                _, connection = await loop.create_connection(
                    made, address.host, address.port, ssl=address.tls
                )
            await self._greet(connection, self._loop_time(deadline))
        except OSError as error:
            raise self._unreachable(error) from error
        except (OutcomeUnknown, BackendMisbehaved, ProtocolError) as error:
            if connection is not None:
                connection.close()
            raise self._unreachable(error.__cause__ or error) from error
        except BaseException:
            # After a cancellation or a refusal nobody will use the connection.
            if connection is not None:
                connection.close()
            raise
        return connection

    async def _greet(self, connection: MemcachedConnection, moment: float) -> None:
        steps = handshake(self._address)
        with suppress(StopIteration):
            request = next(steps)
            while True:
                request = steps.send(await connection.send(request, deadline=moment))

    def _unreachable(self, error: BaseException) -> LockError:
        if isinstance(error, ProtocolError):
            return errors.not_memcached(where=self.where)
        if isinstance(error, BackendMisbehaved):
            return error  # the handshake was refused with an unknown error
        return errors.unreachable(error, where=self.where, has_answered=self._has_answered)
