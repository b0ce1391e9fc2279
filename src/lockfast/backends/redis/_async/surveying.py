"""Collects the names that are in use from every server, and reports those it could not ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.redis import answers, refusals
from lockfast.backends.redis._async.cluster import AsyncCluster
from lockfast.backends.redis.resp import Refusal, packed
from lockfast.backends.wires.parsing import read
from lockfast.errors import BackendUnavailable, LockError, OutcomeUnknown

if TYPE_CHECKING:
    from lockfast.backends.redis._async.connecting import AnyWire
    from lockfast.backends.redis.cluster.coverage import Coverage
    from lockfast.backends.redis.connection.aio import Wire
    from lockfast.backends.redis.routing import Endpoint
    from lockfast.runtime.clock import Clock

OUTAGES = BackendUnavailable, OutcomeUnknown


class AsyncSurvey:
    """One survey: a node that fails costs its own names, and the caller learns which.

    A node is given up after its first failure, so a dead one costs one timeout and not one per
    name. Slots that no node serves are not asked at all.
    """

    def __init__(self, wire: AnyWire, *, clock: Clock, patience: float) -> None:
        self._wire = wire
        self._clock = clock
        self._patience = patience
        self._coverage: Coverage | None = None
        self._away: dict[Endpoint | None, LockError] = {}

    def deadline(self) -> float:
        """Return until when a server that is asked now may answer."""
        return self._clock.now() + self._patience

    async def doors(self, pattern: bytes) -> set[bytes]:
        """Return the keys of the doors on all servers that answer."""
        doors: set[bytes] = set()
        for node, master in (await self._masters()).items():
            try:
                await self._scan(master, pattern, doors)
            except OUTAGES as error:
                self._away[node] = error  # raised by `end`, after what the others have
        return doors

    def can_ask(self, door: bytes) -> bool:
        """Whether there is a server to ask about this door, and it has not failed yet."""
        if self._coverage is None:
            return not self._away
        node = self._coverage.owner_of(door)
        return node is not None and node not in self._away

    def failed(self, door: bytes, error: LockError) -> None:
        """Give up the server of this door for the rest of the survey."""
        node = None if self._coverage is None else self._coverage.owner_of(door)
        self._away[node] = error

    def end(self) -> None:
        """Raise if anything could not be asked: a partial list must not pass for a whole one."""
        if self._coverage is not None:
            incomplete = self._coverage.incomplete(self._away, where=self._wire.where)
            if incomplete is not None:
                raise incomplete
        for error in self._away.values():
            raise error

    async def _masters(self) -> dict[Endpoint | None, Wire]:
        wire = self._wire
        if not isinstance(wire, AsyncCluster):
            return {None: wire}
        self._coverage = found = await wire.coverage(deadline=self.deadline())
        for node, error in found.silent.items():
            if not isinstance(error, OUTAGES):
                raise error
            self._away[node] = error
        return {node: wire.node(node) for node in found.slots.masters if node not in found.silent}

    async def _scan(self, master: Wire, pattern: bytes, doors: set[bytes]) -> None:
        cursor = b"0"
        while True:
            request = packed(b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"1000")
            reply = await master.ask(request, deadline=self.deadline())
            if isinstance(reply, Refusal):
                raise refusals.refused(reply, where=self._wire.where)
            cursor, found = read(answers.scanned, reply, wire=master)
            doors.update(found)
            if cursor == b"0":
                return
