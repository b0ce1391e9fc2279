"""The way to a cluster: one member after the other, as somebody we know where it asks for that.

It stays with a member for as long as that answers, over all sessions of a client. Whatever is lost
on the way to it, the next request goes to the next one.

While connecting, any error of one member means "ask the next", also one that somebody has to set
right: a certificate that is not trusted, a proxy that answers in HTTP/1.1, silence. It is raised
when no member is left.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

from lockfast._async.single_flight import LAST_WORD, AsyncSingleFlight
from lockfast.backends.etcd import refusals, requests
from lockfast.backends.etcd.addresses import Preference
from lockfast.backends.etcd.connection import tls
from lockfast.backends.etcd.connection.aio import Channel
from lockfast.backends.etcd.http2.calls import Refusal
from lockfast.backends.etcd.protobuf import Unreadable
from lockfast.backends.etcd.replies import reply
from lockfast.backends.etcd.watching.aio import Watching
from lockfast.errors import BackendMisbehaved, BackendUnavailable, LockError, OutcomeUnknown
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lockfast.backends.etcd.addresses import Address
    from lockfast.backends.etcd.requests import Request
    from lockfast.runtime.clock import Clock

A = TypeVar("A")
T = TypeVar("T")

LOGINS = 2
"""So often a token is asked for anew before a request is given up."""


class AsyncMembers:
    """The way to a cluster."""

    def __init__(
        self, address: Address, *, clock: Clock, preference: Preference | None = None
    ) -> None:
        self.where = address.where
        self._address = address
        self._clock = clock
        self._state = runtime.StateLock()
        context = tls.context(address.tls, where=self.where) if address.is_secure else None
        self._channels = [
            Channel(one, where=self.where, tls=context, clock=clock, lost=self._move_on)
            for one in address.endpoints
        ]
        self._preference = preference or Preference()
        self._at = self._preference.number
        # Weakly: one that an interrupt took from whoever opened it is closed when it is dropped.
        self._streams = WeakKeyDictionary[Watching, Channel]()
        self._is_closed = False
        self._token = b""
        self._logging_in = AsyncSingleFlight[None](clock)

    # -- asking ------------------------------------------------------------------------

    async def ask(self, request: Request[A], *, deadline: float) -> A | Refusal:
        """Return the answer, which may be a refusal.

        Raises BackendUnavailable if nothing was done, OutcomeUnknown if no answer came.
        """
        data = await self._asked(request, deadline)
        return data if isinstance(data, Refusal) else self._read(request, data)

    def _read(self, request: Request[A], data: bytes) -> A:
        try:
            return reply(request, data)
        except Unreadable as error:
            self.hang_up()  # the rule of `wires/parsing.py`: that connection is not used again
            raise BackendMisbehaved(f"{self.where} answers what cannot be read: {error}") from error

    async def ask_member(self, number: int, request: Request[A], *, deadline: float) -> A | Refusal:
        """Return the answer of one certain member, in the order of the address."""
        self._check_open()
        data = await self._channels[number].ask(
            request.path,
            request.body,
            token=await self._logged_in(deadline),
            deadline=deadline,
            connect_by=self._share(deadline, len(self._channels)),
        )
        return data if isinstance(data, Refusal) else self._read(request, data)

    async def _asked(self, request: Request[A], deadline: float) -> bytes | Refusal:
        for is_last in (*(False,) * LOGINS, True):
            token = await self._logged_in(deadline)
            data = await self._anywhere(request, token, deadline)
            is_stale = isinstance(data, Refusal) and refusals.is_stale_token(data.text)
            if is_last or not is_stale:
                return data
            self.distrust(token)
        raise AssertionError("unreachable")

    async def _anywhere(
        self, request: Request[A], token: bytes, deadline: float
    ) -> bytes | Refusal:
        return await self._at_one(
            lambda channel, connect_by: channel.ask(
                request.path, request.body, token=token, deadline=deadline, connect_by=connect_by
            ),
            deadline,
        )

    async def _at_one(self, ask: Callable[[Channel, float], Awaitable[T]], deadline: float) -> T:
        """Ask a member, and where nothing could be done there another, each once."""
        failures: list[LockError] = []
        for left in range(len(self._channels), 0, -1):
            self._check_open()
            channel = self._channels[self._at]
            try:
                answer = await ask(channel, self._share(deadline, left))
            except OutcomeUnknown:
                raise
            except LockError as error:
                failures.append(error)
                if self._clock.now() >= deadline:
                    break  # for lack of time, perhaps: it says nothing of the member
                # Here too, and not only where the connection was lost: whoever waits for an
                # attempt that others began may be late before it is given up.
                self._move_on(channel)
                continue
            if not (isinstance(answer, Refusal) and refusals.is_out_of_service(answer)):
                self._preference.has_answered = True
                return answer
            self._move_on(channel)
            if left == 1:
                return answer
        failure = refusals.none_left(failures, has_answered=self._preference.has_answered)
        raise failure from failure.__cause__

    def _check_open(self) -> None:
        # Whoever comes late would connect again, and nobody would ever close that.
        if self._is_closed:
            raise BackendUnavailable(f"{self.where}: the way to it was closed")

    def _share(self, deadline: float, members: int) -> float:
        """Return until when one of so many may be connected to, so that there is time for all."""
        now = self._clock.now()
        return now + (deadline - now) / members

    def hang_up(self) -> None:
        """Ask another member from now on: this one does not answer."""
        channel = self._channels[self._at]
        self._move_on(channel)
        channel.leave()
        self._leave_streams(channel)

    def pass_by(self) -> None:
        """Ask another member from now on; what this one was asked it may still answer."""
        self._move_on(self._channels[self._at])

    def _move_on(self, channel: Channel) -> None:
        with self._state:
            if self._channels[self._at] is channel:
                self._at = self._preference.number = (self._at + 1) % len(self._channels)
            is_left = self._channels[self._at] is not channel
        if is_left:
            self._leave_streams(channel)

    def _leave_streams(self, channel: Channel) -> None:
        # Whoever does not answer tells nothing either, and may never say so.
        with self._state:
            streams = [stream for stream, at in self._streams.items() if at is channel]
        for stream in streams:
            stream.leave()

    # -- who we are --------------------------------------------------------------------

    def distrust(self, token: bytes | None = None) -> None:
        """Ask for another token before the next request, if it is still this one."""
        with self._state:
            if token in (None, self._token):
                self._token = b""

    async def _logged_in(self, deadline: float) -> bytes:
        while self._address.user and not self._token:
            flight = await self._logging_in.fly(
                partial(self._log_in, deadline), deadline=deadline + LAST_WORD
            )
            if flight.is_known:
                flight.result()
            elif flight.is_cut_off or self._clock.now() >= deadline:
                raise BackendUnavailable(f"{self.where}: there was no time left to log in")
        return self._token

    async def _log_in(self, deadline: float) -> None:
        request = requests.log_in(self._address.user, self._address.password)
        data = await self._anywhere(request, b"", deadline)
        if isinstance(data, Refusal):
            raise refusals.refused(data, where=self.where)
        self._token = self._read(request, data).token.encode()

    # -- watching ----------------------------------------------------------------------

    async def watch(self, hear: Callable[[bytes], None], *, deadline: float) -> Watching:
        """Return a stream for watches, at the member that is asked just now.

        What comes on it is told as it is: `answers.Watched`, packed.
        """
        token = await self._logged_in(deadline)

        async def begin(channel: Channel, connect_by: float) -> Watching:
            stream = await channel.watch(requests.WATCH, hear, token=token, connect_by=connect_by)
            with self._state:
                self._streams[stream] = channel
            if self._is_closed or self._channels[self._at] is not channel:
                stream.leave()  # it was left in the meantime, and nobody has told the stream
            return stream

        return await self._at_one(begin, deadline)

    def unwatched(self, stream: Watching) -> None:
        """Know that a stream is over, and of its member what its end says."""
        with self._state:
            channel = self._streams.pop(stream, None)
        end = stream.end
        if channel is not None and isinstance(end, Refusal) and refusals.is_out_of_service(end):
            self._move_on(channel)

    # -- closing -----------------------------------------------------------------------

    async def close(self) -> None:
        """Close every connection, and let nobody make another."""
        self._is_closed = True
        await runtime.each_in_turn(self._logging_in.end, *(one.close for one in self._channels))

    def after_fork_in_child(self) -> None:
        """Let go of the parent's connections without a word."""
        self._state, self._streams = runtime.StateLock(), WeakKeyDictionary()
        self._logging_in.after_fork_in_child()
        for one in self._channels:
            one.after_fork_in_child()
