# Generated from src/lockfast/backends/redis/_async/survey.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Collects the names in use from every server, and reports the servers that could not be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.network.codec import read
from lockfast.backends.redis import errors, replies
from lockfast.backends.redis._sync.cluster import ClusterTransport
from lockfast.backends.redis.resp import ErrorReply, packed
from lockfast.errors import BackendUnavailable, LockError, OutcomeUnknown

if TYPE_CHECKING:
    from lockfast.backends.redis._sync.topology import AnyTransport
    from lockfast.backends.redis.cluster_map import Coverage
    from lockfast.backends.redis.connection_threads import RedisTransport
    from lockfast.core.descriptor import Endpoint
    from lockfast.runtime.clock import Clock

OUTAGES = BackendUnavailable, OutcomeUnknown


class Survey:
    """One survey of all names; if a node fails, the survey lacks only the names on that node.

    At the end the caller learns what is missing. The survey gives up on a node after its first
    failure, so a dead node costs one timeout and not one per name. Slots that no node serves are
    skipped.
    """

    def __init__(self, transport: AnyTransport, *, clock: Clock, patience: float) -> None:
        self._transport = transport
        self._clock = clock
        self._patience = patience
        self._coverage: Coverage | None = None
        self._away: dict[Endpoint | None, LockError] = {}

    def deadline(self) -> float:
        """Return the deadline for a request that is sent now."""
        return self._clock.now() + self._patience

    def doors(self, pattern: bytes) -> set[bytes]:
        """Return the keys of the doors on all servers that answer."""
        doors: set[bytes] = set()
        for node, master in self._masters().items():
            try:
                self._scan(master, pattern, doors)
            except OUTAGES as error:
                self._away[node] = error  # `end` raises it after all other servers were asked
        return doors

    def can_ask(self, door: bytes) -> bool:
        """Return whether a server serves this door and has not failed in this survey."""
        if self._coverage is None:
            return not self._away
        node = self._coverage.owner_of(door)
        return node is not None and node not in self._away

    def failed(self, door: bytes, error: LockError) -> None:
        """Give up on the server of this door for the rest of the survey."""
        node = None if self._coverage is None else self._coverage.owner_of(door)
        self._away[node] = error

    def end(self) -> None:
        """Raise if any part is missing, so that a partial list does not pass for a complete one."""
        if self._coverage is not None:
            incomplete = self._coverage.incomplete(self._away, where=self._transport.where)
            if incomplete is not None:
                raise incomplete
        for error in self._away.values():
            raise error

    def _masters(self) -> dict[Endpoint | None, RedisTransport]:
        transport = self._transport
        if not isinstance(transport, ClusterTransport):
            return {None: transport}
        self._coverage = found = transport.coverage(deadline=self.deadline())
        for node, error in found.silent.items():
            if not isinstance(error, OUTAGES):
                raise error
            self._away[node] = error
        return {
            node: transport.node(node) for node in found.slots.masters if node not in found.silent
        }

    def _scan(self, master: RedisTransport, pattern: bytes, doors: set[bytes]) -> None:
        cursor = b"0"
        while True:
            request = packed(b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"1000")
            reply = master.ask(request, deadline=self.deadline())
            if isinstance(reply, ErrorReply):
                raise errors.refused(reply, where=self._transport.where)
            cursor, found = read(replies.scanned, reply, transport=master)
            doors.update(found)
            if cursor == b"0":
                return
