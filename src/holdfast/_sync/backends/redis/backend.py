# Generated from src/holdfast/_async/backends/redis/backend.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The verbs on one Redis server, or on one that took its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._sync.backends.redis.inbox import Inbox
from holdfast.core.door import another_capacity
from holdfast.core.naming import checked_namespace
from holdfast.model import Capabilities, Finding, Grant, Held, Inspection, Renewal, TokenQuality
from holdfast.runtime import forking
from holdfast.wire import refusals, verbs
from holdfast.wire.resp import Refusal, Reply, packed
from holdfast.wire.threads import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.model import Claim, Holder
    from holdfast.runtime.clock import Clock

RUNG = float("inf")
"""When a claim in line should ask again: when it is rung, since heartbeats watch for the rest."""

TOGETHER = 500
"""As many renewals go in one write."""


class RedisBackend:
    """Locks in a Redis server, by one script per verb."""

    capabilities = Capabilities(
        fair=True,
        shared=True,
        push_wakeup=True,
        explicit_owner=True,
        lock_delay=True,
        token_quality=TokenQuality.BEST_EFFORT,
        ends_by="ttl",
    )
    min_ttl = 0.05
    options = frozenset(
        {
            "username",
            "password",
            "credential_provider",
            "ssl_ca_certs",
            "ssl_ca_path",
            "ssl_certfile",
            "ssl_check_hostname",
            "ssl_keyfile",
        }
    )

    def __init__(
        self,
        *,
        url: str,
        location: str,
        clock: Clock,
        namespace: str = "holdfast",
        **options: object,
    ) -> None:
        wire = Wire.from_url(url, options=options, clock=clock, where=location)
        self._set_up(wire, clock=clock, namespace=namespace)

    def _set_up(self, wire: Wire, *, clock: Clock, namespace: str) -> None:
        self.location = wire.where
        self._clock = clock
        self._wire = wire
        self._keys = verbs.Keys(checked_namespace(namespace))
        self._inbox = Inbox(wire, self._keys, clock)
        forking.forget_in_child(self)

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """See the protocol."""
        inbox = self._inbox.name if claim.queues else ""
        request = verbs.acquire(self._keys.of(claim.name), claim, inbox)
        reply = self._call("acquire", request, deadline=deadline)
        if reply.__class__ is int:
            self._inbox.forget(claim.id)
            return Grant(claim, reply, claim.ttl)
        if reply[0] == 0:
            raise another_capacity(claim, in_use=reply[1])
        place = verbs.place(reply)
        if place.number is None:
            self._inbox.forget(claim.id)
            return Held(place.holders, None, place.ends_in)
        self._inbox.stands(claim, epoch=place.epoch, ends_in=place.ends_in)
        return Held(place.holders, place.number, RUNG)

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        """See the protocol."""
        outcomes: list[Renewal] = []
        for i in range(0, len(grants), TOGETHER):
            requests = [
                verbs.renew(self._keys.of(grant.claim.name), grant.claim)
                for grant in grants[i : i + TOGETHER]
            ]
            replies = self._call_all("renew", requests, deadline=deadline)
            outcomes += [
                verbs.RENEWALS[reply] if isinstance(reply, int) else Renewal.UNKNOWN
                for reply in replies
            ]
        return outcomes

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """See the protocol."""
        claim = grant.claim
        request = verbs.release(self._keys.of(claim.name), claim, tombstone=tombstone)
        return bool(self._call("release", request, deadline=deadline))

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """See the protocol."""
        self._inbox.forget(claim.id)
        request = verbs.withdraw(self._keys.of(claim.name), claim, tombstone=tombstone)
        self._call("withdraw", request, deadline=deadline)

    def wait(self, claim: Claim, *, deadline: float) -> None:
        """See the protocol."""
        self._inbox.wait(claim, deadline=deadline)

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        """See the protocol."""
        first, after = self._page(name, b"0", deadline)
        line = first.line
        while after is not None:
            following, after = self._page(name, after, deadline)
            line += following.line
        return verbs.whole(first, line)

    def survey(self, prefix: str, *, deadline: float) -> Iterator[Inspection]:
        """See the protocol; the deadline is for each request, as there may be many."""
        patience = deadline - self._clock.now()
        pattern = self._keys.doors(prefix)
        doors: set[bytes] = set()
        cursor = b"0"
        while True:
            request = packed(b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"1000")
            cursor, found = self._ask(request, deadline=self._clock.now() + patience)
            doors.update(found)
            if cursor == b"0":
                break
        for name in sorted((self._keys.name_of(door) for door in doors), key=str.encode):
            one = self.inspect(name, deadline=self._clock.now() + patience)
            if one.holders or one.line:
                yield one

    def break_(self, name: str, *, deadline: float) -> tuple[Holder, ...]:
        """See the protocol."""
        keys = self._keys.of(name)
        broken: tuple[Holder, ...] = ()
        skipped = 0
        while skipped >= 0:
            reply = self._call("break", verbs.break_(keys, skipped), deadline=deadline)
            now, skipped, *records = reply
            broken += verbs.holders(records, now)
        return broken

    def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """See the protocol."""
        self._ask(packed(b"PING"), deadline=deadline)
        return (Finding("ok", "server", f"{self.location} answers"),)

    def disown(self, client: str, *, deadline: float) -> None:
        """See the protocol; here what is held ends by its ttl in any case."""
        del client, deadline

    def close(self) -> None:
        """See the protocol."""
        self._inbox.stop()
        self._wire.close()

    def after_fork_in_child(self) -> None:
        """Let the child begin with nothing of the parent's."""
        self._wire.after_fork_in_child()
        self._inbox.after_fork_in_child()

    # -- asking ------------------------------------------------------------------------

    def _page(self, name: str, arrival: bytes, deadline: float) -> tuple[Inspection, bytes | None]:
        request = verbs.inspect(self._keys.of(name), arrival)
        return verbs.page(name, self._call("inspect", request, deadline=deadline))

    def _call(self, verb: str, request: bytes, *, deadline: float) -> Reply:
        """Return what a script answers, letting the server know the script if it does not."""
        reply = self._wire.ask(request, deadline=deadline)
        if reply.__class__ is Refusal:
            if reply.code != "NOSCRIPT":
                raise refusals.refused(reply, where=self.location)
            self._ask(verbs.load(verb), deadline=deadline)
            return self._ask(request, deadline=deadline)
        return reply

    def _call_all(self, verb: str, requests: Sequence[bytes], *, deadline: float) -> list[Reply]:
        """Return what a script answers to each; an error in place of a missing answer."""
        replies = self._wire.ask_all(requests, deadline=deadline)
        unknown = [
            i
            for i, reply in enumerate(replies)
            if isinstance(reply, Refusal) and reply.code == "NOSCRIPT"
        ]
        if unknown:
            self._ask(verbs.load(verb), deadline=deadline)
            again = self._wire.ask_all([requests[i] for i in unknown], deadline=deadline)
            for i, reply in zip(unknown, again, strict=True):
                replies[i] = reply
        return replies

    def _ask(self, request: bytes, *, deadline: float) -> Reply:
        reply = self._wire.ask(request, deadline=deadline)
        if isinstance(reply, Refusal):
            raise refusals.refused(reply, where=self.location)
        return reply
