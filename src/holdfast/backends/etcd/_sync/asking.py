# Generated from src/holdfast/backends/etcd/_async/asking.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How a session asks, and how the line of a name is read; what is no part of it is raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from holdfast.backends.etcd import refusals, transactions
from holdfast.backends.etcd._sync.members import Members
from holdfast.backends.etcd._sync.watcher import Watcher
from holdfast.backends.etcd.http2.calls import Refusal
from holdfast.backends.etcd.keys import Keys, twin
from holdfast.backends.etcd.standing import EtcdLine, in_line
from holdfast.backends.etcd.transactions import Guard
from holdfast.backends.sessions.refusals import SessionEnded, ended
from holdfast.errors import BackendUnavailable, OutcomeUnknown
from holdfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.backends.etcd.addresses import Address
    from holdfast.backends.etcd.answers import Ranged
    from holdfast.backends.etcd.keys import NameKeys
    from holdfast.backends.etcd.orphans import Orphans
    from holdfast.backends.etcd.requests import Request
    from holdfast.runtime.clock import Clock

A = TypeVar("A")


class Asking:
    """Asks for one session, and knows what the answers say of it and of a line."""

    def __init__(
        self,
        address: Address,
        orphans: Orphans,
        *,
        ttl: float,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        self.address = address
        self.ttl = ttl
        self.is_over = False
        self._clock = clock
        self._changed = changed
        self._orphans = orphans
        self._keys = Keys(address.root)
        self._members = Members(address, clock=clock)
        self._watcher = Watcher(self._members, clock=clock, lost=changed)
        self._state = runtime.StateLock()
        self._guard = Guard(b"", 0, 0)
        self._created = 0
        self._doubtful: set[str] = set()
        """Claims of which a request was not answered, and may still come true."""
        self._held_at: dict[str, int] = {}
        """At which revision a claim's hold was put."""

    @property
    def where(self) -> str:
        """See the protocol."""
        return self._members.where

    def ask(self, request: Request[A], *, deadline: float) -> A:
        """Return the answer; a refusal is raised.

        It may be sent twice: whatever is asked here means the same when it is repeated.
        """
        answer, _ = self.ask_twice(request, deadline=deadline)
        return answer

    def ask_twice(self, request: Request[A], *, deadline: float) -> tuple[A, bool]:
        """Return the answer, and whether the request was sent before and not answered.

        A member that does not answer in half of the time may stand still, or follow a leader that
        does; then another one is asked.
        """
        half = (self._clock.now() + deadline) / 2
        try:
            return self.ask_once(request, deadline=half), False
        except OutcomeUnknown:
            if self._clock.now() >= half:
                self._members.pass_by()
        try:
            return self.ask_once(request, deadline=deadline), True
        except SessionEnded:
            raise
        except BackendUnavailable as error:
            # The first one went out, so nobody can say that nothing was done.
            raise OutcomeUnknown(str(error)) from error

    def ask_once(self, request: Request[A], *, deadline: float) -> A:
        """Return the answer; a refusal is raised."""
        reply = self._members.ask(request, deadline=deadline)
        if not isinstance(reply, Refusal):
            return reply
        if refusals.is_lease_gone(reply):
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

    def line_in(
        self,
        keys: NameKeys,
        found: Ranged,
        *,
        revision: int,
        capacity: int,
        own: bytes | None = None,
        deadline: float,
    ) -> EtcdLine | None:
        """Return what a list of keys says, and where in it ours is.

        None if holds were in it whose time is up: they were removed, and it has to be read again.
        """
        entries = in_line(found.keys, keys)
        overdue = self._orphans.look(entries, now=self._clock.now())
        for one in overdue:
            if one.hold is not None:
                hold = one.hold
                self.ask(
                    transactions.clear(twin(hold.key), hold.key, held_at=hold.modified),
                    deadline=deadline,
                )
                self._orphans.forget(one)
        if overdue:
            return None
        place = None if own is None else own[len(keys.prefix) :].decode()
        in_use = entries[0].place.capacity if entries else 0
        return EtcdLine(entries, capacity or in_use, keys=keys, revision=revision, own=place)

    def read_line(
        self, keys: NameKeys, *, capacity: int = 0, own: bytes | None = None, deadline: float
    ) -> EtcdLine:
        """Return the line as it is now."""
        while True:
            found = self.ask(transactions.everything(keys), deadline=deadline)
            line = self.line_in(
                keys,
                found,
                revision=found.header.revision,
                capacity=capacity,
                own=own,
                deadline=deadline,
            )
            if line is not None:
                return line
