"""A store with sessions in memory, and its transport, which a test can make fail at will.

The store works like etcd: a keep-alive proves itself, a separate request admits a claim, and a
claim that does not queue never joins a line of other claims.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lockfast.backends.sessions import records
from lockfast.backends.sessions._async.backend import AsyncSessionsBackend
from lockfast.backends.sessions._async.transport import AsyncSessionLines, AsyncSessionTransport
from lockfast.backends.sessions.line import LineView, Watch
from lockfast.backends.sessions.records import (
    KeepAliveReply,
    Opening,
    OwnEntry,
    SeenEntry,
    SessionClaim,
)
from lockfast.errors import BackendUnavailable, ConfigurationError
from lockfast.model import Capabilities, Claim, Finding, TokenQuality
from lockfast.runtime.clock import Clock


@dataclass(frozen=True)
class Standing:
    """One claim in the store, kept by a session."""

    name: str
    claim: Claim
    token: int
    data: bytes
    party: str | None = None

    @property
    def claim_id(self) -> str:
        return self.claim.id

    @property
    def weight(self) -> int:
        return self.claim.weight


@dataclass
class Store:
    """The state that all transports share, and the faults that a test injects."""

    standing: dict[str, Standing] = field(default_factory=dict)
    admitted: list[str] = field(default_factory=list)
    watches: dict[str, list[Watch]] = field(default_factory=dict)
    is_deposed: bool = False
    """Whether the store answers keep-alives although no quorum confirms them."""
    refuses: bool = False
    is_back_at: float = 0.0
    """The time until which no deletion is answered."""
    moves: int = 0
    """How many of the next admissions find that the line has moved."""
    retry_in: float | None = None
    beats: int = 0
    hung_up: int = 0
    revisions: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def line(self, name: str) -> list[Standing]:
        found = [one for one in self.standing.values() if one.claim.name == name]
        return sorted(found, key=lambda one: one.token)

    def drop(self, key: str) -> bool:
        for watch in self.watches.pop(key, []):
            watch()
        return self.standing.pop(key, None) is not None


class MemoryWire(AsyncSessionTransport, AsyncSessionLines):
    """The transport of one session, and its lines."""

    where = "memory with sessions"

    def __init__(self, store: Store, *, ttl: float, clock: Clock) -> None:
        self.lines = self
        self._is_over = False
        self._store = store
        self._ttl = ttl
        self._clock = clock

    @property
    def is_over(self) -> bool:
        return self._is_over

    async def open(self, *, deadline: float) -> Opening:
        del deadline
        return Opening(self._ttl, self._clock.now())

    async def beat(self, *, confirm: bool, deadline: float) -> KeepAliveReply:
        del confirm, deadline
        self._store.beats += 1
        now = self._clock.now()
        return KeepAliveReply(now, now, is_confirmed=not self._store.is_deposed, proves_itself=True)

    async def own(self, *, deadline: float) -> Sequence[OwnEntry]:
        del deadline
        return [OwnEntry(key, one.claim.id) for key, one in self._store.standing.items()]

    def hang_up(self) -> None:
        self._store.hung_up += 1

    async def close(self, *, goodbye: bool, deadline: float) -> None:
        del deadline
        self._is_over = True
        if goodbye:
            for key in list(self._store.standing):
                self._store.drop(key)

    def abandon_connection(self) -> None:
        self._is_over = True

    async def arrive(self, one: SessionClaim, *, deadline: float) -> LineView:
        del deadline
        store, claim = self._store, one.claim
        if store.refuses:
            raise ConfigurationError("nobody may come in here")
        if one.key is None and (claim.queues or not store.line(claim.name)):
            token = next(store.revisions)
            key = f"{claim.name}/{claim.id}"
            store.standing[key] = Standing(claim.id, claim, token, records.of_claim(claim))
            one.record_entry(key, token=token)
        return self._line(claim.name, key=one.key, capacity=claim.capacity)

    async def admit(self, one: SessionClaim, line: LineView, *, deadline: float) -> bool:
        del line, deadline
        if self._store.moves:
            self._store.moves -= 1
            return False
        self._store.admitted.append(one.claim.name)
        return True

    async def read(
        self,
        asked: Sequence[tuple[str, Watch | None]],
        *,
        line: LineView | None = None,
        deadline: float,
    ) -> Sequence[SeenEntry | None]:
        del line, deadline
        for key, watch in asked:
            if watch is not None and key in self._store.standing:
                self._store.watches.setdefault(key, []).append(watch)
        found = [self._store.standing.get(key) for key, _ in asked]
        return [
            None if one is None else SeenEntry(one.data, one.token, 0.0, 0.0, was_touched=False)
            for one in found
        ]

    async def delete(self, one: SessionClaim, *, deadline: float) -> bool:
        back_at = self._store.is_back_at
        await asyncio.sleep(min(back_at, deadline) - self._clock.now())
        if back_at > deadline:
            raise BackendUnavailable("nobody listens")
        return one.key is not None and self._store.drop(one.key)

    async def close_for(self, one: SessionClaim, seconds: float, *, deadline: float) -> bool:
        raise NotImplementedError

    async def remove(
        self, asked: Sequence[tuple[str, int | None]], *, deadline: float
    ) -> Sequence[bool]:
        del deadline
        return [self._store.drop(key) for key, _ in asked]

    async def look(self, name: str, *, confirm: bool, deadline: float) -> LineView:
        del confirm, deadline
        return self._line(name, key=None, capacity=1)

    async def names(self, *, deadline: float) -> Sequence[str]:
        del deadline
        return sorted({one.claim.name for one in self._store.standing.values()})

    async def diagnose(
        self, *, asked: float, granted: float, seconds: float, deadline: float
    ) -> Sequence[Finding]:
        del asked, granted, seconds, deadline
        return []

    def _line(self, name: str, *, key: str | None, capacity: int) -> LineView:
        entries = self._store.line(name)
        keys = [f"{name}/{one.name}" for one in entries]
        number = keys.index(key) if key in keys else None
        line = LineView(entries, capacity, prefix=f"{name}/", number=number)
        line.retry_in = self._store.retry_in
        return line


class AsyncMemorySessionsBackend(AsyncSessionsBackend):
    """The backend on an in-memory store with sessions."""

    capabilities = Capabilities(
        fair=True,
        shared=True,
        push_wakeup=True,
        explicit_owner=False,
        lock_delay=False,
        token_quality=TokenQuality.PROCESS,
        ends_by="session",
    )
    min_ttl = 0.05

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self.store = store
        self._set_up(location="memory with sessions", clock=clock)

    def _new_transport(self, ttl: float, changed: Callable[[], None]) -> MemoryWire:
        del changed
        return MemoryWire(self.store, ttl=ttl, clock=self._clock)
