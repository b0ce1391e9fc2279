"""The verbs on memcached: one server, one item for each name."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from lockfast._async.backend import AsyncBackend
from lockfast._async.wakeups import AsyncWakeups
from lockfast.backends.memcached import meta, steps
from lockfast.backends.memcached.addresses import OPTIONS, address_of_url
from lockfast.backends.memcached.connection.aio import Wire
from lockfast.backends.memcached.findings import Facts, findings, statistics
from lockfast.backends.memcached.keys import key_of, listed_as
from lockfast.backends.memcached.pauses import Pauses
from lockfast.core.naming import checked_namespace
from lockfast.core.tokens import next_token
from lockfast.core.tombs import Tombs
from lockfast.errors import LockError
from lockfast.model import Capabilities, Grant, Held, Renewal, TokenQuality
from lockfast.options import checked_switch
from lockfast.runtime import aio as runtime
from lockfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from lockfast.model import Claim, Finding, Holder, Inspection
    from lockfast.runtime.clock import Clock

TOGETHER = 250
"""As many leases are renewed, or names read, at once: no event loop stands still for them."""


class AsyncMemcachedBackend(AsyncBackend):
    """Locks in a memcached server, each an item that is changed by compare-and-swap alone."""

    capabilities = Capabilities(
        fair=False,
        shared=False,
        push_wakeup=False,
        explicit_owner=False,
        lock_delay=False,
        token_quality=TokenQuality.NONE,
        ends_by="ttl",
    )
    min_ttl = 0.05
    renewals_at_once = TOGETHER
    options = OPTIONS | {"unsafe_clock_tokens"}

    def __init__(
        self,
        *,
        url: str,
        location: str,
        clock: Clock,
        namespace: str = "lockfast",
        unsafe_clock_tokens: object = False,
        **options: object,
    ) -> None:
        address = address_of_url(url, where=location, options=options)
        self.location = location
        self._address = address
        self._has_tokens = checked_switch("unsafe_clock_tokens", unsafe_clock_tokens)
        self._clock = clock
        self._longest_ttl = 0.0
        self._namespace = checked_namespace(namespace)
        ours = listed_as(self._namespace)
        self._wire = Wire(address, ours=ours, clock=clock)
        # A list of all keys, or a statistic, stands in the way of all that comes behind it.
        self._slow_wire = Wire(address, ours=ours, clock=clock)
        self._state = runtime.StateLock()
        self._tombs = Tombs()
        self._pauses = Pauses()
        self._wakeups = AsyncWakeups(clock)
        forking.forget_in_child(self)

    async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """See the protocol."""
        with self._state:
            self._longest_ttl = max(self._longest_ttl, claim.ttl)
        begin = partial(
            steps.acquire,
            key=self._key(claim.name),
            claim=claim,
            mint=self._token_after,
            is_over=self._is_over,
        )
        answer = await self._wire.converse(begin, deadline=deadline)
        if isinstance(answer, Grant) or not claim.queues:
            self._forget(claim)
            return answer
        self._wakeups.expect(claim.id)
        with self._state:
            return self._pauses.told(claim, answer, jitter=self._clock.jitter())

    async def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        """See the protocol."""
        outcomes = await self._wire.converse_all(
            [
                partial(steps.renew, key=self._key(one.claim.name), claim=one.claim)
                for one in grants
            ],
            deadline=deadline,
        )
        return [Renewal.UNKNOWN if isinstance(one, LockError) else one for one in outcomes]

    async def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """See the protocol."""
        claim = grant.claim
        return await self._end(
            claim, min_hold=claim.min_hold, deadline=deadline, tombstone=tombstone
        )

    async def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """See the protocol."""
        self._forget(claim)
        await self._end(claim, min_hold=0.0, deadline=deadline, tombstone=tombstone)

    async def _end(
        self, claim: Claim, *, min_hold: float, deadline: float, tombstone: bool
    ) -> bool:
        if tombstone:
            with self._state:
                self._tombs.bury(claim, now=self._clock.now())
        return await self._wire.converse(
            partial(
                steps.end,
                key=self._key(claim.name),
                claim=claim,
                min_hold=min_hold,
                tombstone=tombstone,
            ),
            deadline=deadline,
        )

    async def wait(self, claim: Claim, *, deadline: float) -> None:
        """See the protocol: nobody rings here, so it lasts as long as the pause."""
        await self._wakeups.wait(claim.id, deadline=deadline)

    def rouse(self, claim: Claim) -> None:
        """See the protocol."""
        self._wakeups.ring(claim.id)

    async def inspect(self, name: str, *, deadline: float) -> Inspection:
        """See the protocol; there is no line to tell of."""
        begin = partial(steps.inspect, key=self._key(name), name=name)
        return await self._wire.converse(begin, deadline=deadline)

    async def survey(self, prefix: str, *, deadline: float) -> AsyncIterator[Inspection]:
        """See the protocol; the deadline is for each round trip, as there may be many."""
        patience = deadline - self._clock.now()
        listed = await self._slow_wire.answer(meta.EVERY_KEY, deadline=deadline)
        keys = _keys(listed, namespace=self._namespace)
        found: list[Inspection] = []
        for first in range(0, len(keys), TOGETHER):
            answers = await self._wire.converse_all(
                [partial(steps.named, key=key) for key in keys[first : first + TOGETHER]],
                deadline=self._clock.now() + patience,
            )
            for one in answers:
                if isinstance(one, LockError):
                    raise one
                if one is not None and one.is_in_use and one.name.startswith(prefix):
                    found.append(one)
        for each in sorted(found, key=lambda each: each.name.encode()):
            yield each

    async def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        """See the protocol; no explicit owner ever holds anything here."""
        if owner is not None:
            return ()
        begin = partial(steps.break_, key=self._key(name), token=token)
        return await self._wire.converse(begin, deadline=deadline)

    async def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """See the protocol."""
        asked = [meta.STATS, meta.STATS_SETTINGS, meta.STATS_ITEMS]
        answers = [await self._slow_wire.answer(one, deadline=deadline) for one in asked]
        general, settings, items = map(statistics, answers)
        return findings(Facts(self._address, self._longest_ttl, general, settings, items))

    def attach(self, *, ttl: float, hurry: Callable[[], None]) -> None:
        """See the protocol; a diagnosis speaks of the ttl."""
        del hurry
        self._longest_ttl = ttl

    async def disown(self, client: str, *, deadline: float) -> None:
        """See the protocol; here what is held ends by its ttl in any case."""
        del client, deadline

    async def aclose(self) -> None:
        """See the protocol."""
        await runtime.each_in_turn(self._wire.close, self._slow_wire.close)

    def after_fork_in_child(self) -> None:
        """Let the child begin with nothing of the parent's."""
        self._wire.after_fork_in_child()
        self._slow_wire.after_fork_in_child()
        self._state = runtime.StateLock()
        self._tombs, self._pauses = Tombs(), Pauses()
        self._wakeups = AsyncWakeups(self._clock)

    def _key(self, name: str) -> bytes:
        return key_of(self._namespace, name)

    def _token_after(self, last: int) -> int:
        """Return the token of the next grant, 0 where there are none.

        The clock is this machine's: nothing in the protocol tells the server's. So it is unsafe,
        and only for those who asked for it.
        """
        return next_token(last=last, clock=time.time()) if self._has_tokens else 0

    def _is_over(self, claim: Claim) -> bool:
        with self._state:
            return self._tombs.has(claim, now=self._clock.now())

    def _forget(self, claim: Claim) -> None:
        self._wakeups.forget(claim.id)
        with self._state:
            self._pauses.forget(claim)


def _keys(listed: meta.Lines, *, namespace: str) -> list[bytes]:
    """Return our keys among those that the server listed; it quotes them."""
    keys = [unquote_to_bytes(one.split(b" ")[0].removeprefix(b"key=")) for one in listed.lines]
    ours = tuple(f"{namespace}{mark}".encode() for mark in "=#")
    return [one for one in keys if one.startswith(ours)]
