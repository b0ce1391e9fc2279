# Generated from src/lockfast/backends/etcd/_async/arriving.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How a claim comes into the line of its name, and holds: in one step where nobody is there.

The claim is a key under the session's lease, and its hold one under none. Both are put by
transactions that the session guards, so that what arrives late does nothing.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from lockfast.backends.etcd import records, transactions
from lockfast.backends.etcd._sync.lines import Lines
from lockfast.backends.etcd.answers import KeyValue
from lockfast.backends.etcd.keys import place_of
from lockfast.backends.etcd.standing import EtcdLine, Standing
from lockfast.backends.etcd.transactions import Ours
from lockfast.core.door import another_capacity
from lockfast.errors import BackendUnavailable, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.etcd.answers import Ranged, Transacted
    from lockfast.backends.etcd.keys import NameKeys
    from lockfast.backends.etcd.requests import Request
    from lockfast.backends.etcd.transactions import Guard
    from lockfast.backends.sessions.claims import CarriedClaim
    from lockfast.backends.sessions.line import Line
    from lockfast.model import Claim


class Arriving(Lines):
    """Brings claims into line, and lets them hold."""

    def arrive(self, one: CarriedClaim, *, deadline: float) -> Line:
        """See the protocol."""
        keys = self._keys.of(one.claim.name)
        while True:
            if one.key is None:
                line = self._acquire(one, keys, deadline)
            elif one.claim.capacity == 1:
                line = self._admit_first(one, keys, deadline)
            else:
                line = self._list(one, keys, deadline)
            if line is not None:
                return line

    def _acquire(self, one: CarriedClaim, keys: NameKeys, deadline: float) -> EtcdLine | None:
        """Come into line, and hold if nobody is there; None if it has to be done again."""
        claim, guard = one.claim, self._guard
        ours = self._ours(claim, keys)
        # Nobody is let in where there is a line, so who does not wait need not join it. Only
        # where others may be inside together with us, that is found out by joining.
        joins = claim.queues or claim.capacity > 1
        asked = partial(transactions.acquire, guard, keys, claim, ours, joins=joins)
        answer = self._doubtfully(one, guard, asked, deadline, partial(_learn, one, ours))
        if not answer.succeeded:
            session, found = answer.answers
            if self.met(session, guard):
                return None
            return self._refuse_capacity(claim, keys, found, answer, deadline)
        inner = answer.answers[0]
        if inner.succeeded:
            return self._alone(one, keys, ours, revision=answer.header.revision)
        return self._line_with(one, keys, inner.answers[-1], answer, deadline)

    def _admit_first(self, one: CarriedClaim, keys: NameKeys, deadline: float) -> EtcdLine | None:
        """Hold if we are the first, in the step that looks; None if it has to be done again."""
        guard, ours = self._guard, self._ours(one.claim, keys)
        asked = partial(transactions.admit_first, guard, keys, one.claim, ours, token=one.token)
        answer = self._doubtfully(one, guard, asked, deadline)
        if answer.succeeded:
            return self._alone(one, keys, ours, revision=answer.header.revision)
        session, found = answer.answers
        if self.met(session, guard):
            return None
        return self._line_with(one, keys, found, answer, deadline)

    def _list(self, one: CarriedClaim, keys: NameKeys, deadline: float) -> EtcdLine:
        line = self.read_line(
            keys,
            capacity=one.claim.capacity,
            own=one,
            deadline=deadline,
        )
        self._note_hold(one, line)
        return line

    def admit(self, one: CarriedClaim, line: Line, *, deadline: float) -> bool:
        """See the protocol: what holds has a hold, whatever the line says."""
        assert isinstance(line, EtcdLine)  # noqa: S101 - it is what `arrive` returned
        if line.has_hold:
            return True
        keys, guard = self._keys.of(one.claim.name), self._guard
        asked = partial(
            transactions.admit,
            guard,
            self._ours(one.claim, keys),
            token=one.token,
            touches=line.must_touch(),
        )
        answer = self._doubtfully(one, guard, asked, deadline)
        if answer.succeeded:
            self._held_at[one.claim.id] = answer.header.revision
            return True
        [session] = answer.answers
        self.met(session, guard)
        return False

    # -- what was asked, and what came of it -------------------------------------------

    def _doubtfully(
        self,
        one: CarriedClaim,
        guard: Guard,
        asked: Callable[..., Request[Transacted]],
        deadline: float,
        learn: Callable[[Transacted], None] | None = None,
    ) -> Transacted:
        """Ask for what must not come true once it is over, however late a copy of it arrives.

        As long as there is no answer nobody knows what became of it, and whoever ends the
        claim has to see to that. So too until `learn` has made of the answer what there is to
        know: an interrupt may strike in between.

        A repeat supersedes its first copy. That one needs no more if the session's generation
        has moved on since it was sent, by whatever claim: else many that are repeated at the
        same time would void each other over and over.
        """
        claim_id = one.claim.id
        sent_under = self._doubtful.get(claim_id)
        is_repeat = sent_under is not None and sent_under >= guard.generation
        self._doubtful[claim_id] = guard.generation
        if one.key is None:
            one.is_unanswered = True
        try:
            answer, was_repeated = self.ask_twice(
                asked(supersedes=is_repeat),
                repeat=partial(asked, supersedes=True),
                deadline=deadline,
            )
        except (BackendUnavailable, ConfigurationError):
            if sent_under is None:
                self._settle(one)  # nothing was done
            raise
        if learn is not None:
            learn(answer)
        if answer.succeeded:
            if is_repeat or was_repeated:
                self.outdated(answer)
            self._settle(one)
        elif sent_under is None and not was_repeated:
            self._settle(one)
        return answer

    def _settle(self, one: CarriedClaim) -> None:
        """Know what became of all that was asked for a claim."""
        self._doubtful.pop(one.claim.id, None)
        one.is_unanswered = False

    def _ours(self, claim: Claim, keys: NameKeys) -> Ours:
        lease, record = self._guard.lease, records.of_claim(claim, at=time.time())
        return Ours(
            keys.claim(claim, lease),
            keys.hold(claim, lease),
            record,
            records.of_hold(record, ttl=self.ttl, lock_delay=claim.lock_delay),
        )

    def _alone(self, one: CarriedClaim, keys: NameKeys, ours: Ours, *, revision: int) -> EtcdLine:
        """Return the line as far as it matters to one that is inside."""
        self._held_at[one.claim.id] = revision
        name = ours.claim[len(keys.prefix) :].decode()
        standing = Standing(name, place_of(name))
        standing.claim = KeyValue(ours.claim, created=one.token)
        standing.hold = KeyValue(ours.hold, modified=revision)
        return EtcdLine(
            [standing],
            one.claim.capacity,
            keys=keys,
            revision=revision,
            own=(name, standing.token),
        )

    def _line_with(
        self,
        one: CarriedClaim,
        keys: NameKeys,
        found: Ranged,
        answer: Transacted,
        deadline: float,
    ) -> EtcdLine | None:
        line = self.line_in(
            keys,
            found,
            revision=answer.header.revision,
            capacity=one.claim.capacity,
            own=one,
            deadline=deadline,
        )
        if line is not None:
            self._note_hold(one, line)
        return line

    def _note_hold(self, one: CarriedClaim, line: EtcdLine) -> None:
        if line.has_hold and line.number is not None:
            standing = line.entries[line.number]
            assert isinstance(standing, Standing)  # noqa: S101
            if standing.hold is not None:
                self._held_at[one.claim.id] = standing.hold.modified

    def _refuse_capacity(
        self,
        claim: Claim,
        keys: NameKeys,
        found: Ranged,
        answer: Transacted,
        deadline: float,
    ) -> EtcdLine | None:
        line = self.line_in(
            keys, found, revision=answer.header.revision, capacity=0, deadline=deadline
        )
        if line is not None and line.entries:
            raise another_capacity(claim, in_use=line.capacity)
        return None


def _learn(one: CarriedClaim, ours: Ours, answer: Transacted) -> None:
    """Let a claim know where it stands, if it does."""
    if not answer.succeeded:
        return
    inner = answer.answers[0]
    if inner.succeeded:
        one.stands_at(ours.claim.decode(), token=answer.header.revision)
        return
    for key in inner.answers[-1].keys:
        if key.key == ours.claim:
            one.stands_at(ours.claim.decode(), token=key.created)
