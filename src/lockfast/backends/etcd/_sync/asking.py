# Generated from src/lockfast/backends/etcd/_async/asking.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How a session asks; what is no answer is raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lockfast.backends.etcd import refusals
from lockfast.backends.etcd._sync.members import Members
from lockfast.backends.etcd._sync.watcher import Watcher
from lockfast.backends.etcd.http2.calls import Refusal
from lockfast.backends.etcd.keys import Keys
from lockfast.backends.etcd.transactions import Guard
from lockfast.backends.sessions.refusals import SessionEnded, ended
from lockfast.errors import LockError, OutcomeUnknown
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.etcd.addresses import Address, Preference
    from lockfast.backends.etcd.answers import Ranged, Transacted
    from lockfast.backends.etcd.orphans import Orphans
    from lockfast.backends.etcd.requests import Request
    from lockfast.runtime.clock import Clock

A = TypeVar("A")


class Asking:
    """Asks for one session, and knows what the answers say of it."""

    def __init__(
        self,
        address: Address,
        orphans: Orphans,
        *,
        ttl: float,
        clock: Clock,
        changed: Callable[[], None],
        preference: Preference | None = None,
    ) -> None:
        self.address = address
        self.ttl = ttl
        self.is_over = False
        self._clock = clock
        self._changed = changed
        self._orphans = orphans
        self._keys = Keys(address.root)
        self._members = Members(address, clock=clock, preference=preference)
        self._watcher = Watcher(self._members, clock=clock, lost=changed)
        self._state = runtime.StateLock()
        self._guard = Guard(b"", 0, 0)
        self._created = 0
        self._doubtful: dict[str, int] = {}
        """Claims of which a request was not answered, and the session's generation under which
        the last such copy was sent. It may have come true; it still may while that is the
        generation, and never after."""
        self._closing: dict[str, int] = {}
        """Under which lease a claim's hold is being put, to stay for a while without it."""
        self._held_at: dict[str, int] = {}
        """At which revision a claim's hold was put."""

    @property
    def where(self) -> str:
        """See the protocol."""
        return self._members.where

    def ask(self, request: Request[A], *, deadline: float, is_beside: bool = False) -> A:
        """Return the answer; a refusal is raised.

        It may be sent twice: whatever is asked here means the same when it is repeated.
        """
        answer, _ = self.ask_twice(request, deadline=deadline, is_beside=is_beside)
        return answer

    def ask_twice(
        self,
        request: Request[A],
        *,
        deadline: float,
        repeat: Callable[[], Request[A]] | None = None,
        is_beside: bool = False,
    ) -> tuple[A, bool]:
        """Return the answer, and whether the request was sent before and not answered.

        A member that does not answer in half of the time may stand still, or follow a leader that
        does; then another one is asked: the same, or what `repeat` makes of it.
        """
        half = (self._clock.now() + deadline) / 2
        try:
            return self.ask_once(request, deadline=half, is_beside=is_beside), False
        except OutcomeUnknown:
            if self._clock.now() >= half:
                self._members.pass_by()
        if repeat is not None:
            request = repeat()
        try:
            return self.ask_once(request, deadline=deadline, is_beside=is_beside), True
        except (SessionEnded, OutcomeUnknown):
            raise
        except LockError as error:
            # The first one went out, so nobody can say that nothing was done.
            raise OutcomeUnknown(str(error)) from error

    def ask_once(self, request: Request[A], *, deadline: float, is_beside: bool = False) -> A:
        """Return the answer; a refusal is raised.

        What stands beside the session names another lease than its own, whose end means nothing
        to the session.
        """
        reply = self._members.ask(request, deadline=deadline)
        if not isinstance(reply, Refusal):
            return reply
        if refusals.is_lease_gone(reply) and not is_beside:
            self.end()
            raise ended(where=self.where)
        raise refusals.refused(reply, where=self.where, root=self.address.root)

    def end(self) -> None:
        """Know that the session is over."""
        if not self.is_over:
            self.is_over = True
            self._changed()

    def met(self, session: Ranged, guard: Guard) -> bool:
        """Whether the session has another generation than the guard; raises if it is over."""
        if not session.keys:
            self.end()
            raise ended(where=self.where)
        [found] = session.keys
        with self._state:
            if found.modified > self._guard.generation:
                self._guard = self._guard._replace(generation=found.modified)
        return found.modified != guard.generation

    def outdated(self, answer: Transacted) -> None:
        """Know the session's generation by what has changed it, if it was not over by then."""
        with self._state:
            if answer.succeeded and answer.header.revision > self._guard.generation:
                self._guard = self._guard._replace(generation=answer.header.revision)
