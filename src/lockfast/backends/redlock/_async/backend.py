"""The Redlock backend: N independent nodes, of which a majority decides."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self

from lockfast.backends._async.backend import AsyncBackend
from lockfast.backends.redis import errors as redis_errors
from lockfast.backends.redis._async.diagnose import ServerQuestion, facts_of
from lockfast.backends.redis.address import SERVER_OPTIONS
from lockfast.backends.redis.diagnostics import merged
from lockfast.backends.redis.resp import ErrorReply, packed
from lockfast.backends.redlock import errors as redlock_errors
from lockfast.backends.redlock import replies as redlock_replies
from lockfast.backends.redlock._async.acquire import AsyncRedlockAcquire
from lockfast.backends.redlock._async.quorum_call import AsyncQuorumCalls, nodes_at
from lockfast.backends.redlock._async.waiting import AsyncRedlockWaiting, RefusedClaim
from lockfast.backends.redlock.address import (
    OWN_OPTIONS,
    addresses_of_clients,
    addresses_of_url,
    own_options,
    warn_of_number,
)
from lockfast.backends.redlock.diagnostics import NEEDED_COMMANDS, all_findings, node_findings
from lockfast.backends.redlock.node import NodeMismatch, NodeTerms, NotEnrolled
from lockfast.backends.redlock.requests import NodeRequests
from lockfast.backends.redlock.round import Round
from lockfast.backends.waiting._async.inbox import AsyncInbox
from lockfast.core.naming import checked_namespace
from lockfast.core.quorum import majority, nodes_to_end, renewal
from lockfast.errors import ConfigurationError, LockError
from lockfast.model import Capabilities, Finding, Grant, Held, Inspection, Renewal, TokenQuality
from lockfast.runtime import aio as runtime
from lockfast.runtime import fork

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from lockfast.backends.redis.address import Address
    from lockfast.backends.redlock.address import RedlockOptions
    from lockfast.backends.redlock.node import Node
    from lockfast.backends.redlock.nodes_aio import Nodes, NodeTransport
    from lockfast.backends.redlock.requests import NodeRequest
    from lockfast.model import Claim, Holder
    from lockfast.runtime.clock import Clock


# Asks every node about itself; `diagnostics` decides what the replies mean.


async def diagnosed(
    nodes: Nodes, options: RedlockOptions, *, namespace: str, patience: float, clock: Clock
) -> list[Finding]:
    """Return the findings about each node, and about all of them together."""
    question = ServerQuestion(namespace, None, patience, clock, needed=NEEDED_COMMANDS)
    found = await runtime.gather([partial(_of_node, nodes, one, question) for one in nodes.nodes])
    by_node = {one.where: said for one, said in zip(nodes.nodes, found, strict=True)}
    reached = [
        one
        for one, said in zip(nodes.nodes, found, strict=True)
        if said[0].subject not in ("reach", "nodes")
    ]
    return [*all_findings(nodes.nodes, reached, options), *merged(by_node)]


async def _of_node(nodes: Nodes, node: Node, question: ServerQuestion) -> Sequence[Finding]:
    try:
        facts = await facts_of(nodes.transports[node.number], question)
    except NodeMismatch as error:
        return [Finding.warning("nodes", f"is left out: {error}", "as the message says")]
    except LockError as error:
        # Report the failure as a finding, because the operator looks for it, and go on to the other
        # nodes.
        return [Finding.error("reach", str(error), "start the node, or replace it")]
    return node_findings(replace(facts, where=""))


SURVEY_REQUEST_SECONDS = 1.0
"""Timeout for each request of a survey, in seconds."""

WAITS_PER_TTL = 6
"""The longest wait for a renewal is the shortest ttl in its batch divided by this number."""


class AsyncRedlockBackend(AsyncBackend):
    """Locks on a majority of N Redis nodes that are independent of each other."""

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
    options = SERVER_OPTIONS | OWN_OPTIONS | {"nodes"}

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
        """Return a backend for the nodes that these clients connect to, one client for each.

        Only their settings are read: they are never closed, and their connections are not used.
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
        self._questions = NodeRequests(checked_namespace(namespace))
        terms = NodeTerms(self._questions, options.max_ttl, options.durable)
        self._nodes = nodes_at(addresses, terms, clock)
        self._asking = AsyncQuorumCalls(self._nodes, terms, clock)
        self._inbox = AsyncInbox[RefusedClaim](
            AsyncRedlockWaiting(self._nodes, self._questions.names),
            clock,
            thread_name="lockfast-redlock-inbox",
        )
        self._claiming = AsyncRedlockAcquire(
            self._asking, self._questions, self._inbox, options, clock
        )
        fork.reset_in_child(self)

    # -- claims ------------------------------------------------------------------------

    async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        self._options.check(claim)
        return await self._claiming.claim(claim, deadline=deadline)

    async def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        timeout = min(self._options.timeout_for(grant.ttl) for grant in grants)
        await self._asking.ready(timeout=timeout, deadline=deadline)
        asked = [self._questions.renew(grant.claim) for grant in grants]

        def is_decided(found: Round) -> bool:
            return found.is_over() or Renewal.UNKNOWN not in _renewals(found, len(asked))

        # Limit the wait, because a lease on hung nodes must not delay the other leases in its batch
        # until they expire.
        longest_wait = min(grant.ttl for grant in grants) / WAITS_PER_TTL
        patience = min(deadline - self._clock.now(), longest_wait)
        found = await self._asking.ask(asked, decide=is_decided, timeout=timeout, patience=patience)
        return _renewals(found, len(asked))

    async def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """A node that has not confirmed the release when this returns still receives it later."""
        question = self._questions.release(grant.claim, tombstone=tombstone)
        found = await self._end(question, grant.claim, deadline=deadline, what="the release")
        confirmed = found.answers
        ended = sum(bool(replies[0][2]) for replies in confirmed.values())
        number = len(found.nodes)
        return bool(ended) and ended + number - len(confirmed) >= majority(number)

    async def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        inbox = "" if self._inbox.left(claim.id) is None else self._inbox.channel
        question = self._questions.withdraw(claim, tombstone=tombstone, inbox=inbox)
        await self._end(question, claim, deadline=deadline, what="the withdrawal")

    async def _end(
        self, question: NodeRequest, claim: Claim, *, deadline: float, what: str
    ) -> Round:
        """Ask all nodes, and return when the claim can no longer hold a majority of them."""
        timeout = self._options.timeout_for(claim.ttl)
        tell = partial(self._tell, question, claim, deadline, what)
        return await self._asking.retry_while_nodes_join(tell, timeout=timeout, deadline=deadline)

    async def _tell(self, question: NodeRequest, claim: Claim, deadline: float, what: str) -> Round:
        needed = nodes_to_end(len(self._nodes.nodes))

        def is_ended(found: Round) -> bool:
            return len(found.answers) >= needed or found.is_over()

        found = await self._asking.ask(
            [question],
            decide=is_ended,
            timeout=self._options.timeout_for(claim.ttl),
            patience=deadline - self._clock.now(),
            matters_for=claim.ttl,
        )
        if len(found.answers) < needed:
            raise redlock_errors.not_confirmed(found, what=what)
        return found

    async def wait(self, claim: Claim, *, deadline: float) -> None:
        await self._inbox.wait(claim, deadline=deadline)

    def wake(self, claim: Claim) -> None:
        self._inbox.wake([claim.id])

    # -- for operators -----------------------------------------------------------------

    async def inspect(self, name: str, *, deadline: float) -> Inspection:
        """Waiting claims are not in the result, because Redlock has no line."""
        return redlock_replies.inspection(
            name, await self._seen(name, deadline), nodes=len(self._nodes.nodes)
        )

    async def _seen(self, name: str, deadline: float) -> dict[int, redlock_replies.SeenHold]:
        """Return each node's view; a node that does not count is left out unless it has a hold."""
        timeout = self._patience(deadline)
        return await self._asking.retry_while_nodes_join(
            partial(self._look, name, timeout), timeout=timeout, deadline=deadline
        )

    async def _look(self, name: str, timeout: float) -> dict[int, redlock_replies.SeenHold]:
        def is_heard(found: Round) -> bool:
            return found.is_heard() or self._asking.is_cut_short(found)

        found = await self._asking.ask(
            [self._questions.inspect(name)], decide=is_heard, timeout=timeout
        )
        heard = found.answers
        # A node that no client has enrolled has no locks, which is a valid answer.
        empty = sum(isinstance(one, NotEnrolled) for one in found.replies)
        if len(heard) + empty < majority(len(found.nodes)):
            raise redlock_errors.too_few(found)
        return {
            number: redlock_replies.seen_by_inspection(replies[0])
            for number, replies in heard.items()
            if replies[0][1] or replies[0][3]
        }

    def _patience(self, deadline: float) -> float:
        """Return how long to wait for a node's reply to a request that is not about a lease."""
        timeout = self._options.timeout_for(self._options.max_ttl)
        return max(0.001, min(timeout, deadline - self._clock.now()))

    async def survey(self, prefix: str, *, deadline: float) -> AsyncIterator[Inspection]:
        """The deadline applies to each request, which also has a timeout of its own."""
        patience = min(deadline - self._clock.now(), SURVEY_REQUEST_SECONDS)
        pattern = self._questions.names.doors(prefix)
        await self._asking.ready(timeout=self._patience(deadline), deadline=deadline)
        keys: set[bytes] = set()
        errors: list[LockError] = []
        for node, transport in zip(self._nodes.nodes, self._nodes.transports, strict=True):
            if isinstance(node.trouble, NotEnrolled):
                continue
            if node.trouble is not None:
                errors.append(node.trouble)
                continue
            try:
                keys |= await self._scanned(transport, pattern, patience)
            except LockError as error:
                errors.append(error)
        if len(self._nodes.nodes) - len(errors) < majority(len(self._nodes.nodes)):
            raise redlock_errors.for_one_caller(errors[0])
        names = {self._questions.names.name_of(key) for key in keys}
        for name in sorted(names, key=str.encode):
            one = await self.inspect(name, deadline=self._clock.now() + patience)
            if one.is_in_use:
                yield one

    async def _scanned(
        self, transport: NodeTransport, pattern: bytes, patience: float
    ) -> set[bytes]:
        found: set[bytes] = set()
        cursor = b"0"
        while True:
            request = packed(b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"1000")
            reply = await transport.ask(request, deadline=self._clock.now() + patience)
            if isinstance(reply, ErrorReply):
                raise redis_errors.refused(reply, where=transport.where)
            cursor, keys = reply
            found.update(keys)
            if cursor == b"0":
                return found

    async def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        """Each node ends its hold only if it belongs to a claim that was seen by inspection."""
        del owner  # there are no explicit owners here
        seen = (await self._seen(name, deadline)).values()
        number = len(self._nodes.nodes)
        # Include claims that only few nodes have, because such a claim is also in the way, and the
        # operator may want to break it.
        inside = redlock_replies.holders(seen, unheard=number, nodes=number)
        meant = {claim: one for claim, one in inside.items() if token is None or one.token == token}
        if not meant:
            return ()
        found = await self._asking.ask(
            [self._questions.break_(name, list(meant))],
            decide=Round.is_heard,
            timeout=self._patience(deadline),
            matters_for=self._options.max_ttl,
        )
        if len(found.answers) < nodes_to_end(number):
            raise redlock_errors.not_confirmed(found, what="the break")
        was_broken = any(replies[0][2] for replies in found.answers.values())
        return tuple(meant.values()) if was_broken else ()

    async def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        patience = max(0.05, (deadline - self._clock.now()) / 2)
        try:
            await self._asking.ready(timeout=self._patience(deadline), deadline=deadline - patience)
            self._asking.check_mismatches()
        except ConfigurationError as error:
            remedy = "correct the URL, max_ttl or durable of the misconfigured client"
            return [Finding.error("nodes", str(error), remedy)]
        return await diagnosed(
            self._nodes,
            self._options,
            namespace=self._questions.names.namespace,
            patience=patience,
            clock=self._clock,
        )

    # -- the end -----------------------------------------------------------------------

    async def disown(self, client: str, *, deadline: float) -> None:
        """Do nothing, because every hold on the nodes ends with its ttl in any case."""
        del client, deadline

    async def aclose(self) -> None:
        self._inbox.end()
        self._nodes.hang_up()  # interrupts listeners that are connecting, which `stop` joins
        await runtime.run_all_steps(self._inbox.stop, self._asking.stop, self._nodes.close)

    def after_fork_in_child(self) -> None:
        """Start afresh in the child, without any of the parent's state."""
        self._nodes.after_fork_in_child()
        self._asking.after_fork_in_child()
        self._inbox.after_fork_in_child()
        self._claiming.after_fork_in_child()


def _renewals(found: Round, number: int) -> list[Renewal]:
    """Return the outcome of each renewal, from the replies so far."""
    unknown = [Renewal.UNKNOWN] * number
    by_node = [
        # Read the replies one by one, because a node may refuse the renewal of one name (its record
        # cannot be read) and renew the rest of the batch.
        unknown if replies is None else list(map(redlock_replies.renewed, replies))
        for replies in found.each_reply()
    ]
    return [renewal(outcomes) for outcomes in zip(*by_node, strict=True)]
