"""The transport to a cluster: one member at a time, with a login if the cluster requires one.

All sessions of a client use the same member for as long as it answers. When a connection to the
member is lost, the next request goes to the next member.

While connecting, any error of one member means "try the next", even an error that an operator has
to fix, such as an untrusted certificate or a proxy that answers in HTTP/1.1. The error is raised
when no member is left.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

from lockfast.backends._async.single_flight import FLIGHT_GRACE_SECONDS, AsyncSingleFlight
from lockfast.backends.etcd import errors, requests, transactions
from lockfast.backends.etcd.address import Preference
from lockfast.backends.etcd.connection_aio import MemberTransport, WatchStream
from lockfast.backends.etcd.diagnostics import ClusterFacts, findings
from lockfast.backends.etcd.http2.grpc import GrpcError
from lockfast.backends.etcd.protobuf import UnreadableMessage
from lockfast.backends.etcd.replies import checked_reply
from lockfast.backends.network.target import Target
from lockfast.errors import BackendMisbehaved, BackendUnavailable, LockError, OutcomeUnknown
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lockfast.backends.etcd.address import Address
    from lockfast.backends.etcd.replies import State
    from lockfast.backends.etcd.requests import Request
    from lockfast.model import Finding
    from lockfast.runtime.clock import Clock

A = TypeVar("A")
T = TypeVar("T")

LOGINS_MAX = 2
"""Maximum number of new tokens requested before a request is given up."""


class AsyncMembers:
    """The transport to a cluster."""

    def __init__(
        self, address: Address, *, clock: Clock, preference: Preference | None = None
    ) -> None:
        self.where = address.where
        self._address = address
        self._clock = clock
        self._state = runtime.StateLock()
        self._members = [
            MemberTransport(
                Target(self.where, one, tls=address.tls), clock=clock, lost=self._move_on
            )
            for one in address.endpoints
        ]
        self._preference = preference or Preference()
        self._at = self._preference.number
        # The references are weak. If the opener of a stream is interrupted, nothing refers to the
        # stream any more, and the stream is closed.
        self._streams = WeakKeyDictionary[WatchStream, MemberTransport]()
        self._is_closed = False
        self._token = b""
        self._logging_in = AsyncSingleFlight[None](clock)

    # -- requests ----------------------------------------------------------------------

    async def ask(self, request: Request[A], *, deadline: float) -> A | GrpcError:
        """Return the reply, which may be a refusal.

        Raises BackendUnavailable if nothing was done, and OutcomeUnknown if no reply came.
        """
        data = await self._asked(request, deadline)
        return data if isinstance(data, GrpcError) else self._read(request, data)

    def _read(self, request: Request[A], data: bytes) -> A:
        try:
            return checked_reply(request, data)
        except UnreadableMessage as error:
            # As `network/codec.py` requires, a connection with an unreadable reply is not used
            # again.
            self.hang_up()
            raise BackendMisbehaved(f"{self.where} answers what cannot be read: {error}") from error

    async def ask_member(
        self, number: int, request: Request[A], *, deadline: float
    ) -> A | GrpcError:
        """Return the reply of one member, given by its number in the address."""
        self._check_open()
        data = await self._members[number].ask(
            request.path,
            request.body,
            token=await self._logged_in(deadline),
            deadline=deadline,
            connect_by=self._share(deadline, len(self._members)),
        )
        return data if isinstance(data, GrpcError) else self._read(request, data)

    async def _asked(self, request: Request[A], deadline: float) -> bytes | GrpcError:
        for is_last in (*(False,) * LOGINS_MAX, True):
            token = await self._logged_in(deadline)
            data = await self._anywhere(request, token, deadline)
            is_stale = isinstance(data, GrpcError) and errors.is_stale_token(data.text)
            if is_last or not is_stale:
                return data
            self.discard_token(token)
        raise AssertionError("unreachable")

    async def _anywhere(
        self, request: Request[A], token: bytes, deadline: float
    ) -> bytes | GrpcError:
        return await self._at_any_member(
            lambda member, connect_by: member.ask(
                request.path, request.body, token=token, deadline=deadline, connect_by=connect_by
            ),
            deadline,
        )

    async def _at_any_member(
        self, ask: Callable[[MemberTransport, float], Awaitable[T]], deadline: float
    ) -> T:
        """Send a request to each member in turn, once each, until one can process it."""
        failures: list[LockError] = []
        for left in range(len(self._members), 0, -1):
            self._check_open()
            member = self._members[self._at]
            try:
                answer = await ask(member, self._share(deadline, left))
            except OutcomeUnknown:
                raise
            except LockError as error:
                failures.append(error)
                if self._clock.now() >= deadline:
                    # The failure may be due to lack of time, so it says nothing about the member.
                    break
                # Move on in this case too, although no connection was lost. A caller that waits for
                # another caller's attempt to connect may run out of time before that attempt is
                # given up.
                self._move_on(member)
                continue
            if not (isinstance(answer, GrpcError) and errors.is_out_of_service(answer)):
                self._preference.has_answered = True
                return answer
            self._move_on(member)
            if left == 1:
                return answer
        failure = errors.none_left(failures, has_answered=self._preference.has_answered)
        failures.clear()
        try:
            raise failure from failure.__cause__
        finally:
            del failure  # see `AddressAttempts.pop_error`

    def _check_open(self) -> None:
        # A call after `close` would connect again, and nothing would ever close that connection.
        if self._is_closed:
            raise BackendUnavailable(f"{self.where}: the way to it was closed")

    def _share(self, deadline: float, members: int) -> float:
        """Return the deadline for connecting to one member, if `members` share the time equally."""
        now = self._clock.now()
        return now + (deadline - now) / members

    def hang_up(self) -> None:
        """Use another member from now on, because this one does not answer."""
        member = self._members[self._at]
        self._move_on(member)
        member.leave()
        self._leave_streams(member)

    def pass_by(self) -> None:
        """Use another member from now on; the current one may still answer its pending requests."""
        self._move_on(self._members[self._at])

    def _move_on(self, member: MemberTransport) -> None:
        with self._state:
            if self._members[self._at] is member:
                self._at = self._preference.number = (self._at + 1) % len(self._members)
            is_left = self._members[self._at] is not member
        if is_left:
            self._leave_streams(member)

    def _leave_streams(self, member: MemberTransport) -> None:
        # A member that does not answer sends no events either, and may never end the streams
        # itself.
        with self._state:
            streams = [stream for stream, at in self._streams.items() if at is member]
        for stream in streams:
            stream.leave()

    # -- authentication ----------------------------------------------------------------

    def discard_token(self, token: bytes | None = None) -> None:
        """Discard the current token if it equals `token`, or in any case if `token` is None.

        The next request logs in again.
        """
        with self._state:
            if token in (None, self._token):
                self._token = b""

    async def _logged_in(self, deadline: float) -> bytes:
        while self._address.user and not self._token:
            flight = await self._logging_in.run_shared(
                partial(self._log_in, deadline), deadline=deadline + FLIGHT_GRACE_SECONDS
            )
            if flight.is_known:
                flight.result()
            elif flight.is_stopped or self._clock.now() >= deadline:
                raise BackendUnavailable(f"{self.where}: there was no time left to log in")
        return self._token

    async def _log_in(self, deadline: float) -> None:
        request = requests.log_in(self._address.user, self._address.password)
        data = await self._anywhere(request, b"", deadline)
        if isinstance(data, GrpcError):
            raise errors.refused(data, where=self.where)
        self._token = self._read(request, data).token.encode()

    # -- watching ----------------------------------------------------------------------

    async def watch(self, on_message: Callable[[bytes], None], *, deadline: float) -> WatchStream:
        """Return a stream for watches, opened at the member that is in use now.

        The stream passes each message, a packed `replies.Watched`, to `on_message` as it arrives.
        """
        token = await self._logged_in(deadline)

        async def begin(member: MemberTransport, connect_by: float) -> WatchStream:
            stream = await member.watch(
                requests.WATCH_METHOD, on_message, token=token, connect_by=connect_by
            )
            with self._state:
                self._streams[stream] = member
            if self._is_closed or self._members[self._at] is not member:
                # The client moved on to another member before this stream was added to `_streams`.
                stream.leave()
            return stream

        return await self._at_any_member(begin, deadline)

    def stream_ended(self, stream: WatchStream) -> None:
        """Record that a stream has ended, and move on if the stream's member is out of service."""
        with self._state:
            member = self._streams.pop(stream, None)
        end = stream.end
        if member is not None and isinstance(end, GrpcError) and errors.is_out_of_service(end):
            self._move_on(member)

    # -- closing -----------------------------------------------------------------------

    async def close(self) -> None:
        """Close every connection, and prevent new ones."""
        self._is_closed = True
        await runtime.run_all_steps(self._logging_in.end, *(one.close for one in self._members))

    def after_fork_in_child(self) -> None:
        """Abandon the parent's connections, without sending anything."""
        self._state, self._streams = runtime.StateLock(), WeakKeyDictionary()
        self._logging_in.after_fork_in_child()
        for one in self._members:
            one.after_fork_in_child()


# What this etcd deployment can guarantee, according to its members.

STATUS_REQUESTS = 4
"""Number of times that each address is asked which member answers at it."""


async def diagnosed(
    address: Address, *, asked: float, granted: float | None, seconds: float, clock: Clock
) -> Sequence[Finding]:
    """Return the findings; `granted` is the ttl of the open session, or None without a session."""
    members = AsyncMembers(address, clock=clock)
    try:
        return await _asked(members, address, asked, granted, clock.now() + seconds)
    finally:
        await members.close()


async def _asked(
    members: AsyncMembers, address: Address, asked: float, granted: float | None, deadline: float
) -> Sequence[Finding]:
    told = [await _states(members, one, deadline) for one in range(len(address.endpoints))]
    known = await members.ask(requests.members(), deadline=deadline)
    alarms = await members.ask(requests.alarms(), deadline=deadline)
    shortest = await members.ask(requests.grant(1), deadline=deadline)
    if not isinstance(shortest, GrpcError):
        await members.ask(requests.revoke(shortest.lease), deadline=deadline)
    rights = await members.ask(transactions.nothing(address.root), deadline=deadline)
    return findings(
        ClusterFacts(
            where=address.where,
            states=[one[0] if one else None for one in told],
            shared=sum(len({state.header.member for state in one}) > 1 for one in told),
            members=None if isinstance(known, GrpcError) else known.members,
            alarms=None if isinstance(alarms, GrpcError) else alarms.alarms,
            shortest=None if isinstance(shortest, GrpcError) else shortest.ttl,
            asked=asked,
            granted=granted,
            user=address.user,
            is_secure=address.tls is not None,
            root=address.root.decode(),
            is_permitted=not (isinstance(rights, GrpcError) and errors.is_forbidden(rights)),
        )
    )


async def _states(members: AsyncMembers, number: int, deadline: float) -> list[State]:
    """Return the states that one address reports, asked several times to detect a load balancer."""
    told: list[State] = []
    with suppress(LockError):
        while len(told) < STATUS_REQUESTS:
            state = await members.ask_member(number, requests.state(), deadline=deadline)
            if isinstance(state, GrpcError):
                break
            told.append(state)
    return told
