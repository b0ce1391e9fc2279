# Generated from src/lockfast/backends/redlock/_async/claiming.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How a claim comes to hold a name: a majority grants it, and its token is on a majority.

Whoever was refused once asks the first node alone, and the others only if that one lets it in.
Otherwise many who ask at the same time would each get some of the nodes, and nobody a majority. Now
and then it asks all of them nevertheless, since that node may keep what has ended everywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from lockfast.backends.redis.requests import SECOND
from lockfast.backends.redlock import answers, outages
from lockfast.backends.redlock.node import first_of
from lockfast.core.quorum import (
    Floor,
    Standing,
    Verdict,
    allotted,
    may_agree,
    validity,
    verdict,
)
from lockfast.errors import LockError
from lockfast.model import Grant, Held
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from lockfast.backends.redlock._sync.asking import Asking
    from lockfast.backends.redlock._sync.inbox import Inbox, Waiting
    from lockfast.backends.redlock.options import RedlockOptions
    from lockfast.backends.redlock.requests import Questions
    from lockfast.backends.redlock.round import Round
    from lockfast.model import Claim
    from lockfast.runtime.clock import Clock

LOOK_AGAIN = 1.0
"""A waiting claim asks again this often, though nobody wakes it: who was woken instead may be
frozen, and the first node wrong."""

SPLIT = 0.01
"""Those who got some of the nodes each ask again within so long, not all at once."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One time that a claim is asked for; a late request of an earlier one gets nothing."""

    claim: Claim
    number: int
    started: float
    floor: float
    timeout: float


class Claiming:
    """Asks for names, and counts what is granted."""

    def __init__(
        self,
        asking: Asking,
        questions: Questions,
        inbox: Inbox,
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
        """Return the grant of a majority, or who is in the way; else nothing is left behind."""
        self._asking.may_enrol()
        timeout = self._options.timeout_for(claim.ttl)
        return self._asking.insist(
            partial(self._claim, claim, timeout), timeout=timeout, deadline=deadline
        )

    def _claim(self, claim: Claim, timeout: float) -> Grant | Held:
        self._asking.refuse_misfits()
        started = self._clock.now()
        floor = self._floor.at(started)
        one = Attempt(claim, next(self._attempts), started, floor, timeout)
        found = self._asked(one)
        if self._verdict(found) is not Verdict.GRANTED:
            return self._not_granted(one, found)
        token = self._token(one, found)
        left = validity(ttl=claim.ttl, elapsed=self._clock.now() - started)
        if token is None or left < max(0.0, self._options.min_validity):
            # It is over, or too little of it is left for the work: as if it had not been granted.
            self._undo(one, found)
            self._expect(one)
            return Held((), None, self._soon())
        self._inbox.forget(claim.id)
        return Grant(claim, token, claim.ttl)

    def after_fork_in_child(self) -> None:
        """Rely on no lock that a thread of the parent's may hold."""
        self._state = runtime.StateLock()

    # -- asking ------------------------------------------------------------------------

    def _asked(self, one: Attempt) -> Round:
        claim = one.claim
        waiting = self._inbox.waiting(claim.id)
        question = self._questions.acquire(
            claim,
            attempt=one.number,
            floor=one.floor,
            inbox=self._inbox.name if claim.queues else "",
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
        standing = alone.standings(answers.standing)[first]
        if standing not in (Standing.GRANTED, Standing.REFUSED):
            # It takes long, is gone, or does not count: the others are asked without it. If it
            # lets us in later, so be it.
            found = self._asking.ask([question], decide=self._is_decided, timeout=one.timeout)
            found.asked[first] = True  # also if it was not again: what it was asked may still come
            return found
        rest = self._questions.acquire(claim, attempt=one.number, floor=one.floor, is_led=True)
        if standing is Standing.REFUSED:
            refusal = answers.seen_by_refusal(alone.answers[first][0])
            if not self._looks_elsewhere(waiting, refusal):
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

    def _looks_elsewhere(self, waiting: Waiting | None, refusal: answers.Seen) -> bool:
        """Whether the others are asked although the first node refuses.

        Now and then, if it has a holder: that one may have ended everywhere else, and be told to
        the first node by nobody. Or if it is closed: the others write down a deadline that their
        clocks cut only when they are asked. Not if somebody else's turn is there, who is about to
        come.
        """
        now = self._clock.now()
        is_kept = refusal.claim or refusal.shut
        if waiting is None or not is_kept or now - waiting.looked_at < LOOK_AGAIN:
            return False
        waiting.looked_at = now
        return True

    def _verdict(self, found: Round) -> Verdict:
        return verdict(found.standings(answers.standing), is_time_up=True)

    def _is_decided(self, found: Round) -> bool:
        standings = found.standings(answers.standing)
        outcome = verdict(standings)
        if outcome is Verdict.GRANTED:
            given = answers.given(found.answers)
            # Where none of a majority had granted it before, no majority had: then no token of it
            # is in use, and a node that hangs need not be waited for.
            return not any(one.is_repeated for one in given) or not may_agree(
                [one.token for one in given],
                nodes=len(standings),
                waiting=standings.count(Standing.WAITING),
            )
        if outcome is not Verdict.OPEN:
            return True
        # Those who answer nothing are not waited for while others are about to come.
        return self._asking.is_cut_short(found)

    # -- granted -----------------------------------------------------------------------

    def _token(self, one: Attempt, found: Round) -> int | None:
        """Return the token, once a majority knows it; None if the claim has ended meanwhile."""
        given = answers.given(found.answers)
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
            decide=lambda told: verdict(told.standings(answers.done)) is not Verdict.OPEN,
            timeout=one.timeout,
        )
        outcome = verdict(raised.standings(answers.done), is_time_up=True)
        if outcome is Verdict.UNREACHABLE:
            # Not known to a majority, it must not be used: the next one could be smaller.
            self._undo(one, found)
            raise outages.too_few(raised)
        return settled.token if outcome is Verdict.GRANTED else None

    # -- not granted ---------------------------------------------------------------------

    def _not_granted(self, one: Attempt, found: Round) -> Held:
        heard_at = self._clock.now()
        self._undo(one, found)
        refusals = [
            answers.seen_by_refusal(replies[0])
            for replies in found.answers.values()
            if answers.standing(replies) is Standing.REFUSED
        ]
        # The first node alone may refuse; what it says then stands for all.
        is_alone = found.asked.count(True) == 1 < len(found.nodes) and bool(refusals)
        if not is_alone and self._verdict(found) is not Verdict.REFUSED:
            raise outages.too_few(found)
        held = answers.held(
            refusals,
            nodes=1 if is_alone else len(found.nodes),
            granted=len(answers.given(found.answers)),
            look_again=LOOK_AGAIN,
        )
        self._expect(one)
        if held.closing:
            return self._opening(one, held, heard_at)
        if held.holders:
            return held
        return Held((), None, self._soon())  # several have some of the nodes each

    def _opening(self, one: Attempt, held: Held, heard_at: float) -> Held:
        """Let it be asked for when a majority is open, by all that was heard while it waited.

        The first node alone may open a moment before the others. Whoever asks then gets some of
        the nodes, and waits for those that hang.
        """
        waiting = self._inbox.waiting(one.claim.id)
        if waiting is None:
            return held
        [shut] = held.closing
        waiting.opens_at = max(waiting.opens_at, heard_at + shut.remaining)
        left = waiting.opens_at - self._clock.now()
        return replace(held, retry_in=max(0.001, min(left, LOOK_AGAIN)))

    def _expect(self, one: Attempt) -> None:
        if one.claim.queues:
            self._inbox.expect(one.claim, since=one.started)

    def _soon(self) -> float:
        return 0.001 + SPLIT * self._clock.jitter()

    def _undo(self, one: Attempt, found: Round) -> None:
        """Leave nothing behind of an attempt: on no node that granted it, or has not answered."""
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
                owed_for=one.claim.ttl,
            )
        )
