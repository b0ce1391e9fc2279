# Generated from src/lockfast/backends/etcd/_async/wire.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The wire of etcd: what a session asks for, said by keys; `sessions` has the reason.

A session is a lease and a key under it. What proves it is a keep-alive and, after its answer, a
linearizable read of that key by the same member in the same term: a leader that was deposed renews
leases all the same (etcd-io/etcd#7029), but it cannot answer such a read.
"""

from __future__ import annotations

import logging
import math
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from lockfast.backends.etcd import requests, transactions
from lockfast.backends.etcd._sync.diagnosis import diagnosed
from lockfast.backends.etcd._sync.leaving import Leaving
from lockfast.backends.etcd.keys import CLAIM, place_of
from lockfast.backends.etcd.standing import EtcdLine
from lockfast.backends.etcd.transactions import Guard
from lockfast.backends.sessions.answers import Beat, Opening, Own, Seen
from lockfast.backends.sessions.refusals import Unreadable, ended
from lockfast.errors import BackendMisbehaved, LockError, OutcomeUnknown
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.etcd.answers import KeyValue, Ranged, Watched
    from lockfast.backends.sessions.claims import CarriedClaim
    from lockfast.backends.sessions.line import Line
    from lockfast.backends.sessions.watches import Watch
    from lockfast.model import Finding

PAGE = 1000
"""So many keys are asked for at once where there may be very many."""

ROUNDS = 3
"""So often a heartbeat is begun. An election may come between its two halves, or the loss of a
member, and hardly twice; where each request goes to another member, more would only be load."""

PAUSE = 0.05
"""So long before it is begun again."""

_log = logging.getLogger("lockfast")


class EtcdWire(Leaving):
    """One session with a cluster; see the protocol for each method."""

    _is_unproven_told = False

    @property
    def is_connected(self) -> bool:
        """See the protocol: another member is asked where one is lost, so only its end counts."""
        return not self.is_over

    @property
    def greeting(self) -> None:
        """See the protocol: a new connection says nothing of the session."""
        return

    # -- the session -------------------------------------------------------------------

    def open(self, *, deadline: float) -> Opening:
        """See the protocol: a lease, and a key under it."""
        sent_at = self._clock.now()
        granted = self.ask_once(requests.grant(math.ceil(self.ttl)), deadline=deadline)
        self.ttl = float(granted.ttl)
        key = self._keys.session(granted.lease)
        self._guard = Guard(key, 0, granted.lease)
        put = self.ask(transactions.open_(self._guard), deadline=deadline)
        self._created = put.header.revision
        if not put.succeeded:
            keys = put.answers[0].keys
            if not keys:
                raise BackendMisbehaved(
                    f"{self.where} says that {key.decode()} is there and is not"
                )
            [found] = keys
            if found.lease != granted.lease:
                raise Unreadable(
                    f"{key.decode()} is a key of another program; choose a namespace of your own"
                )
            # By a request of ours that was not answered: nobody else has this lease.
            self._created = found.created
        self._guard = Guard(key, self._created, granted.lease)
        self._watch_session(since=self._created + 1, deadline=deadline)
        return Opening(self.ttl, sent_at)

    def _watch_session(self, *, since: int, deadline: float) -> None:
        """Hear at once when the session is ended: by its time, by an operator, or by mistake."""
        self._watcher.watch(
            self._guard.key, self._session_gone, since=since, deletions=True, deadline=deadline
        )

    def _session_gone(self, told: Watched | None) -> None:
        if told is not None:
            self.end()

    def beat(self, *, confirm: bool, deadline: float) -> Beat:
        """See the protocol; each proves itself."""
        del confirm
        sent_at, read = self._proven(deadline)
        if not self._watcher.is_watched(self._session_gone):
            with suppress(LockError):  # it is for speed; the next heartbeat tries again
                # From what was read: an older revision may be forgotten, after a compaction.
                self._watch_session(since=read.header.revision + 1, deadline=deadline)
        return Beat(sent_at, self._clock.now(), is_confirmed=True, proves_itself=True)

    def _proven(self, deadline: float) -> tuple[float, Ranged]:
        """Return when the keep-alive was sent that is proven, and the read that proves it."""
        for tried in range(ROUNDS):
            if tried:
                runtime.sleep(PAUSE)
            sent_at = self._clock.now()
            kept = self.ask_once(requests.keep_alive(self._guard.lease), deadline=deadline)
            if kept.ttl <= 0:
                self.end()
                raise ended(where=self.where)
            read = self.ask_once(requests.range_(self._guard.key), deadline=deadline)
            if not read.keys or read.keys[0].created != self._created:
                self.end()
                raise ended(where=self.where)
            # By somebody else, or after an election: it proves nothing of this keep-alive.
            if read.header.confirms(kept.header):
                return sent_at, read
        raise self._unproven()

    def _unproven(self) -> OutcomeUnknown:
        error = OutcomeUnknown(
            f"{self.where}: a heartbeat and its proof were answered by different members, "
            f"{ROUNDS} times in a row; if an address is that of a load balancer, name each member "
            "in the URL instead"
        )
        with self._state:
            was_told, self._is_unproven_told = self._is_unproven_told, True
        if not was_told:
            # Nobody sees the error of a background heartbeat, only leases that are lost.
            _log.warning("%s", error)
        return error

    def own(self, *, deadline: float) -> Sequence[Own]:
        """See the protocol."""
        left = self.ask(requests.time_to_live(self._guard.lease, with_keys=True), deadline=deadline)
        return [own for key in left.keys if (own := self._own(key)) is not None]

    def _own(self, key: bytes) -> Own | None:
        try:
            place = place_of("/".join(key.decode().rsplit("/", 3)[1:]))
        except ValueError:
            return None  # the session's own
        return Own(key.decode(), place.claim_id) if place.kind == CLAIM else None

    def hang_up(self) -> None:
        """See the protocol."""
        self._members.hang_up()

    def close(self, *, goodbye: bool, deadline: float) -> None:
        """See the protocol; what is held stays closed for as long as its holder may trust it."""
        is_open, self.is_over = self._guard.lease and not self.is_over, True
        # The others also where somebody had no patience for the goodbye.
        parting = [partial(self._say_goodbye, deadline)] if goodbye and is_open else []
        runtime.each_in_turn(*parting, self._watcher.close, self._members.close)

    def _say_goodbye(self, deadline: float) -> None:
        with suppress(LockError):  # then it ends by its time
            self.ask(requests.revoke(self._guard.lease), deadline=deadline)

    def leak(self) -> None:
        """See the protocol."""
        self.is_over = True
        self._watcher.leak()
        self._members.after_fork_in_child()

    # -- the line ----------------------------------------------------------------------

    def read(
        self,
        asked: Sequence[tuple[str, Watch | None]],
        *,
        line: Line | None = None,
        deadline: float,
    ) -> Sequence[Seen | None]:
        """See the protocol: a line says all of what stands in it."""
        if isinstance(line, EtcdLine):
            standing = [line.at(key) for key, _ in asked]
            seen = [None if one is None else one.seen() for one in standing]
            since = line.revision + 1
        else:
            seen, since = self._read_keys([key for key, _ in asked], deadline)
        for (key, watch), found in zip(asked, seen, strict=True):
            if watch is not None and found is not None:
                self._watcher.watch(key.encode(), watch, since=since, deadline=deadline)
        return seen

    def _read_keys(self, keys: Sequence[str], deadline: float) -> tuple[list[Seen | None], int]:
        found: list[Seen | None] = []
        since = 0
        for at in range(0, len(keys), 100):
            part = [requests.range_(key.encode()) for key in keys[at : at + 100]]
            answer = self.ask(requests.transaction([], part), deadline=deadline)
            found += [_seen(one.keys[0]) if one.keys else None for one in answer.answers]
            since = since or answer.header.revision + 1
        return found, since

    def leave(
        self, one: CarriedClaim, asked: Sequence[str], *, line: Line, deadline: float
    ) -> Sequence[Seen | None]:
        """See the protocol."""
        self.delete(one, deadline=deadline)
        return self.read([(key, None) for key in asked], line=line, deadline=deadline)

    # -- for people --------------------------------------------------------------------

    def look(self, name: str, *, confirm: bool, deadline: float) -> Line:
        """See the protocol: a quorum is asked in any case."""
        del confirm
        return self.read_line(self._keys.of(name), clears=False, deadline=deadline)

    def names(self, *, deadline: float) -> Sequence[str]:
        """See the protocol: those that have a key."""
        span, found = self._keys.all_names, dict[str, None]()
        begin = span.begin
        while True:
            page = self.ask(
                requests.range_(begin, span.end, limit=PAGE, keys_only=True), deadline=deadline
            )
            for one in page.keys:
                name = self._keys.name_in(one.key)
                if name is not None:
                    found[name] = None
            if not page.more:
                return list(found)
            begin = page.keys[-1].key + b"\0"

    def diagnose(
        self, *, asked: float, granted: float, seconds: float, deadline: float
    ) -> Sequence[Finding]:
        """See the protocol."""
        del deadline
        return diagnosed(
            self.address,
            asked=asked,
            granted=granted if self._guard.lease else None,  # else there is no session
            seconds=seconds,
            clock=self._clock,
        )


def _seen(one: KeyValue) -> Seen:
    return Seen(one.value, one.created, 0.0, unchanged_for=0.0, was_touched=False)
