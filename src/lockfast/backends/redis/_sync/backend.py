# Generated from src/lockfast/backends/redis/_async/backend.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The Redis backend: one server, the master that Sentinels name, or a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from lockfast.backends._sync.backend import Backend
from lockfast.backends.network.codec import read
from lockfast.backends.redis import errors, requests
from lockfast.backends.redis import replies as redis_replies
from lockfast.backends.redis._sync.diagnose import ServerQuestion, diagnosed
from lockfast.backends.redis._sync.survey import OUTAGES, Survey
from lockfast.backends.redis._sync.topology import transport_to
from lockfast.backends.redis._sync.waiting import RedisWaiting, WaitingClaim
from lockfast.backends.redis.address import (
    SENTINEL_OPTIONS,
    SERVER_OPTIONS,
    address_of_client,
    address_of_url,
)
from lockfast.backends.redis.durability import checked_durability, confirmation, unconfirmed
from lockfast.backends.redis.resp import ErrorReply, Reply
from lockfast.backends.waiting._sync.inbox import Inbox
from lockfast.core.door import ADMISSION_WINDOW_SECONDS, capacity_conflict
from lockfast.core.naming import checked_namespace
from lockfast.errors import LockError
from lockfast.model import (
    FOREVER,
    Capabilities,
    Grant,
    Held,
    Inspection,
    Renewal,
    TokenQuality,
    Window,
)
from lockfast.runtime import fork
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockfast.backends.redis.address import Address
    from lockfast.model import Claim, Crowd, Finding, Holder
    from lockfast.runtime.clock import Clock

RENEW_BATCH = 250
"""Renewal batch size, small enough that neither the server nor an event loop stalls. On a cluster
there is no limit: one call renews all leases, and the transport splits them by node, because the
leases on one node must not wait for another node that is frozen."""

WAKEUP_ONLY = FOREVER
"""Retry delay of a claim in line. The claim asks again only when it is woken, because the client's
heartbeats detect every change that comes without a wakeup."""

PUSHED_GRANT_FRACTION = 0.5
"""Fraction of the admission window during which a claim uses a pushed grant without asking the
store. Later the claim asks, and the reply makes it a lease with a full ttl. Otherwise the rest of
the window might be too short for the first renewal, and the holder would be notified of a loss
although nobody else has the lock."""


class RedisBackend(Backend):
    """Locks on Redis, with one script per operation."""

    capabilities = Capabilities(
        fair=True,
        shared=True,
        push_wakeup=True,
        explicit_owner=True,
        lock_delay=True,
        token_quality=TokenQuality.BEST_EFFORT,
        ends_by="ttl",
        hands_over=True,
        sequencers=True,
    )
    min_ttl = 0.05
    options = SERVER_OPTIONS | SENTINEL_OPTIONS | {"durability"}

    def __init__(
        self,
        *,
        url: str,
        location: str,
        clock: Clock,
        namespace: str = "lockfast",
        durability: str | None = None,
        **options: object,
    ) -> None:
        address = address_of_url(url, where=location, options=options)
        self._set_up(address, clock=clock, namespace=namespace, durability=durability)

    @classmethod
    def from_client(
        cls,
        client: object,
        *,
        clock: Clock,
        namespace: str = "lockfast",
        durability: str | None = None,
    ) -> Self:
        """Return a backend for the servers that a redis-py or valkey-py client connects to.

        Only the client's settings are read: it is never closed, and its connections are not used.
        """
        self, address = cls.__new__(cls), address_of_client(client)
        self._set_up(address, clock=clock, namespace=namespace, durability=durability)
        return self

    def _set_up(
        self, address: Address, *, clock: Clock, namespace: str, durability: str | None
    ) -> None:
        self._durability = checked_durability(durability)
        requests.read_scripts()
        self._transport = transport = transport_to(address, clock=clock)
        # A request that waits for a confirmation blocks all later requests on the same connection,
        # so such requests have a connection of their own.
        self._slow_transport = (
            transport if self._durability is None else transport_to(address, clock=clock)
        )
        self.location = transport.where
        if not transport.is_sharded:
            self.renewals_at_once = RENEW_BATCH
        self._clock = clock
        self._keys = requests.RedisKeys(checked_namespace(namespace))
        self._waiting = RedisWaiting(transport, self._keys, clock)
        self._inbox = Inbox[WaitingClaim](self._waiting, clock)
        fork.reset_in_child(self)

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        waiting = self._inbox.waiter(claim.id)
        if waiting is not None and (pushed := self._pushed(waiting)) is not None:
            self._inbox.left(claim.id)
            return pushed
        asked_at = self._clock.now()
        inbox = self._inbox.channel if claim.queues else ""
        request = requests.acquire(self._keys.of(claim.name), claim, inbox)
        if self._durability is None:
            reply = self._transport.ask(request, deadline=deadline)
            if reply.__class__ is ErrorReply:
                reply = self._repeated("acquire", request, reply, deadline=deadline)
        else:
            [(reply, unproven)] = self._call_durably("acquire", [request], deadline=deadline)
            if isinstance(reply, LockError):
                raise reply
            if self._accepted(reply).__class__ is int and unproven is not None:
                # The grant was not confirmed and might be lost in a failover, so the caller tries
                # again or withdraws the claim.
                raise unproven
        if reply.__class__ is int:
            if waiting is not None:
                self._inbox.left(claim.id)
            return Grant(claim, reply, claim.ttl)
        refused = read(redis_replies.refused, reply, transport=self._transport)
        if isinstance(refused, int):
            raise capacity_conflict(claim, in_use=refused)
        in_line = refused
        if in_line.number is None:
            self._inbox.left(claim.id)
            return Held(in_line.holders, None, in_line.ends_in, in_line.closing)
        self._inbox.joined(
            WaitingClaim(claim, in_line.epoch, in_line.last_token, asked_at),
            ends_at=self._waiting.ends_at(in_line.ends_in),
            asked_on=inbox,
        )
        return Held(in_line.holders, in_line.number, WAKEUP_ONLY, in_line.closing)

    def try_acquire_all(
        self, claims: Sequence[Claim], *, deadline: float
    ) -> Sequence[Grant] | None:
        """Return None on a cluster, where names are on several nodes, or if a durability is set."""
        if self._transport.is_sharded or self._durability is not None:
            return None
        keys = [self._keys.of(claim.name) for claim in claims]
        request = requests.acquire_all(keys, claims)
        tokens = self._call("acquire_all", request, deadline=deadline)
        if tokens == 0:
            return None

        def grants(tokens: list[int]) -> list[Grant]:
            pairs = zip(claims, tokens, strict=True)
            return [Grant(claim, int(token), claim.ttl) for claim, token in pairs]

        return read(grants, tokens, transport=self._transport)

    def server_of(self, name: str) -> str:
        if not self._transport.is_sharded:
            return ""
        [server] = self._transport.parts([requests.inspect(self._keys.of(name), requests.Cursor())])
        return server

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        if self._transport.is_sharded:
            # The caller trusts no reply that arrives at the deadline. So give up a silent node
            # half-way to the deadline, while the other nodes' replies still count.
            deadline = (self._clock.now() + deadline) / 2
        asked = [requests.renew(self._keys.of(grant.claim.name), grant.claim) for grant in grants]
        return self._renew(asked, deadline=deadline)

    def _renew(self, asked: Sequence[bytes], *, deadline: float) -> list[Renewal]:
        if self._durability is not None:
            pairs = self._call_durably("renew", asked, deadline=deadline)
            return [
                _durable_renewal(
                    read(redis_replies.renewal, reply, transport=self._slow_transport), unproven
                )
                for reply, unproven in pairs
            ]
        replies = self._call_all("renew", asked, deadline=deadline)
        return [read(redis_replies.renewal, reply, transport=self._transport) for reply in replies]

    def hand_over(self, grant: Grant, *, deadline: float) -> Renewal:
        request = requests.hand_over(self._keys.of(grant.claim.name), grant.claim)
        [outcome] = self._renew([request], deadline=deadline)
        return outcome

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        claim = grant.claim
        request = requests.release(self._keys.of(claim.name), claim, tombstone=tombstone)
        reply = self._transport.ask(request, deadline=deadline)
        if reply.__class__ is ErrorReply:
            reply = self._repeated("release", request, reply, deadline=deadline)
        if reply.__class__ is int:
            return reply != 0
        return read(redis_replies.truth, reply, transport=self._transport)

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        self._inbox.left(claim.id)
        request = requests.withdraw(self._keys.of(claim.name), claim, tombstone=tombstone)
        reply = self._call("withdraw", request, deadline=deadline)
        read(redis_replies.truth, reply, transport=self._transport)

    def wait(self, claim: Claim, *, deadline: float) -> None:
        self._inbox.wait(claim, deadline=deadline)

    def wake(self, claim: Claim) -> None:
        self._inbox.wake([claim.id])

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        """The deadline applies to each request, because a long line takes several requests."""
        patience = deadline - self._clock.now()
        pages: list[redis_replies.InspectionPage] = []
        cursor: requests.Cursor | None = requests.Cursor()
        while cursor is not None:
            request = requests.inspect(self._keys.of(name), cursor)
            reply = self._call("inspect", request, deadline=self._clock.now() + patience)
            pages.append(read(redis_replies.page, reply, transport=self._transport))
            cursor = pages[-1].following
        return redis_replies.inspection(name, pages)

    def crowds(self, names: Sequence[str], *, deadline: float) -> Sequence[Crowd]:
        """Request only the first page of each name, all at once."""
        start = requests.Cursor()
        asked = [requests.inspect(self._keys.of(name), start) for name in names]
        replies = self._call_all("inspect", asked, deadline=deadline)
        for one in replies:
            if isinstance(one, LockError):
                raise one
        return [
            read(redis_replies.crowd, self._accepted(one), transport=self._transport)
            for one in replies
        ]

    def survey(self, prefix: str, *, deadline: float) -> Iterator[Inspection]:
        """The deadline applies to each request, because many names take many requests."""
        patience = deadline - self._clock.now()
        survey = Survey(self._transport, clock=self._clock, patience=patience)
        doors = survey.doors(self._keys.doors(prefix))
        for name in sorted((self._keys.name_of(door) for door in doors), key=str.encode):
            door = self._keys.door(name)
            if not survey.can_ask(door):
                continue
            try:
                one = self.inspect(name, deadline=survey.deadline())
            except OUTAGES as error:
                survey.failed(door, error)  # `end` raises the error after all other names
                continue
            if one.is_in_use:
                yield one
        survey.end()

    def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        """The deadline applies to each request, as each one breaks only some of the holders."""
        patience = deadline - self._clock.now()
        keys = self._keys.of(name)
        broken: tuple[Holder, ...] = ()
        skipped = 0
        while skipped >= 0:
            request = requests.break_(keys, skipped, token=token, owner=owner)
            until = self._clock.now() + patience
            reply = self._call("break", request, deadline=until)
            some, skipped = read(redis_replies.broken, reply, transport=self._transport)
            broken += some
        return broken

    def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        patience = deadline - self._clock.now()
        question = ServerQuestion(self._keys.namespace, self._durability, patience, self._clock)
        return diagnosed(self._transport, question)

    def disown(self, client: str, *, deadline: float) -> None:
        """Do nothing, because every hold on Redis ends with its ttl in any case."""
        del client, deadline

    def close(self) -> None:
        transports = {self._transport, self._slow_transport}
        runtime.run_all_steps(
            self._inbox.stop,
            self._waiting.stop,
            *(transport.close for transport in transports),
        )

    def after_fork_in_child(self) -> None:
        """Start afresh in the child, without any of the parent's state."""
        for transport in {self._transport, self._slow_transport}:
            transport.after_fork_in_child()
        self._inbox.after_fork_in_child()
        self._waiting.after_fork_in_child()

    def _pushed(self, waiting: WaitingClaim) -> Grant | None:
        """Return the grant that a wakeup message proves; None if the claim has to ask the store."""
        claim = waiting.claim
        token = self._inbox.heard(claim.id)
        # Tokens only grow. So a token larger than the last reply's was granted after that reply,
        # and its admission window began after we sent the request. A message with any other token
        # is about an earlier admission, which had ended by then, because otherwise the reply would
        # have been a grant.
        if token is None or token <= waiting.last_token or not self._may_be_pushed(claim):
            return None
        window = Window(waiting.asked_at, min(ADMISSION_WINDOW_SECONDS, claim.ttl))
        if self._clock.now() - window.since > window.seconds * PUSHED_GRANT_FRACTION:
            return None
        return Grant(claim, token, claim.ttl, window)

    def _may_be_pushed(self, claim: Claim) -> bool:
        """Return whether a message proves the claim's grant without a request to the store.

        The message is not enough if the grant needs a durability confirmation. Nor is it enough if
        the grant has effects beyond the admission window: it keeps the name closed after the hold,
        or other claims of the same explicit owner are admitted with it.
        """
        is_plain = claim.party is None and not claim.lock_delay and not claim.min_hold
        return is_plain and self._durability is None

    # -- requests ----------------------------------------------------------------------

    def _call(self, verb: str, request: bytes, *, deadline: float) -> Reply:
        """Return the script's reply, after loading the script if the server does not have it."""
        reply = self._transport.ask(request, deadline=deadline)
        return self._repeated(verb, request, reply, deadline=deadline)

    def _repeated(self, verb: str, request: bytes, reply: Reply, *, deadline: float) -> Reply:
        """Return the reply; if the server lacks the script, load it and repeat the request."""
        # Use a loop, because the server may lose the script again (SCRIPT FLUSH) between our
        # requests.
        while reply.__class__ is ErrorReply:
            if reply.code != "NOSCRIPT":
                raise errors.refused(reply, where=self.location)
            self._ask(requests.load(verb), deadline=deadline)
            reply = self._transport.ask(request, deadline=deadline)
        return reply

    def _call_all(self, verb: str, asked: Sequence[bytes], *, deadline: float) -> list[Reply]:
        """Return the script's reply to each request; an error stands in for a missing reply."""
        replies = self._transport.send_all(asked, deadline=deadline)
        unknown = [
            i
            for i, reply in enumerate(replies)
            if isinstance(reply, ErrorReply) and reply.code == "NOSCRIPT"
        ]
        if unknown:
            self._ask(requests.load(verb), deadline=deadline)
            again = self._transport.send_all([asked[i] for i in unknown], deadline=deadline)
            for i, reply in zip(unknown, again, strict=True):
                replies[i] = reply
        return replies

    def _call_durably(
        self, verb: str, asked: Sequence[bytes], *, deadline: float
    ) -> list[tuple[Reply, LockError | None]]:
        """Return the script's reply to each request, and an error if its effect is unconfirmed."""
        assert self._durability is not None  # noqa: S101 - or it would not be called
        durability, left = self._durability, deadline - self._clock.now()
        proof = confirmation(durability, left=left)
        both = [part for one in asked for part in (one, proof)]
        replies = self._slow_transport.send_all(both, deadline=deadline)
        if any(isinstance(one, ErrorReply) and one.code == "NOSCRIPT" for one in replies):
            self._ask(requests.load(verb), deadline=deadline)
            replies = self._slow_transport.send_all(both, deadline=deadline)
        return [
            (reply, unconfirmed(proven, durability, where=self.location))
            for reply, proven in zip(replies[::2], replies[1::2], strict=True)
        ]

    def _ask(self, request: bytes, *, deadline: float) -> Reply:
        return self._accepted(self._transport.ask(request, deadline=deadline))

    def _accepted(self, reply: Reply) -> Reply:
        if isinstance(reply, ErrorReply):
            raise errors.refused(reply, where=self.location)
        return reply


def _durable_renewal(outcome: Renewal, unproven: LockError | None) -> Renewal:
    # An unconfirmed renewal does not extend the previous lease, which was confirmed.
    return Renewal.UNKNOWN if outcome is Renewal.RENEWED and unproven is not None else outcome
