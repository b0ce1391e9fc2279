"""The wire of the asyncio flavour: one multiplexed connection; `threads` is its pair."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from lockfast.backends.memcached import meta, refusals
from lockfast.backends.memcached.greeting import greeting
from lockfast.backends.memcached.steps import Versions
from lockfast.backends.wires.aio import SocketLink, SocketWire
from lockfast.backends.wires.parsing import Gibberish, Misread, misbehaved
from lockfast.errors import BackendMisbehaved, LockError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from lockfast.backends.memcached.addresses import Address
    from lockfast.backends.memcached.steps import Steps
    from lockfast.runtime.clock import Clock

__all__ = ["Link", "Wire"]

T = TypeVar("T")


class Link(SocketLink):
    """One connection, and what it knows of the items."""

    _peculiar = meta.Refusal

    def __init__(self, ours: bytes, clock: Clock, *, where: str) -> None:
        super().__init__(meta.Parser(ours), where=where)
        self.versions: Versions = Versions(clock.now)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Read and write it from now on."""
        self._transport = cast("asyncio.Transport", transport)

    def _take(self, reply: meta.Answer) -> None:
        is_last = isinstance(reply, meta.Refusal) and not (
            reply.is_in_step or refusals.asks_for_login(reply)
        )
        if is_last and self._waiting and not self._sent_at:
            # A server without room says so to whoever comes, before it is asked anything. That
            # answers what would have been asked: it is not sent any more.
            self._sent_at.append(self._heard_at)
        self._answer(reply)
        if isinstance(reply, meta.Refusal) and is_last:
            # At once, not when its task runs: what follows in the same packet would be given to
            # requests that it does not answer.
            self._lose(Misread(reply.text))


class Wire(SocketWire[Link]):
    """The way to one server; of its keys those are listed that begin with `ours`."""

    def __init__(self, address: Address, *, ours: bytes, clock: Clock) -> None:
        super().__init__(clock=clock, where=address.where)
        self._address = address
        self._ours = ours

    async def converse(self, begin: Callable[[Versions], Steps[T]], *, deadline: float) -> T:
        """Return what the steps return, all of them over one connection.

        Raises BackendUnavailable if nothing was sent, OutcomeUnknown if an answer is missing.
        """
        link = self._link
        if link is None or link.lost.done():
            link = await self._connected(deadline)
        return await self._drive(link, begin(link.versions), self._loop_time(deadline))

    async def converse_all(
        self, begins: Sequence[Callable[[Versions], Steps[T]]], *, deadline: float
    ) -> list[T | LockError]:
        """Do steps that know nothing of each other side by side; an error for each that failed."""
        link = await self._connected(deadline)
        moment = self._loop_time(deadline)

        async def one(begin: Callable[[Versions], Steps[T]]) -> T | LockError:
            try:
                return await self._drive(link, begin(link.versions), moment)
            except LockError as error:
                return error

        return await asyncio.gather(*map(one, begins))

    async def answer(self, request: bytes, *, deadline: float) -> Any:  # noqa: ANN401 - any answer
        """Return the answer to one command; a refusal is raised."""
        link = await self._connected(deadline)
        answer = await link.send(request, deadline=self._loop_time(deadline))
        try:
            return self._accepted(request, answer)
        except Gibberish as error:
            raise self._misread(link, error) from error

    async def _drive(self, link: Link, steps: Generator[bytes, Any, T], moment: float) -> T:
        try:
            request = next(steps)
            while True:
                if link.lost.done():
                    raise OutcomeUnknown(f"{self.where} closed the connection between two requests")
                answer = await link.send(request, deadline=moment)
                request = steps.send(self._accepted(request, answer))
        except StopIteration as end:
            result: T = end.value
            return result
        except Gibberish as error:
            raise self._misread(link, error) from error

    def _accepted(self, request: bytes, answer: meta.Answer) -> meta.Answer:
        if isinstance(answer, meta.Refusal):
            raise refusals.refused(answer, where=self.where)
        if not meta.fits(request, answer):
            raise Gibberish(answer)
        return answer

    def _misread(self, link: Link, error: Gibberish) -> LockError:
        link.close()
        return misbehaved(*error.args, where=self.where)

    # -- connecting --------------------------------------------------------------------

    async def _connect(self, deadline: float) -> Link:
        address, loop = self._address, asyncio.get_running_loop()
        made = partial(Link, self._ours, self._clock, where=self.where)
        link: Link | None = None
        try:
            async with asyncio.timeout_at(self._loop_time(deadline)):
                _, link = await loop.create_connection(
                    made, address.host, address.port, ssl=address.tls
                )
            await self._greet(link, self._loop_time(deadline))
        except OSError as error:
            raise self._unreachable(error) from error
        except (OutcomeUnknown, BackendMisbehaved, Gibberish) as error:
            if link is not None:
                link.close()
            raise self._unreachable(error.__cause__ or error) from error
        except BaseException:
            # A cancellation, or a refusal: nobody will use it.
            if link is not None:
                link.close()
            raise
        return link

    async def _greet(self, link: Link, moment: float) -> None:
        steps = greeting(self._address)
        with suppress(StopIteration):
            request = next(steps)
            while True:
                request = steps.send(await link.send(request, deadline=moment))

    def _unreachable(self, error: BaseException) -> LockError:
        if isinstance(error, Gibberish):
            return refusals.not_memcached(where=self.where)
        if isinstance(error, BackendMisbehaved):
            return error  # a refusal of the greeting, in words that we do not know
        return refusals.unreachable(error, where=self.where, has_answered=self._has_answered)
