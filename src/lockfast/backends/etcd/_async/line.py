"""Reads the line of a name in etcd, and adds claims to it."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from lockfast.backends.etcd import keys as etcd_keys
from lockfast.backends.etcd import requests, transactions
from lockfast.backends.etcd.keys import key_parts_of
from lockfast.backends.etcd.line import EtcdEntry, EtcdLine, in_line
from lockfast.backends.etcd.replies import KeyValue
from lockfast.backends.etcd.transactions import ClaimKeys
from lockfast.backends.sessions._async.transport import AsyncSessionLines
from lockfast.core.door import capacity_conflict
from lockfast.errors import BackendUnavailable, ConfigurationError, LockError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.etcd._async.requests import AsyncEtcdRequests
    from lockfast.backends.etcd.keys import EtcdKeys, NameKeys
    from lockfast.backends.etcd.line import Orphans
    from lockfast.backends.etcd.replies import Ranged, Transacted
    from lockfast.backends.etcd.requests import Request
    from lockfast.backends.etcd.transactions import RevisionCheck
    from lockfast.backends.sessions.line import LineView
    from lockfast.backends.sessions.records import SessionClaim
    from lockfast.model import Claim
    from lockfast.runtime.clock import Clock

# How the line of a name is read, and how orphans are removed. An orphan is a hold whose claim is
# gone.
#
# A client that waits for an orphan removes it when the orphan's time is up on the client's own
# clock. But a client that does not wait never sees that moment. So the first client that sees an
# orphan puts it under a lease that nobody renews, and etcd itself removes the orphan when the lease
# expires. That lease is granted after the claim was seen to be gone, and so after any renewal from
# which the holder can still count its ttl. A former leader may revoke leases that its successor has
# renewed (etcd-io/etcd#15247), but a lease that is never renewed ends at the same time under either
# leader.
#
# How a claim joins the line of its name, and holds the name in the same step if the line is empty.
#
# The claim is a key under the session's lease, and its hold is a key under no lease. Both keys are
# put by transactions that check the session's generation, so a copy of the request that arrives
# late does nothing.

ORPHANS_PER_STEP = 100
"""Maximum number of holds changed in one transaction; a server accepts 128 operations."""

SURVEY_PAGE = 1000
"""Maximum number of keys in one reply, for requests that may match very many keys."""

_log = logging.getLogger("lockfast")


class AsyncEtcdLines(AsyncSessionLines):
    """Reads the lines of names, adds claims to them, and gives claims their holds.

    It also makes sure that an orphaned hold does not stay in its line for ever.
    """

    def __init__(
        self, requests: AsyncEtcdRequests, keys: EtcdKeys, orphans: Orphans, *, clock: Clock
    ) -> None:
        self._requests = requests
        self._keys = keys
        self._orphans = orphans
        self._clock = clock
        self.unanswered: dict[str, int] = {}
        """Maps each claim that has an unanswered request to the session's generation under which
        the last copy of that request was sent. The request may have taken effect already. It can
        still take effect while the session has that generation, but never afterwards."""
        self.held_at: dict[str, int] = {}
        """Maps each claim to the revision at which its hold was put."""

    # -- reading -----------------------------------------------------------------------

    async def look(self, name: str, *, confirm: bool, deadline: float) -> EtcdLine:
        """Return the line, unchanged; a quorum confirms every read, with and without `confirm`."""
        del confirm
        keys = self._keys.of(name)
        found = await self._requests.ask(transactions.everything(keys), deadline=deadline)
        entries = in_line(found.keys, keys)
        overdue = self._orphans.look(entries, now=self._clock.now())
        left = [one for one in entries if one not in overdue]
        return EtcdLine(left, keys=keys, revision=found.header.revision)

    async def names(self, *, deadline: float) -> Sequence[str]:
        """Return the names that have at least one key."""
        span, found = self._keys.all_names, dict[str, None]()
        begin = span.begin
        while True:
            page = await self._requests.ask(
                requests.range_(begin, span.end, limit=SURVEY_PAGE, keys_only=True),
                deadline=deadline,
            )
            for one in page.keys:
                name = self._keys.name_in(one.key)
                if name is not None:
                    found[name] = None
            if not page.more:
                return list(found)
            begin = page.keys[-1].key + b"\0"

    async def _read_line(
        self, one: SessionClaim, keys: NameKeys, deadline: float
    ) -> EtcdLine | None:
        found = await self._requests.ask(transactions.everything(keys), deadline=deadline)
        return await self._line_in(keys, found, found.header.revision, deadline, own=one)

    async def _line_in(
        self,
        keys: NameKeys,
        found: Ranged,
        revision: int,
        deadline: float,
        *,
        own: SessionClaim | None = None,
    ) -> EtcdLine | None:
        """Return the line in a list of keys, with the position of our claim if it is in the line.

        Orphans whose time is up are removed, and the others are put under a lease. After such a
        change, return None, because the line has to be read again.
        """
        entries = in_line(found.keys, keys)
        overdue = self._orphans.look(entries, now=self._clock.now())
        for one in overdue:
            if one.hold is not None:
                await self._requests.ask(transactions.clear(one.hold), deadline=deadline)
                self._orphans.forget(one)
        if overdue or await self._expire_orphans(entries, deadline):
            return None
        line = EtcdLine(entries, keys=keys, revision=revision, own=own)
        if own is not None and line.held_at is not None:
            self.held_at[own.claim.id] = line.held_at
        return line

    async def _expire_orphans(self, entries: Sequence[EtcdEntry], deadline: float) -> bool:
        """Put orphans under a lease, so that etcd removes them; return whether that was done."""
        left = [
            (one.hold, one.left)
            for one in entries
            if one.hold is not None and one.left is not None and not one.hold.lease
        ]
        if not left:
            return False
        holds: list[KeyValue] = [hold for hold, _ in left]
        try:
            lease = await self._requests.lease_for(
                max(seconds for _, seconds in left), deadline=deadline
            )
            for at in range(0, len(holds), ORPHANS_PER_STEP):
                request = transactions.let_go(holds[at : at + ORPHANS_PER_STEP], lease=lease)
                await self._requests.ask(request, deadline=deadline, is_other_lease=True)
        except LockError as error:
            # The lease serves clients that come later, and any of them will try this again. A
            # client that waits now times the orphan on its own clock.
            _log.debug("a hold that was left stays for now: %s", error)
            return False
        return True

    # -- joining -----------------------------------------------------------------------

    async def arrive(self, one: SessionClaim, *, deadline: float) -> LineView:
        keys = self._keys.of(one.claim.name)
        while True:
            if one.key is None:
                line = await self._acquire(one, keys, deadline)
            elif one.claim.capacity == 1:
                line = await self._admit_first(one, keys, deadline)
            else:
                line = await self._read_line(one, keys, deadline)
            if line is not None:
                return line

    async def _acquire(self, one: SessionClaim, keys: NameKeys, deadline: float) -> EtcdLine | None:
        """Join the line, or hold the name if nobody is ahead; None asks for a repeat."""
        claim, guard = one.claim, self._requests.guard
        ours = self._ours(claim, keys)
        # A new claim is never admitted ahead of a line, so a claim that does not wait need not
        # join. But where several claims can hold at once, only joining shows whether there is room
        # for ours.
        joins = claim.queues or claim.capacity > 1
        asked = partial(transactions.acquire, guard, keys, claim, ours, joins=joins)
        answer = await self._send_superseding(
            one, guard, asked, deadline, partial(_learn, one, ours)
        )
        if not answer.succeeded:
            session, found = answer.answers
            if self._requests.met(session, guard):
                return None
            line = await self._line_in(keys, found, answer.header.revision, deadline)
            if line is not None and line.entries:
                raise capacity_conflict(claim, in_use=line.capacity)
            return None
        inner = answer.answers[0]
        if inner.succeeded:
            return self._alone(one, keys, ours, revision=answer.header.revision)
        found = inner.answers[-1]
        return await self._line_in(keys, found, answer.header.revision, deadline, own=one)

    async def _admit_first(
        self, one: SessionClaim, keys: NameKeys, deadline: float
    ) -> EtcdLine | None:
        """Hold if our claim is first in line; return None if the request must be repeated.

        The same transaction checks the position and puts the hold.
        """
        guard, ours = self._requests.guard, self._ours(one.claim, keys)
        asked = partial(transactions.admit_first, guard, keys, one.claim, ours, token=one.token)
        answer = await self._send_superseding(one, guard, asked, deadline)
        if answer.succeeded:
            return self._alone(one, keys, ours, revision=answer.header.revision)
        session, found = answer.answers
        if self._requests.met(session, guard):
            return None
        return await self._line_in(keys, found, answer.header.revision, deadline, own=one)

    async def admit(self, one: SessionClaim, line: LineView, *, deadline: float) -> bool:
        """Put the claim's hold unless it is there already; a place in the line is not a hold."""
        assert isinstance(line, EtcdLine)  # noqa: S101 - it is what `arrive` returned
        if line.held_at is not None:
            return True
        keys, guard = self._keys.of(one.claim.name), self._requests.guard
        asked = partial(
            transactions.admit,
            guard,
            self._ours(one.claim, keys),
            token=one.token,
            touches=line.must_touch(),
        )
        answer = await self._send_superseding(one, guard, asked, deadline)
        if answer.succeeded:
            self.held_at[one.claim.id] = answer.header.revision
            return True
        [session] = answer.answers
        self._requests.met(session, guard)
        return False

    # -- requests and their outcomes ---------------------------------------------------

    async def _send_superseding(
        self,
        one: SessionClaim,
        guard: RevisionCheck,
        asked: Callable[..., Request[Transacted]],
        deadline: float,
        learn: Callable[[Transacted], None] | None = None,
    ) -> Transacted:
        """Send a request so that no late copy of it takes effect after the claim has ended.

        Until there is a reply, the outcome is unknown, and ending the claim has to void the
        request. The outcome also counts as unknown until `learn` has recorded the contents of the
        reply, because an interrupt may come in between.

        A repeat supersedes the first copy of the request by writing a new generation of the
        session. The write is not needed if the generation has moved on since that copy was sent. If
        every repeat wrote a generation, many concurrent repeats would void each other over and
        over.
        """
        claim_id = one.claim.id
        sent_under = self.unanswered.get(claim_id)
        is_repeat = sent_under is not None and sent_under >= guard.generation
        self.unanswered[claim_id] = guard.generation
        if one.key is None:
            one.is_unanswered = True
        try:
            answer, was_repeated = await self._requests.ask_twice(
                asked(supersedes=is_repeat),
                repeat=partial(asked, supersedes=True),
                deadline=deadline,
            )
        except (BackendUnavailable, ConfigurationError):
            if sent_under is None:
                self._settle(one)  # the store did nothing
            raise
        if learn is not None:
            learn(answer)
        if answer.succeeded:
            if is_repeat or was_repeated:
                self._requests.outdated(answer)
            self._settle(one)
        elif sent_under is None and not was_repeated:
            self._settle(one)
        return answer

    def _settle(self, one: SessionClaim) -> None:
        """Record that the outcome of every request for a claim is known."""
        self.unanswered.pop(one.claim.id, None)
        one.is_unanswered = False

    def _ours(self, claim: Claim, keys: NameKeys) -> ClaimKeys:
        lease, record = self._requests.guard.lease, etcd_keys.of_claim(claim, at=time.time())
        return ClaimKeys(
            keys.claim(claim, lease),
            keys.hold(claim, lease),
            record,
            etcd_keys.of_hold(record, ttl=self._requests.ttl, lock_delay=claim.lock_delay),
        )

    def _alone(
        self, one: SessionClaim, keys: NameKeys, ours: ClaimKeys, *, revision: int
    ) -> EtcdLine:
        """Return a line with only the admitted claim, which needs no other entries."""
        self.held_at[one.claim.id] = revision
        name = ours.claim[len(keys.prefix) :].decode()
        entry = EtcdEntry(name, key_parts_of(name))
        entry.claim = KeyValue(ours.claim, created=one.token)
        entry.hold = KeyValue(ours.hold, modified=revision)
        return EtcdLine([entry], keys=keys, revision=revision, own=one)


def _learn(one: SessionClaim, ours: ClaimKeys, answer: Transacted) -> None:
    """Record the claim's key and token if the reply shows that the claim is in the line."""
    if not answer.succeeded:
        return
    inner = answer.answers[0]
    if inner.succeeded:
        one.record_entry(ours.claim.decode(), token=answer.header.revision)
        return
    for key in inner.answers[-1].keys:
        if key.key == ours.claim:
            one.record_entry(ours.claim.decode(), token=key.created)
