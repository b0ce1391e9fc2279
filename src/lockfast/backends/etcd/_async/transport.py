"""The requests of an etcd session, and how a claim leaves the line."""

from __future__ import annotations

import logging
import math
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from lockfast.backends.etcd import errors, requests, transactions
from lockfast.backends.etcd import keys as etcd_keys
from lockfast.backends.etcd._async.line import AsyncEtcdLines
from lockfast.backends.etcd._async.members import AsyncMembers, diagnosed
from lockfast.backends.etcd._async.requests import AsyncEtcdRequests
from lockfast.backends.etcd._async.watcher import AsyncWatcher
from lockfast.backends.etcd.keys import CLAIM, EtcdKeys, key_parts_of, twin
from lockfast.backends.etcd.line import EtcdLine
from lockfast.backends.etcd.replies import KeyValue
from lockfast.backends.etcd.transactions import RevisionCheck
from lockfast.backends.sessions._async.transport import AsyncSessionTransport
from lockfast.backends.sessions.records import (
    KeepAliveReply,
    Opening,
    OwnEntry,
    SeenEntry,
    UnreadableRecord,
    ended,
)
from lockfast.errors import BackendMisbehaved, LockError, OutcomeUnknown
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.etcd.address import Address, Preference
    from lockfast.backends.etcd.line import Orphans
    from lockfast.backends.etcd.replies import Ranged, Transacted, Watched
    from lockfast.backends.sessions.line import LineView, Watch
    from lockfast.backends.sessions.records import SessionClaim
    from lockfast.model import Finding
    from lockfast.runtime.clock import Clock

# The etcd transport expresses the requests of a session in keys. The reasons for these requests are
# in `backends/sessions`.
#
# A session is a lease and a key under it. A session is proven alive by a keep-alive and, after the
# reply to it, a linearizable read of that key by the same member in the same term. The read is
# needed because a deposed leader still renews leases (etcd-io/etcd#7029), but cannot answer such a
# read.

PROOF_ATTEMPTS = 3
"""Maximum number of attempts at one keep-alive. An election or the loss of a member may come
between the keep-alive and the read that proves it, but hardly twice. If a load balancer sends each
request to another member, more attempts would only add load."""

PROOF_RETRY_SECONDS = 0.05
"""Delay before the next attempt."""

_log = logging.getLogger("lockfast")


class AsyncEtcdTransport(AsyncSessionTransport):
    """One session with a cluster."""

    def __init__(
        self,
        address: Address,
        orphans: Orphans,
        *,
        ttl: float,
        clock: Clock,
        changed: Callable[[], None],
        preference: Preference | None = None,
    ) -> None:
        self.where = address.where
        self._address = address
        self._clock = clock
        self._keys = EtcdKeys(address.root)
        self._members = AsyncMembers(address, clock=clock, preference=preference)
        self._watcher = AsyncWatcher(self._members, clock=clock, lost=changed)
        self._requests = AsyncEtcdRequests(
            self._members, root=address.root, ttl=ttl, clock=clock, changed=changed
        )
        self.lines = AsyncEtcdLines(self._requests, self._keys, orphans, clock=clock)
        self._state = runtime.StateLock()
        self._created = 0
        self._is_unproven_logged = False
        self._closing: dict[str, int] = {}
        """Maps a claim to a temporary lease. The claim's hold is put again under that lease, so
        that the hold outlives the claim for a while."""

    @property
    def is_over(self) -> bool:
        return self._requests.is_over

    # -- the session -------------------------------------------------------------------

    async def open(self, *, deadline: float) -> Opening:
        """Open the session by creating a lease and putting a key under it."""
        sent_at = self._clock.now()
        asked = requests.grant(math.ceil(self._requests.ttl))
        granted = await self._requests.ask_once(asked, deadline=deadline)
        self._requests.ttl = float(granted.ttl)
        key = self._keys.session(granted.lease)
        self._requests.guard = RevisionCheck(key, 0, granted.lease)
        put = await self._requests.ask(transactions.open_(self._requests.guard), deadline=deadline)
        self._created = put.header.revision
        if not put.succeeded:
            keys = put.answers[0].keys
            if not keys:
                raise BackendMisbehaved(
                    f"{self.where} says that {key.decode()} is there and is not"
                )
            [found] = keys
            if found.lease != granted.lease:
                raise UnreadableRecord(
                    f"{key.decode()} is a key of another program; choose a namespace of your own"
                )
            # An unanswered request of ours created the key, because nobody else has this lease.
            self._created = found.created
        self._requests.guard = RevisionCheck(key, self._created, granted.lease)
        await self._watch_session(since=self._created + 1, deadline=deadline)
        return Opening(self._requests.ttl, sent_at)

    async def _watch_session(self, *, since: int, deadline: float) -> None:
        """Watch the session's key, to learn at once of a timeout, a revocation or a deletion."""
        key = self._requests.guard.key
        await self._watcher.watch(
            key, self._session_gone, since=since, deletions=True, deadline=deadline
        )

    def _session_gone(self, told: Watched | None) -> None:
        if told is not None:
            self._requests.end()

    async def beat(self, *, confirm: bool, deadline: float) -> KeepAliveReply:
        """Send a keep-alive and prove it, whether or not `confirm` is set."""
        del confirm
        sent_at, read = await self._proven(deadline)
        if not self._watcher.is_watched(self._session_gone):
            with suppress(LockError):  # only for speed; the next keep-alive tries again
                # Watch from the revision just read, because an older one may be gone after a
                # compaction.
                await self._watch_session(since=read.header.revision + 1, deadline=deadline)
        return KeepAliveReply(sent_at, self._clock.now(), is_confirmed=True, proves_itself=True)

    async def _proven(self, deadline: float) -> tuple[float, Ranged]:
        """Return when the proven keep-alive was sent, and the reply to the read that proves it."""
        guard = self._requests.guard
        for tried in range(PROOF_ATTEMPTS):
            if tried:
                await runtime.sleep(PROOF_RETRY_SECONDS)
            sent_at = self._clock.now()
            kept = await self._requests.ask_once(
                requests.keep_alive(guard.lease), deadline=deadline
            )
            if kept.ttl <= 0:
                self._requests.end()
                raise ended(where=self.where)
            read = await self._requests.ask_once(requests.range_(guard.key), deadline=deadline)
            if not read.keys or read.keys[0].created != self._created:
                self._requests.end()
                raise ended(where=self.where)
            # If the headers differ, another member answered or there was an election. Then the read
            # proves nothing about this keep-alive.
            if read.header.confirms(kept.header):
                return sent_at, read
        raise self._unproven()

    def _unproven(self) -> OutcomeUnknown:
        error = OutcomeUnknown(
            f"{self.where}: a heartbeat and its proof were answered by different members, "
            f"{PROOF_ATTEMPTS} times in a row; if an address is that of a load balancer, name each "
            "member in the URL instead"
        )
        with self._state:
            was_logged, self._is_unproven_logged = self._is_unproven_logged, True
        if not was_logged:
            # Nobody sees the error of a background keep-alive; users only see that leases are lost.
            _log.warning("%s", error)
        return error

    async def own(self, *, deadline: float) -> Sequence[OwnEntry]:
        left = await self._requests.ask(
            requests.time_to_live(self._requests.guard.lease, with_keys=True), deadline=deadline
        )
        return [own for key in left.keys if (own := _own(key)) is not None]

    def hang_up(self) -> None:
        self._members.hang_up()

    async def close(self, *, goodbye: bool, deadline: float) -> None:
        """Close the session; a held name stays closed while its holder may trust the lease."""
        was_over, self._requests.is_over = self._requests.is_over, True
        is_open = self._requests.guard.lease and not was_over
        # Close the watcher and the members even if the goodbye is cancelled.
        parting = [partial(self._say_goodbye, deadline)] if goodbye and is_open else []
        await runtime.run_all_steps(*parting, self._watcher.close, self._members.close)

    async def _say_goodbye(self, deadline: float) -> None:
        with suppress(LockError):  # if this fails, the session times out
            await self._requests.ask(requests.revoke(self._requests.guard.lease), deadline=deadline)

    def abandon_connection(self) -> None:
        self._requests.is_over = True
        self._watcher.abandon_connection()
        self._members.after_fork_in_child()

    # -- the line ----------------------------------------------------------------------

    async def read(
        self,
        asked: Sequence[tuple[str, Watch | None]],
        *,
        line: LineView | None = None,
        deadline: float,
    ) -> Sequence[SeenEntry | None]:
        """Return the entry at each key, read from `line` if it is given.

        A line contains everything about its entries, so reading from the line takes no request.
        """
        if isinstance(line, EtcdLine):
            entries = [line.at(key) for key, _ in asked]
            seen = [None if one is None else one.seen() for one in entries]
            since = line.revision + 1
        else:
            seen, since = await self._read_keys([key for key, _ in asked], deadline)
        for (key, watch), found in zip(asked, seen, strict=True):
            if watch is not None and found is not None:
                await self._watcher.watch(key.encode(), watch, since=since, deadline=deadline)
        return seen

    async def _read_keys(
        self, keys: Sequence[str], deadline: float
    ) -> tuple[list[SeenEntry | None], int]:
        found: list[SeenEntry | None] = []
        since = 0
        for at in range(0, len(keys), 100):
            part = [requests.range_(key.encode()) for key in keys[at : at + 100]]
            answer = await self._requests.ask(requests.transaction([], part), deadline=deadline)
            found += [_seen(one.keys[0]) if one.keys else None for one in answer.answers]
            since = since or answer.header.revision + 1
        return found, since

    # -- leaving the line --------------------------------------------------------------

    async def delete(self, one: SessionClaim, *, deadline: float) -> bool:
        claim_id = one.claim.id
        is_doubtful = claim_id in self.lines.unanswered
        if one.key is None and not is_doubtful:
            return False
        keys, guard = self._keys.of(one.claim.name), self._requests.guard
        claim, hold = keys.claim(one.claim, guard.lease), keys.hold(one.claim, guard.lease)
        if is_doubtful:
            was_there = await self._withdraw(claim, hold, deadline)
        else:
            held_at = self.lines.held_at.get(claim_id, 0)
            # This is sent only once, because a repeat could not tell its own effect from another
            # client's.
            answer = await self._requests.ask_once(
                transactions.release(claim, hold, token=one.token, held_at=held_at),
                deadline=deadline,
            )
            was_there = answer.succeeded
        self.lines.unanswered.pop(claim_id, None)
        self.lines.held_at.pop(claim_id, None)
        return was_there

    async def _withdraw(self, claim: bytes, hold: bytes, deadline: float) -> bool:
        try:
            asked = transactions.withdraw(self._requests.guard, claim, hold)
            answer = await self._requests.ask(asked, deadline=deadline)
        except errors.OutOfSpace:
            # The session's key cannot be written, but deletions work. Unanswered requests of the
            # claim are refused too while there is no space. If one of them takes effect later, the
            # session's check for stray entries finds the claim.
            asked = requests.transaction([], [requests.delete(claim), requests.delete(hold)])
            answer = await self._requests.ask(asked, deadline=deadline)
            return bool(answer.answers[0].deleted)
        self._requests.outdated(answer)
        return bool(answer.answers[0].deleted)

    async def close_for(self, one: SessionClaim, seconds: float, *, deadline: float) -> bool:
        """Let the hold outlive the claim and the session; etcd removes it when its time is up.

        A server that is out of space accepts no such hold, but still deletes keys. Then the hold
        stays as it is, and the session removes it when its time is up. If the session fails to do
        so, the hold keeps the name closed, as after a crash, for one ttl from when another client
        finds it.
        """
        try:
            return await self._closed_for(one, seconds, deadline)
        except errors.OutOfSpace:
            claim = self._keys.of(one.claim.name).claim(one.claim, self._requests.guard.lease)
            answer, was_repeated = await self._requests.ask_twice(
                transactions.leave_hold(claim, token=one.token), deadline=deadline
            )
        for known in (self.lines.unanswered, self._closing, self.lines.held_at):
            known.pop(one.claim.id, None)
        return answer.succeeded or was_repeated

    async def _closed_for(self, one: SessionClaim, seconds: float, deadline: float) -> bool:
        claim_id = one.claim.id
        if claim_id in self.lines.unanswered:
            # An unanswered request must not put the claim back next to its hold.
            asked = transactions.void_pending(self._requests.guard)
            self._requests.outdated(await self._requests.ask(asked, deadline=deadline))
            self.lines.unanswered.pop(claim_id, None)
        keys, guard = self._keys.of(one.claim.name), self._requests.guard
        claim, hold = keys.claim(one.claim, guard.lease), keys.hold(one.claim, guard.lease)
        record = etcd_keys.of_closing(one.claim, seconds=seconds, at=time.time())
        lease = self._closing.get(claim_id, 0)
        was_asked = bool(lease)
        answer: Transacted | None = None
        while answer is None:
            if not lease:
                lease = await self._requests.lease_for(seconds, deadline=deadline)
                self._closing[claim_id] = lease  # a repeat recognises the hold by it
            asked = transactions.close_for(claim, hold, record, token=one.token, lease=lease)
            try:
                told = await self._requests.ask_twice(asked, deadline=deadline, is_other_lease=True)
                answer, was_asked = told[0], was_asked or told[1]
            except errors.LeaseGone:
                lease = 0
        self._closing.pop(claim_id, None)
        self.lines.held_at.pop(claim_id, None)
        # If the claim is gone, an unanswered request of ours removed it, unless another client has
        # closed the name under another lease.
        return answer.succeeded or (
            was_asked and all(found.lease == lease for found in answer.answers[0].keys)
        )

    async def remove(
        self, asked: Sequence[tuple[str, int | None]], *, deadline: float
    ) -> Sequence[bool]:
        """Delete the entries; a hold with a lock_delay keeps its name closed for that long.

        On a server that is out of space, a hold with a lock_delay is left as it is, as in
        `close_for`, and keeps its name closed for a ttl longer.
        """
        return [await self._remove(key.encode(), token, deadline) for key, token in asked]

    async def _remove(self, key: bytes, token: int | None, deadline: float) -> bool:
        claim_key, hold_key = key, twin(key)
        if key_parts_of("/".join(key.decode().rsplit("/", 3)[1:])).kind != CLAIM:
            claim_key, hold_key = hold_key, key
        is_full = False
        while True:
            looked = await self._requests.ask(
                requests.transaction([], [requests.range_(claim_key), requests.range_(hold_key)]),
                deadline=deadline,
            )
            claims, holds = (one.keys for one in looked.answers)
            claim = claims[0] if claims else KeyValue(claim_key)
            hold = holds[0] if holds else KeyValue(hold_key)
            if not (claims or holds) or token not in (None, claim.created):
                return False
            closing = None
            delay = etcd_keys.lock_delay_in(hold.value) if claims else 0.0
            try:
                if delay and not is_full:
                    record = etcd_keys.closed(hold.value, seconds=delay)
                    lease = await self._requests.lease_for(delay, deadline=deadline)
                    closing = requests.put(hold_key, record, lease=lease)
                answer = await self._requests.ask_once(
                    transactions.remove(
                        claim, hold, closing=closing, leaves_hold=bool(delay) and is_full
                    ),
                    deadline=deadline,
                    is_other_lease=True,
                )
            except errors.LeaseGone:
                continue
            except errors.OutOfSpace:
                if is_full:
                    raise
                is_full = True
                continue
            if answer.succeeded:
                return True

    # -- inspection --------------------------------------------------------------------

    async def diagnose(
        self, *, asked: float, granted: float, seconds: float, deadline: float
    ) -> Sequence[Finding]:
        del deadline
        is_open = bool(self._requests.guard.lease)
        return await diagnosed(
            self._address,
            asked=asked,
            granted=granted if is_open else None,
            seconds=seconds,
            clock=self._clock,
        )


def _seen(one: KeyValue) -> SeenEntry:
    return SeenEntry(one.value, one.created, 0.0, unchanged_for=0.0, was_touched=False)


def _own(key: bytes) -> OwnEntry | None:
    try:
        place = key_parts_of("/".join(key.decode().rsplit("/", 3)[1:]))
    except ValueError:
        return None  # this is the session's own key
    return OwnEntry(key.decode(), place.claim_id) if place.kind == CLAIM else None
