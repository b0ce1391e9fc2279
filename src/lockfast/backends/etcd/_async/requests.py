"""Sends the requests of an etcd session, and raises refusals as errors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from lockfast.backends.etcd import errors, requests
from lockfast.backends.etcd.http2.grpc import GrpcError
from lockfast.backends.etcd.transactions import RevisionCheck
from lockfast.backends.sessions.records import SessionEnded, ended
from lockfast.errors import LockError, OutcomeUnknown
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.etcd._async.members import AsyncMembers
    from lockfast.backends.etcd.replies import Ranged, Transacted
    from lockfast.backends.etcd.requests import Request
    from lockfast.runtime.clock import Clock

A = TypeVar("A")


class AsyncEtcdRequests:
    """Sends the requests of one session, and records what the replies show about the session."""

    def __init__(
        self,
        members: AsyncMembers,
        *,
        root: bytes,
        ttl: float,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        self.where = members.where
        self.ttl = ttl
        """The requested ttl; once the session is open, the granted ttl."""
        self.is_over = False
        self.guard = RevisionCheck(b"", 0, 0)
        self._members = members
        self._root = root
        self._clock = clock
        self._changed = changed
        self._state = runtime.StateLock()

    async def ask(self, request: Request[A], *, deadline: float, is_other_lease: bool = False) -> A:
        """Return the reply, or raise the error for a refusal.

        The request may be sent twice, so a repeat must have the same meaning.
        """
        answer, _ = await self.ask_twice(request, deadline=deadline, is_other_lease=is_other_lease)
        return answer

    async def ask_twice(
        self,
        request: Request[A],
        *,
        deadline: float,
        repeat: Callable[[], Request[A]] | None = None,
        is_other_lease: bool = False,
    ) -> tuple[A, bool]:
        """Return the reply, and whether an earlier copy of the request was sent and not answered.

        A member that does not reply within half of the time may be frozen, or may follow a frozen
        leader. Then another member gets the same request, or the request that `repeat` returns.
        """
        half = (self._clock.now() + deadline) / 2
        try:
            return await self.ask_once(request, deadline=half, is_other_lease=is_other_lease), False
        except OutcomeUnknown:
            if self._clock.now() >= half:
                self._members.pass_by()
        if repeat is not None:
            request = repeat()
        try:
            return await self.ask_once(
                request, deadline=deadline, is_other_lease=is_other_lease
            ), True
        except (SessionEnded, OutcomeUnknown):
            raise
        except LockError as error:
            # The first request was sent, so it may have taken effect.
            raise OutcomeUnknown(str(error)) from error

    async def ask_once(
        self, request: Request[A], *, deadline: float, is_other_lease: bool = False
    ) -> A:
        """Return the reply, or raise the error for a refusal.

        With `is_other_lease` the request names a lease other than the session's own, so the end of
        that lease does not end the session.
        """
        reply = await self._members.ask(request, deadline=deadline)
        if not isinstance(reply, GrpcError):
            return reply
        if errors.is_lease_gone(reply) and not is_other_lease:
            self.end()
            raise ended(where=self.where)
        raise errors.refused(reply, where=self.where, root=self._root)

    async def lease_for(self, seconds: float, *, deadline: float) -> int:
        """Return a lease that nobody renews.

        When the lease expires, etcd deletes the keys under it. The lease lasts for at least
        `seconds`.
        """
        granted = await self.ask(requests.grant(max(1, math.ceil(seconds))), deadline=deadline)
        return granted.lease

    def end(self) -> None:
        """Record that the session has ended."""
        if not self.is_over:
            self.is_over = True
            self._changed()

    def met(self, session: Ranged, guard: RevisionCheck) -> bool:
        """Record the generation that was read, and return whether it differs from the guard's.

        Raises SessionEnded if the session has ended.
        """
        if not session.keys:
            self.end()
            raise ended(where=self.where)
        [found] = session.keys
        with self._state:
            if found.modified > self.guard.generation:
                self.guard = self.guard._replace(generation=found.modified)
        return found.modified != guard.generation

    def outdated(self, answer: Transacted) -> None:
        """If a write to the session's key succeeded, record the revision as the new generation."""
        with self._state:
            if answer.succeeded and answer.header.revision > self.guard.generation:
                self.guard = self.guard._replace(generation=answer.header.revision)
