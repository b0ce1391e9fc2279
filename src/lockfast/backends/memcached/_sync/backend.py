# Generated from src/lockfast/backends/memcached/_async/backend.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The memcached backend: one server, and one item for each name."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from lockfast.backends._sync.backend import Backend
from lockfast.backends.memcached import meta, verbs
from lockfast.backends.memcached.address import OPTIONS, address_of_url
from lockfast.backends.memcached.connection_threads import MemcachedTransport
from lockfast.backends.memcached.diagnostics import Facts, findings, statistics
from lockfast.backends.memcached.records import key_of, listed_prefix
from lockfast.backends.memcached.verbs import PollPauses
from lockfast.backends.waiting._sync.wakeups import Wakeups
from lockfast.core.door import Tombstones, next_token
from lockfast.core.naming import checked_namespace
from lockfast.errors import LockError
from lockfast.model import Capabilities, Grant, Held, Renewal, TokenQuality
from lockfast.options import checked_switch
from lockfast.runtime import fork
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lockfast.model import Claim, Finding, Holder, Inspection
    from lockfast.runtime.clock import Clock

RENEW_BATCH = 250
"""Number of leases renewed, or names read, in one batch; a larger batch would block the event loop.
"""


class MemcachedBackend(Backend):
    """Locks in a memcached server; each lock is an item changed only by compare-and-swap."""

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
    renewals_at_once = RENEW_BATCH
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
        ours = listed_prefix(self._namespace)
        self._transport = MemcachedTransport(address, ours=ours, clock=clock)
        # Slow requests have a connection of their own, because a request for all keys, or for a
        # statistic, delays all requests behind it.
        self._slow_transport = MemcachedTransport(address, ours=ours, clock=clock)
        self._state = runtime.StateLock()
        self._tombstones = Tombstones()
        self._pauses = PollPauses()
        self._wakeups = Wakeups(clock)
        fork.reset_in_child(self)

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        with self._state:
            self._longest_ttl = max(self._longest_ttl, claim.ttl)
        begin = partial(
            verbs.acquire,
            key=self._key(claim.name),
            claim=claim,
            mint=self._token_after,
            is_over=self._is_over,
        )
        answer = self._transport.run_steps(begin, deadline=deadline)
        if isinstance(answer, Grant) or not claim.queues:
            self._forget(claim)
            return answer
        self._wakeups.expect(claim.id)
        with self._state:
            return self._pauses.with_retry(claim, answer, jitter=self._clock.jitter())

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        outcomes = self._transport.run_all_steps(
            [
                partial(verbs.renew, key=self._key(one.claim.name), claim=one.claim)
                for one in grants
            ],
            deadline=deadline,
        )
        return [Renewal.UNKNOWN if isinstance(one, LockError) else one for one in outcomes]

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        claim = grant.claim
        return self._end(claim, min_hold=claim.min_hold, deadline=deadline, tombstone=tombstone)

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        self._forget(claim)
        self._end(claim, min_hold=0.0, deadline=deadline, tombstone=tombstone)

    def _end(self, claim: Claim, *, min_hold: float, deadline: float, tombstone: bool) -> bool:
        if tombstone:
            with self._state:
                self._tombstones.bury(claim, now=self._clock.now())
        return self._transport.run_steps(
            partial(
                verbs.end,
                key=self._key(claim.name),
                claim=claim,
                min_hold=min_hold,
                tombstone=tombstone,
            ),
            deadline=deadline,
        )

    def wait(self, claim: Claim, *, deadline: float) -> None:
        """Wait until the deadline, because this store sends no wakeups."""
        self._wakeups.wait(claim.id, deadline=deadline)

    def wake(self, claim: Claim) -> None:
        self._wakeups.wake(claim.id)

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        """Return who holds the name; this store has no line."""
        begin = partial(verbs.inspect, key=self._key(name), name=name)
        return self._transport.run_steps(begin, deadline=deadline)

    def survey(self, prefix: str, *, deadline: float) -> Iterator[Inspection]:
        """Yield the names in use; `deadline` limits each round trip, not the whole survey."""
        patience = deadline - self._clock.now()
        listed = self._slow_transport.answer(meta.EVERY_KEY, deadline=deadline)
        keys = _keys(listed, namespace=self._namespace)
        found: list[Inspection] = []
        for first in range(0, len(keys), RENEW_BATCH):
            answers = self._transport.run_all_steps(
                [partial(verbs.named, key=key) for key in keys[first : first + RENEW_BATCH]],
                deadline=self._clock.now() + patience,
            )
            for one in answers:
                if isinstance(one, LockError):
                    raise one
                if one is not None and one.is_in_use and one.name.startswith(prefix):
                    found.append(one)
        for each in sorted(found, key=lambda each: each.name.encode()):
            yield each

    def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        """Break the hold; with `owner` nothing is broken, as this store has no explicit owners."""
        if owner is not None:
            return ()
        begin = partial(verbs.break_, key=self._key(name), token=token)
        return self._transport.run_steps(begin, deadline=deadline)

    def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        asked = [meta.STATS, meta.STATS_SETTINGS, meta.STATS_ITEMS]
        answers = [self._slow_transport.answer(one, deadline=deadline) for one in asked]
        general, settings, items = map(statistics, answers)
        return findings(Facts(self._address, self._longest_ttl, general, settings, items))

    def attach(self, *, ttl: float, hurry: Callable[[], None]) -> None:
        """Record the ttl for the diagnosis."""
        del hurry
        self._longest_ttl = ttl

    def disown(self, client: str, *, deadline: float) -> None:
        """Do nothing, because the client's holds end by their ttl in any case."""
        del client, deadline

    def close(self) -> None:
        runtime.run_all_steps(self._transport.close, self._slow_transport.close)

    def after_fork_in_child(self) -> None:
        """Start the child without any state of the parent."""
        self._transport.after_fork_in_child()
        self._slow_transport.after_fork_in_child()
        self._state = runtime.StateLock()
        self._tombstones, self._pauses = Tombstones(), PollPauses()
        self._wakeups = Wakeups(self._clock)

    def _key(self, name: str) -> bytes:
        return key_of(self._namespace, name)

    def _token_after(self, last: int) -> int:
        """Return the token of the next grant, or 0 if this client does not use tokens.

        Tokens come from this machine's clock, because nothing in the protocol reports the server's
        clock. So the tokens are unsafe, and only clients that opted in get them.
        """
        return next_token(last=last, clock=time.time()) if self._has_tokens else 0

    def _is_over(self, claim: Claim) -> bool:
        with self._state:
            return self._tombstones.has(claim, now=self._clock.now())

    def _forget(self, claim: Claim) -> None:
        self._wakeups.forget(claim.id)
        with self._state:
            self._pauses.forget(claim)


def _keys(listed: meta.TextLines, *, namespace: str) -> list[bytes]:
    """Return our keys, unquoted, from the list that the server sent."""
    keys = [unquote_to_bytes(one.split(b" ")[0].removeprefix(b"key=")) for one in listed.lines]
    ours = tuple(f"{namespace}{mark}".encode() for mark in "=#")
    return [one for one in keys if one.startswith(ours)]
