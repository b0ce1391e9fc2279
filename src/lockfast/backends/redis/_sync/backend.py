# Generated from src/lockfast/backends/redis/_async/backend.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The verbs on Redis: one server, whichever one Sentinel calls the master, or a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from lockfast._sync.backend import Backend
from lockfast.backends.redis import answers, refusals, requests
from lockfast.backends.redis._sync.connecting import AnyWire, wire_of_client, wire_to_url
from lockfast.backends.redis._sync.diagnosis import Question, diagnosed
from lockfast.backends.redis._sync.inbox import Inbox
from lockfast.backends.redis._sync.surveying import OUTAGES, Survey
from lockfast.backends.redis.durability import checked_durability, confirmation, unconfirmed
from lockfast.backends.redis.resp import Refusal, Reply
from lockfast.backends.wires.parsing import read
from lockfast.core.door import WINDOW, another_capacity
from lockfast.core.naming import checked_namespace
from lockfast.errors import LockError
from lockfast.model import (
    Capabilities,
    Grant,
    Held,
    Inspection,
    Renewal,
    TokenQuality,
    Window,
)
from lockfast.runtime import forking
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lockfast.backends.redis.lines import Waiting
    from lockfast.model import Claim, Crowd, Finding, Holder
    from lockfast.runtime.clock import Clock

TOGETHER = 250
"""As many leases are renewed at once: neither the server nor an event loop stands still for
them. On a cluster all of them are, since they are parted by node, and no node's next ones may
wait for another that is frozen."""

RUNG = float("inf")
"""When a claim in line should ask again: when it is rung, since heartbeats watch for the rest."""

ENOUGH = 0.5
"""A pushed grant whose window is older than this part of it is asked about: asking makes it a
lease of a full ttl in one request, while what is left might not do for the renewal that must
come first, and the holder would be told of a loss where nobody has taken anything."""


class RedisBackend(Backend):
    """Locks in a Redis server, by one script per verb."""

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
    options = frozenset(
        {
            "username",
            "password",
            "credential_provider",
            "db",
            "durability",
            "sentinel_username",
            "sentinel_password",
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
        namespace: str = "lockfast",
        durability: str | None = None,
        **options: object,
    ) -> None:
        def connect() -> AnyWire:
            return wire_to_url(url, where=location, options=options, clock=clock)

        self._set_up(connect, clock=clock, namespace=namespace, durability=durability)

    @classmethod
    def from_client(
        cls,
        client: object,
        *,
        clock: Clock,
        namespace: str = "lockfast",
        durability: str | None = None,
    ) -> Self:
        """Return locks where a client of redis-py or valkey-py connects to.

        Only its settings are read: it is never closed, and its connections are not used.
        """
        self = cls.__new__(cls)

        def connect() -> AnyWire:
            return wire_of_client(client, clock=clock)

        self._set_up(connect, clock=clock, namespace=namespace, durability=durability)
        return self

    def _set_up(
        self,
        connect: Callable[[], AnyWire],
        *,
        clock: Clock,
        namespace: str,
        durability: str | None,
    ) -> None:
        self._durability = checked_durability(durability)
        requests.read_scripts()
        self._wire = wire = connect()
        # What waits for a confirmation stands in the way of all that comes behind it.
        self._slow_wire = wire if self._durability is None else connect()
        self.location = wire.where
        if not wire.is_sharded:
            self.renewals_at_once = TOGETHER
        self._clock = clock
        self._keys = requests.Keys(checked_namespace(namespace))
        self._inbox = Inbox(wire, self._keys, clock)
        forking.forget_in_child(self)

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """See the protocol."""
        waiting = self._inbox.lines.waiting.get(claim.id)
        if waiting is not None and (pushed := self._pushed(waiting)) is not None:
            self._inbox.forget(claim.id)
            return pushed
        asked_at = self._clock.now()
        inbox = self._inbox.name if claim.queues else ""
        request = requests.acquire(self._keys.of(claim.name), claim, inbox)
        if self._durability is None:
            reply = self._wire.ask(request, deadline=deadline)
            if reply.__class__ is Refusal:
                reply = self._repeated("acquire", request, reply, deadline=deadline)
        else:
            [(reply, unproven)] = self._call_durably("acquire", [request], deadline=deadline)
            if isinstance(reply, LockError):
                raise reply
            if self._accepted(reply).__class__ is int and unproven is not None:
                # Not known to last: whoever asks tries again, or gives it back.
                raise unproven
        if reply.__class__ is int:
            if waiting is not None:
                self._inbox.forget(claim.id)
            return Grant(claim, reply, claim.ttl)
        refused = read(answers.refused, reply, wire=self._wire)
        if isinstance(refused, int):
            raise another_capacity(claim, in_use=refused)
        in_line = refused
        if in_line.number is None:
            self._inbox.forget(claim.id)
            return Held(in_line.holders, None, in_line.ends_in, in_line.closing)
        self._inbox.stands(claim, in_line, inbox=inbox, asked_at=asked_at)
        return Held(in_line.holders, in_line.number, RUNG, in_line.closing)

    def try_acquire_all(
        self, claims: Sequence[Claim], *, deadline: float
    ) -> Sequence[Grant] | None:
        """See the protocol; on a cluster the names are on different nodes."""
        if self._wire.is_sharded or self._durability is not None:
            return None
        keys = [self._keys.of(claim.name) for claim in claims]
        request = requests.acquire_all(keys, claims)
        tokens = self._call("acquire_all", request, deadline=deadline)
        if tokens == 0:
            return None

        def grants(tokens: list[int]) -> list[Grant]:
            pairs = zip(claims, tokens, strict=True)
            return [Grant(claim, int(token), claim.ttl) for claim, token in pairs]

        return read(grants, tokens, wire=self._wire)

    def server_of(self, name: str) -> str:
        """See the protocol."""
        if not self._wire.is_sharded:
            return ""
        [server] = self._wire.parts([requests.inspect(self._keys.of(name), requests.Cursor())])
        return server

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        """See the protocol."""
        if self._wire.is_sharded:
            # Whoever asks trusts no answer that it gets at the deadline. So a node that does
            # not answer is given up half-way, while the answers of the others still count.
            deadline = (self._clock.now() + deadline) / 2
        asked = [requests.renew(self._keys.of(grant.claim.name), grant.claim) for grant in grants]
        return self._renew(asked, deadline=deadline)

    def _renew(self, asked: Sequence[bytes], *, deadline: float) -> list[Renewal]:
        if self._durability is not None:
            pairs = self._call_durably("renew", asked, deadline=deadline)
            return [
                _durable_renewal(read(answers.renewal, reply, wire=self._slow_wire), unproven)
                for reply, unproven in pairs
            ]
        replies = self._call_all("renew", asked, deadline=deadline)
        return [read(answers.renewal, reply, wire=self._wire) for reply in replies]

    def hand_over(self, grant: Grant, *, deadline: float) -> Renewal:
        """See the protocol."""
        request = requests.hand_over(self._keys.of(grant.claim.name), grant.claim)
        [outcome] = self._renew([request], deadline=deadline)
        return outcome

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """See the protocol."""
        claim = grant.claim
        request = requests.release(self._keys.of(claim.name), claim, tombstone=tombstone)
        # Who was let in by a message is not the only one who waited.
        ahead = b"" if grant.window is None else requests.AHEAD
        reply = self._wire.ask(request, deadline=deadline, ahead=ahead)
        if reply.__class__ is Refusal:
            reply = self._repeated("release", request, reply, deadline=deadline)
        return read(answers.truth, reply, wire=self._wire)

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """See the protocol."""
        self._inbox.forget(claim.id)
        request = requests.withdraw(self._keys.of(claim.name), claim, tombstone=tombstone)
        reply = self._call("withdraw", request, deadline=deadline)
        read(answers.truth, reply, wire=self._wire)

    def wait(self, claim: Claim, *, deadline: float) -> None:
        """See the protocol."""
        self._inbox.wait(claim, deadline=deadline)

    def rouse(self, claim: Claim) -> None:
        """See the protocol."""
        self._inbox.rouse(claim.id)

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        """See the protocol; the deadline is for each request, as the line may be long."""
        patience = deadline - self._clock.now()
        pages: list[answers.Page] = []
        cursor: requests.Cursor | None = requests.Cursor()
        while cursor is not None:
            request = requests.inspect(self._keys.of(name), cursor)
            reply = self._call("inspect", request, deadline=self._clock.now() + patience)
            pages.append(read(answers.page, reply, wire=self._wire))
            cursor = pages[-1].following
        return answers.inspection(name, pages)

    def crowds(self, names: Sequence[str], *, deadline: float) -> Sequence[Crowd]:
        """See the protocol; all at once, of each the first page."""
        start = requests.Cursor()
        asked = [requests.inspect(self._keys.of(name), start) for name in names]
        replies = self._call_all("inspect", asked, deadline=deadline)
        for one in replies:
            if isinstance(one, LockError):
                raise one
        return [read(answers.crowd, self._accepted(one), wire=self._wire) for one in replies]

    def survey(self, prefix: str, *, deadline: float) -> Iterator[Inspection]:
        """See the protocol; the deadline is for each request, as there may be many."""
        patience = deadline - self._clock.now()
        survey = Survey(self._wire, clock=self._clock, patience=patience)
        doors = survey.doors(self._keys.doors(prefix))
        for name in sorted((self._keys.name_of(door) for door in doors), key=str.encode):
            door = self._keys.door(name)
            if not survey.can_ask(door):
                continue
            try:
                one = self.inspect(name, deadline=survey.deadline())
            except OUTAGES as error:
                survey.failed(door, error)  # raised at the end, after what the others have
                continue
            if one.is_in_use:
                yield one
        survey.end()

    def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        """See the protocol; the deadline is for each request, as some are broken at a time."""
        patience = deadline - self._clock.now()
        keys = self._keys.of(name)
        broken: tuple[Holder, ...] = ()
        skipped = 0
        while skipped >= 0:
            request = requests.break_(keys, skipped, token=token, owner=owner)
            until = self._clock.now() + patience
            reply = self._call("break", request, deadline=until)
            some, skipped = read(answers.broken, reply, wire=self._wire)
            broken += some
        return broken

    def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """See the protocol."""
        patience = deadline - self._clock.now()
        question = Question(self._keys.namespace, self._durability, patience, self._clock)
        return diagnosed(self._wire, question)

    def disown(self, client: str, *, deadline: float) -> None:
        """See the protocol; here what is held ends by its ttl in any case."""
        del client, deadline

    def close(self) -> None:
        """See the protocol."""
        wires = {self._wire, self._slow_wire}
        runtime.each_in_turn(self._inbox.stop, *(wire.close for wire in wires))

    def after_fork_in_child(self) -> None:
        """Let the child begin with nothing of the parent's."""
        for wire in {self._wire, self._slow_wire}:
            wire.after_fork_in_child()
        self._inbox.after_fork_in_child()

    def _pushed(self, waiting: Waiting) -> Grant | None:
        """Return what the claim was granted by a message, if that is enough."""
        claim = waiting.claim
        if waiting.token is None or not self._may_be_pushed(claim):
            return None
        window = Window(waiting.asked_at, min(WINDOW, claim.ttl))
        if self._clock.now() - window.since > window.seconds * ENOUGH:
            return None
        return Grant(claim, waiting.token, claim.ttl, window)

    def _may_be_pushed(self, claim: Claim) -> bool:
        """Whether a message that it was admitted is enough.

        Not where the grant must be proven to last, nor where more hangs on it than the
        window: what stays closed after it, or who else comes in by it.
        """
        is_plain = claim.party is None and not claim.lock_delay and not claim.min_hold
        return is_plain and self._durability is None

    # -- asking ------------------------------------------------------------------------

    def _call(self, verb: str, request: bytes, *, deadline: float) -> Reply:
        """Return what a script answers, letting the server know the script if it does not."""
        reply = self._wire.ask(request, deadline=deadline)
        return self._repeated(verb, request, reply, deadline=deadline)

    def _repeated(self, verb: str, request: bytes, reply: Reply, *, deadline: float) -> Reply:
        """Return the reply, or that to a repeat if the server did not know the script."""
        # Again and again: it may be made to forget the script between our two requests.
        while reply.__class__ is Refusal:
            if reply.code != "NOSCRIPT":
                raise refusals.refused(reply, where=self.location)
            self._ask(requests.load(verb), deadline=deadline)
            reply = self._wire.ask(request, deadline=deadline)
        return reply

    def _call_all(self, verb: str, asked: Sequence[bytes], *, deadline: float) -> list[Reply]:
        """Return what a script answers to each; an error in place of a missing answer."""
        replies = self._wire.ask_all(asked, deadline=deadline)
        unknown = [
            i
            for i, reply in enumerate(replies)
            if isinstance(reply, Refusal) and reply.code == "NOSCRIPT"
        ]
        if unknown:
            self._ask(requests.load(verb), deadline=deadline)
            again = self._wire.ask_all([asked[i] for i in unknown], deadline=deadline)
            for i, reply in zip(unknown, again, strict=True):
                replies[i] = reply
        return replies

    def _call_durably(
        self, verb: str, asked: Sequence[bytes], *, deadline: float
    ) -> list[tuple[Reply, LockError | None]]:
        """Return what a script answers to each, and why it may not last, if so."""
        assert self._durability is not None  # noqa: S101 - or it would not be called
        durability, left = self._durability, deadline - self._clock.now()
        proof = confirmation(durability, left=left)
        both = [part for one in asked for part in (one, proof)]
        replies = self._slow_wire.ask_all(both, deadline=deadline)
        if any(isinstance(one, Refusal) and one.code == "NOSCRIPT" for one in replies):
            self._ask(requests.load(verb), deadline=deadline)
            replies = self._slow_wire.ask_all(both, deadline=deadline)
        return [
            (reply, unconfirmed(proven, durability, where=self.location))
            for reply, proven in zip(replies[::2], replies[1::2], strict=True)
        ]

    def _ask(self, request: bytes, *, deadline: float) -> Reply:
        return self._accepted(self._wire.ask(request, deadline=deadline))

    def _accepted(self, reply: Reply) -> Reply:
        if isinstance(reply, Refusal):
            raise refusals.refused(reply, where=self.location)
        return reply


def _durable_renewal(outcome: Renewal, unproven: LockError | None) -> Renewal:
    # The old promise was proven; a new one that is not proves nothing.
    return Renewal.UNKNOWN if outcome is Renewal.RENEWED and unproven is not None else outcome
