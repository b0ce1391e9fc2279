# Generated from src/lockfast/backends/redlock/_async/backend.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The verbs on N independent nodes, of which a majority decides."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Self

from lockfast._sync.backend import Backend
from lockfast.backends.redis import refusals
from lockfast.backends.redis.resp import Refusal, packed
from lockfast.backends.redlock import answers, outages
from lockfast.backends.redlock._sync.asking import Asking
from lockfast.backends.redlock._sync.claiming import Claiming
from lockfast.backends.redlock._sync.connecting import ways_to
from lockfast.backends.redlock._sync.diagnosis import diagnosed
from lockfast.backends.redlock._sync.inbox import Inbox
from lockfast.backends.redlock.addresses import (
    OF_ONE_NODE,
    addresses_of_clients,
    addresses_of_url,
)
from lockfast.backends.redlock.greeting import Terms
from lockfast.backends.redlock.node import NotEnrolled
from lockfast.backends.redlock.options import OWN, own_options, warn_of_number
from lockfast.backends.redlock.requests import Questions
from lockfast.backends.redlock.round import Round
from lockfast.core.naming import checked_namespace
from lockfast.core.quorum import enough_to_end, majority, renewal
from lockfast.errors import ConfigurationError, LockError
from lockfast.model import Capabilities, Finding, Grant, Held, Inspection, Renewal, TokenQuality
from lockfast.runtime import forking
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockfast.backends.redis.addresses import Address
    from lockfast.backends.redlock.nodes.threads import NodeWire
    from lockfast.backends.redlock.options import RedlockOptions
    from lockfast.backends.redlock.requests import Question
    from lockfast.model import Claim, Holder
    from lockfast.runtime.clock import Clock


SCANNING = 1.0
"""As long may a node take that is asked for some of its names; the others have the same."""

WAITS_PER_TTL = 6
"""A renewal is waited for no longer than this part of the shortest ttl in its batch."""


class RedlockBackend(Backend):
    """Locks on a majority of N Redis nodes that know nothing of each other."""

    capabilities = Capabilities(
        fair=False,
        shared=False,
        push_wakeup=True,
        explicit_owner=False,
        lock_delay=False,
        token_quality=TokenQuality.BEST_EFFORT,
        ends_by="ttl",
    )
    min_ttl = 0.05
    renewals_at_once = 250
    options = (OF_ONE_NODE - {"tls"}) | OWN | {"nodes"}

    def __init__(
        self,
        *,
        url: str,
        location: str,
        clock: Clock,
        namespace: str = "lockfast",
        nodes: object = None,
        **options: object,
    ) -> None:
        own, options = own_options(options)
        addresses = addresses_of_url(url, where=location, nodes=nodes, options=options)
        self._set_up(addresses, own, location=location, clock=clock, namespace=namespace)

    @classmethod
    def from_clients(
        cls,
        clients: Sequence[object],
        *,
        clock: Clock,
        namespace: str = "lockfast",
        **options: object,
    ) -> Self:
        """Return locks on the nodes to which these clients connect, one to each.

        Only their settings are read: they are never closed, and their connections not used.
        """
        self = cls.__new__(cls)
        addresses = addresses_of_clients(clients)
        places = ",".join(one.where.partition("://")[2] for one in addresses)
        own, _ = own_options(options)
        where = f"redlock://{places}"
        self._set_up(addresses, own, location=where, clock=clock, namespace=namespace)
        return self

    def _set_up(
        self,
        addresses: Sequence[Address],
        options: RedlockOptions,
        *,
        location: str,
        clock: Clock,
        namespace: str,
    ) -> None:
        warn_of_number(len(addresses))
        self.location = location
        self._options = options
        self._clock = clock
        self._questions = Questions(checked_namespace(namespace))
        terms = Terms(self._questions, options.max_ttl, options.durable)
        self._nodes = ways_to(addresses, terms, clock)
        self._asking = Asking(self._nodes, terms, clock)
        self._inbox = Inbox(self._nodes, self._questions.names, clock)
        self._claiming = Claiming(self._asking, self._questions, self._inbox, options, clock)
        forking.forget_in_child(self)

    # -- claims ------------------------------------------------------------------------

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """See the protocol."""
        self._options.check(claim)
        return self._claiming.claim(claim, deadline=deadline)

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        """See the protocol."""
        timeout = min(self._options.timeout_for(grant.ttl) for grant in grants)
        self._asking.ready(timeout=timeout, deadline=deadline)
        asked = [self._questions.renew(grant.claim) for grant in grants]

        def is_decided(found: Round) -> bool:
            return found.is_over() or Renewal.UNKNOWN not in _renewals(found, len(asked))

        # A lease that hung nodes have must not hold up the others of its batch until they are over.
        bearable = min(grant.ttl for grant in grants) / WAITS_PER_TTL
        patience = min(deadline - self._clock.now(), bearable)
        found = self._asking.ask(asked, decide=is_decided, timeout=timeout, patience=patience)
        return _renewals(found, len(asked))

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """See the protocol; the nodes that have not confirmed it by then are told all the same."""
        question = self._questions.release(grant.claim, tombstone=tombstone)
        found = self._end(question, grant.claim, deadline=deadline, what="the release")
        confirmed = found.answers
        ended = sum(bool(replies[0][2]) for replies in confirmed.values())
        number = len(found.nodes)
        return bool(ended) and ended + number - len(confirmed) >= majority(number)

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """See the protocol."""
        inbox = self._inbox.name if self._inbox.forget(claim.id) else ""
        question = self._questions.withdraw(claim, tombstone=tombstone, inbox=inbox)
        self._end(question, claim, deadline=deadline, what="the withdrawal")

    def _end(self, question: Question, claim: Claim, *, deadline: float, what: str) -> Round:
        """Tell all nodes, and return when the claim can hold no majority of them any more."""
        timeout = self._options.timeout_for(claim.ttl)
        tell = partial(self._tell, question, claim, deadline, what)
        return self._asking.insist(tell, timeout=timeout, deadline=deadline)

    def _tell(self, question: Question, claim: Claim, deadline: float, what: str) -> Round:
        needed = enough_to_end(len(self._nodes.nodes))

        def is_ended(found: Round) -> bool:
            return len(found.answers) >= needed or found.is_over()

        found = self._asking.ask(
            [question],
            decide=is_ended,
            timeout=self._options.timeout_for(claim.ttl),
            patience=deadline - self._clock.now(),
            owed_for=claim.ttl,
        )
        if len(found.answers) < needed:
            raise outages.not_told(found, what=what)
        return found

    def wait(self, claim: Claim, *, deadline: float) -> None:
        """See the protocol."""
        self._inbox.wait(claim, deadline=deadline)

    def rouse(self, claim: Claim) -> None:
        """See the protocol."""
        self._inbox.rouse(claim.id)

    # -- for operators -----------------------------------------------------------------

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        """See the protocol; who waits is not told, since nobody stands in a line."""
        return answers.inspection(name, self._seen(name, deadline), nodes=len(self._nodes.nodes))

    def _seen(self, name: str, deadline: float) -> dict[int, answers.Seen]:
        """Return what each node says; of one that does not count, only that it has a hold."""
        timeout = self._patience(deadline)
        return self._asking.insist(
            partial(self._look, name, timeout), timeout=timeout, deadline=deadline
        )

    def _look(self, name: str, timeout: float) -> dict[int, answers.Seen]:
        def is_heard(found: Round) -> bool:
            return found.is_heard() or self._asking.is_cut_short(found)

        found = self._asking.ask([self._questions.inspect(name)], decide=is_heard, timeout=timeout)
        heard = found.answers
        # One that nobody has enrolled has no locks, and that is an answer.
        empty = sum(isinstance(one, NotEnrolled) for one in found.replies)
        if len(heard) + empty < majority(len(found.nodes)):
            raise outages.too_few(found)
        return {
            number: answers.seen_by_inspection(replies[0])
            for number, replies in heard.items()
            if replies[0][1] or replies[0][3]
        }

    def _patience(self, deadline: float) -> float:
        """Return how long a node is waited for that is asked about no lease."""
        timeout = self._options.timeout_for(self._options.max_ttl)
        return max(0.001, min(timeout, deadline - self._clock.now()))

    def survey(self, prefix: str, *, deadline: float) -> Iterator[Inspection]:
        """See the protocol; the deadline is for each request, as there may be many."""
        patience = min(deadline - self._clock.now(), SCANNING)
        pattern = self._questions.names.doors(prefix)
        self._asking.ready(timeout=self._patience(deadline), deadline=deadline)
        keys: set[bytes] = set()
        errors: list[LockError] = []
        for node, wire in zip(self._nodes.nodes, self._nodes.wires, strict=True):
            if isinstance(node.trouble, NotEnrolled):
                continue
            if node.trouble is not None:
                errors.append(node.trouble)
                continue
            try:
                keys |= self._scanned(wire, pattern, patience)
            except LockError as error:
                errors.append(error)
        if len(self._nodes.nodes) - len(errors) < majority(len(self._nodes.nodes)):
            raise outages.for_one_caller(errors[0])
        names = {self._questions.names.name_of(key) for key in keys}
        for name in sorted(names, key=str.encode):
            one = self.inspect(name, deadline=self._clock.now() + patience)
            if one.is_in_use:
                yield one

    def _scanned(self, wire: NodeWire, pattern: bytes, patience: float) -> set[bytes]:
        found: set[bytes] = set()
        cursor = b"0"
        while True:
            request = packed(b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"1000")
            reply = wire.ask(request, deadline=self._clock.now() + patience)
            if isinstance(reply, Refusal):
                raise refusals.refused(reply, where=wire.where)
            cursor, keys = reply
            found.update(keys)
            if cursor == b"0":
                return found

    def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        """See the protocol; each node ends what it has, if that is a claim that was seen."""
        del owner  # there are no explicit owners here
        seen = self._seen(name, deadline).values()
        number = len(self._nodes.nodes)
        # Also one that few nodes have: it stands in the way, and may be what is to be ended.
        inside = answers.holders(seen, unheard=number, nodes=number)
        meant = {claim: one for claim, one in inside.items() if token is None or one.token == token}
        if not meant:
            return ()
        found = self._asking.ask(
            [self._questions.break_(name, list(meant))],
            decide=Round.is_heard,
            timeout=self._patience(deadline),
            owed_for=self._options.max_ttl,
        )
        if len(found.answers) < enough_to_end(number):
            raise outages.not_told(found, what="the break")
        was_broken = any(replies[0][2] for replies in found.answers.values())
        return tuple(meant.values()) if was_broken else ()

    def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """See the protocol."""
        patience = max(0.05, (deadline - self._clock.now()) / 2)
        try:
            self._asking.ready(timeout=self._patience(deadline), deadline=deadline - patience)
            self._asking.refuse_misfits()
        except ConfigurationError as error:
            remedy = "correct the URL, max_ttl or durable of the misconfigured client"
            return [Finding("error", "nodes", str(error), remedy)]
        return diagnosed(
            self._nodes,
            self._options,
            namespace=self._questions.names.namespace,
            patience=patience,
            clock=self._clock,
        )

    # -- the end -----------------------------------------------------------------------

    def disown(self, client: str, *, deadline: float) -> None:
        """See the protocol; here what is held ends by its ttl in any case."""
        del client, deadline

    def close(self) -> None:
        """See the protocol."""
        runtime.each_in_turn(self._inbox.stop, self._asking.stop, self._nodes.close)

    def after_fork_in_child(self) -> None:
        """Let the child begin with nothing of the parent's."""
        self._nodes.after_fork_in_child()
        self._asking.after_fork_in_child()
        self._inbox.after_fork_in_child()
        self._claiming.after_fork_in_child()


def _renewals(found: Round, number: int) -> list[Renewal]:
    """Return what became of each renewal, by what all nodes have answered by now."""
    unknown = [Renewal.UNKNOWN] * number
    by_node = [
        # One by one: a name that cannot be read is refused, and the rest of its batch renewed.
        unknown if replies is None else list(map(answers.renewed, replies))
        for replies in found.each_reply()
    ]
    return [renewal(outcomes) for outcomes in zip(*by_node, strict=True)]
