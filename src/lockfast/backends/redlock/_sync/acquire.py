# Generated from src/lockfast/backends/redlock/_async/acquire.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How a claim acquires a name: a majority grants it, and a majority stores its token.

After a refusal, a claim asks only the first node, and asks the other nodes only if the first node
grants it. Otherwise many clients that ask at the same time would each get some of the nodes, and no
client a majority. Now and then the claim asks all nodes nevertheless, because the first node may
keep a hold that has ended everywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from lockfast.backends.redis.requests import SECOND
from lockfast.backends.redlock import errors
from lockfast.backends.redlock import replies as redlock_replies
from lockfast.backends.redlock._sync.waiting import RefusedClaim
from lockfast.backends.redlock.node import first_of
from lockfast.core.quorum import Floor, NodeVote, Verdict, allotted, may_agree, validity, verdict
from lockfast.errors import LockError
from lockfast.model import Grant, Held
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from lockfast.backends.redlock._sync.quorum_call import QuorumCalls
    from lockfast.backends.redlock.address import RedlockOptions
    from lockfast.backends.redlock.requests import NodeRequests
    from lockfast.backends.redlock.round import Round
    from lockfast.backends.waiting._sync.inbox import Inbox
    from lockfast.model import Claim
    from lockfast.runtime.clock import Clock

WAITER_POLL_SECONDS = 1.0
"""Poll interval of a waiting claim that is not woken, in seconds. The claim polls because the
client that was woken instead may be frozen, or the first node may be wrong."""

SPLIT_VOTE_PAUSE_SECONDS = 0.01
"""After a split vote, each client asks again after a random time of at most this many seconds."""


@dataclass(frozen=True, slots=True)
class AcquireAttempt:
    """One attempt to acquire a claim; the nodes refuse late requests of earlier attempts."""

    claim: Claim
    number: int
    started: float
    floor: float
    timeout: float


class RedlockAcquire:
    """Requests names from the nodes, and counts the grants."""

    def __init__(
        self,
        asking: QuorumCalls,
        questions: NodeRequests,
        inbox: Inbox[RefusedClaim],
        options: RedlockOptions,
        clock: Clock,
    ) -> None:
        self._asking = asking
        self._questions = questions
        self._inbox = inbox
        self._options = options
        self._clock = clock
        self._attempts = count(1)
        self._floor = Floor()
        self._state = runtime.StateLock()

    def claim(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """Return a majority's grant, or Held with the holders; a partial grant is undone."""
        self._asking.may_enrol()
        timeout = self._options.timeout_for(claim.ttl)
        return self._asking.retry_while_nodes_join(
            partial(self._claim, claim, timeout), timeout=timeout, deadline=deadline
        )

    def _claim(self, claim: Claim, timeout: float) -> Grant | Held:
        self._asking.check_mismatches()
        started = self._clock.now()
        floor = self._floor.at(started)
        one = AcquireAttempt(claim, next(self._attempts), started, floor, timeout)
        found = self._asked(one)
        if self._verdict(found) is not Verdict.GRANTED:
            return self._not_granted(one, found)
        token = self._token(one, found)
        left = validity(ttl=claim.ttl, elapsed=self._clock.now() - started)
        if token is None or left < max(0.0, self._options.min_validity):
            # The grant has ended, or too little of it is left for the work, so treat it as a
            # refusal.
            self._undo(one, found)
            self._expect(one)
            return Held((), None, self._soon())
        self._inbox.left(claim.id)
        return Grant(claim, token, claim.ttl)

    def after_fork_in_child(self) -> None:
        """Replace the lock, which a thread of the parent may hold."""
        self._state = runtime.StateLock()

    # -- requests ----------------------------------------------------------------------

    def _asked(self, one: AcquireAttempt) -> Round:
        claim = one.claim
        waiting = self._inbox.waiter(claim.id)
        question = self._questions.acquire(
            claim,
            attempt=one.number,
            floor=one.floor,
            inbox=self._inbox.channel if claim.queues else "",
            waited=0.0 if waiting is None else self._clock.now() - waiting.since,
        )
        first = None if waiting is None else first_of(self._asking.nodes)
        if first is None:
            return self._asking.ask([question], decide=self._is_decided, timeout=one.timeout)
        alone = self._asking.ask(
            [question],
            decide=lambda found: found.is_heard((first,)),
            timeout=one.timeout,
            among=(first,),
        )
        vote = alone.votes(redlock_replies.vote)[first]
        if vote not in (NodeVote.GRANTED, NodeVote.REFUSED):
            # The first node is slow, gone, or does not count, so do not depend on it, and ask all
            # nodes. If the first node grants the claim later, that does no harm.
            found = self._asking.ask([question], decide=self._is_decided, timeout=one.timeout)
            # Mark the first node as asked even if it was not asked again, because the first request
            # may still take effect.
            found.asked[first] = True
            return found
        rest = self._questions.acquire(claim, attempt=one.number, floor=one.floor, is_led=True)
        if vote is NodeVote.REFUSED:
            refusal = redlock_replies.seen_by_refusal(alone.answers[first][0])
            if not self._asks_others_too(waiting, refusal):
                return alone
            rest = question

        def is_decided(found: Round) -> bool:
            found.put(first, alone.replies[first])
            return self._is_decided(found)

        others = [node.number for node in alone.nodes if node.number != first]
        found = self._asking.ask([rest], decide=is_decided, timeout=one.timeout, among=others)
        found.put(first, alone.replies[first])
        found.asked[first] = True
        return found

    def _asks_others_too(
        self, waiting: RefusedClaim | None, refusal: redlock_replies.SeenHold
    ) -> bool:
        """Return whether to ask the other nodes although the first node refuses.

        The result is true now and then if the first node has a holder, because that hold may have
        ended on all other nodes. It is also true now and then if the first node is closed, because
        after a clock was set back, the other nodes shorten their stored deadlines only when they
        are asked. It is false if it is another claim's turn, because that claim is about to ask.
        """
        now = self._clock.now()
        is_kept = refusal.claim or refusal.shut
        if waiting is None or not is_kept or now - waiting.looked_at < WAITER_POLL_SECONDS:
            return False
        waiting.looked_at = now
        return True

    def _verdict(self, found: Round) -> Verdict:
        return verdict(found.votes(redlock_replies.vote), is_time_up=True)

    def _is_decided(self, found: Round) -> bool:
        votes = found.votes(redlock_replies.vote)
        outcome = verdict(votes)
        if outcome is Verdict.GRANTED:
            given = redlock_replies.vote_given(found.answers)
            # Any two majorities share a node. So if none of these nodes had granted the claim
            # before, no majority had. Then no earlier token of the claim is in use, and there is no
            # need to wait for a node that hangs.
            return not any(one.is_repeated for one in given) or not may_agree(
                [one.token for one in given],
                nodes=len(votes),
                waiting=votes.count(NodeVote.WAITING),
            )
        if outcome is not Verdict.OPEN:
            return True
        # Do not wait for silent nodes if other nodes have become available meanwhile.
        return self._asking.is_cut_short(found)

    # -- granted -----------------------------------------------------------------------

    def _token(self, one: AcquireAttempt, found: Round) -> int | None:
        """Return the token once a majority has stored it; None if the claim ended meanwhile."""
        given = redlock_replies.vote_given(found.answers)
        tokens = [one.token for one in given]
        settled = allotted(tokens, nodes=len(found.nodes))
        ahead = max(one.now for one in given) - self._clock.now()
        with self._state:
            self._floor = self._floor.after(
                ahead=ahead,
                tokens=[token / SECOND for token in tokens],
                asked=one.floor,
                is_settled=settled.is_settled,
            )
        if settled.is_settled:
            return settled.token
        raised = self._asking.ask(
            [self._questions.raise_(one.claim, token=settled.token)],
            decide=lambda told: verdict(told.votes(redlock_replies.done)) is not Verdict.OPEN,
            timeout=one.timeout,
        )
        outcome = verdict(raised.votes(redlock_replies.done), is_time_up=True)
        if outcome is Verdict.UNREACHABLE:
            # A token that no majority has stored must not be used, because the next token could be
            # smaller.
            self._undo(one, found)
            raise errors.too_few(raised)
        return settled.token if outcome is Verdict.GRANTED else None

    # -- not granted ---------------------------------------------------------------------

    def _not_granted(self, one: AcquireAttempt, found: Round) -> Held:
        heard_at = self._clock.now()
        self._undo(one, found)
        refusals = [
            redlock_replies.seen_by_refusal(replies[0])
            for replies in found.answers.values()
            if redlock_replies.vote(replies) is NodeVote.REFUSED
        ]
        # If the first node was the only one asked, its refusal counts for all nodes.
        is_alone = found.asked.count(True) == 1 < len(found.nodes) and bool(refusals)
        if not is_alone and self._verdict(found) is not Verdict.REFUSED:
            raise errors.too_few(found)
        held = redlock_replies.held(
            refusals,
            nodes=1 if is_alone else len(found.nodes),
            granted=len(redlock_replies.vote_given(found.answers)),
            look_again=WAITER_POLL_SECONDS,
        )
        self._expect(one)
        if held.closing:
            return self._opening(one, held, heard_at)
        if held.holders:
            return held
        return Held((), None, self._soon())  # a split vote: several claims have some nodes each

    def _opening(self, one: AcquireAttempt, held: Held, heard_at: float) -> Held:
        """Return the refusal, to be retried when a majority opens according to all replies.

        The first node may open a moment before the other nodes. A claim that asked then would get
        only some of the nodes, and would wait for nodes that hang.
        """
        waiting = self._inbox.waiter(one.claim.id)
        if waiting is None:
            return held
        [shut] = held.closing
        waiting.opens_at = max(waiting.opens_at, heard_at + shut.remaining)
        left = waiting.opens_at - self._clock.now()
        return replace(held, retry_in=max(0.001, min(left, WAITER_POLL_SECONDS)))

    def _expect(self, one: AcquireAttempt) -> None:
        if one.claim.queues and self._inbox.waiter(one.claim.id) is None:
            since = one.started
            self._inbox.joined(RefusedClaim(one.claim, since, looked_at=since))

    def _soon(self) -> float:
        return 0.001 + SPLIT_VOTE_PAUSE_SECONDS * self._clock.jitter()

    def _undo(self, one: AcquireAttempt, found: Round) -> None:
        """Undo an attempt on every node that granted the claim or has not replied."""
        granted = {i for i, replies in found.answers.items() if replies[0][2]}
        unanswered = {
            i
            for i, replies in enumerate(found.replies)
            if found.asked[i] and (replies is None or isinstance(replies, LockError))
        }
        among = granted | unanswered
        if not among:
            return
        question = self._questions.withdraw(
            one.claim, attempt=one.number, tombstone=bool(unanswered)
        )
        runtime.shield(
            self._asking.ask(
                [question],
                decide=lambda told: told.is_heard(among),
                timeout=one.timeout,
                among=among,
                matters_for=one.claim.ttl,
            )
        )
