"""The line of a name, read from one list of its keys, and its orphaned holds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lockfast.backends.etcd import keys
from lockfast.backends.etcd.keys import CLAIM, KeyParts, grace_in, key_parts_of
from lockfast.backends.sessions.line import LineView
from lockfast.backends.sessions.records import SeenEntry, UnreadableRecord, capacity_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lockfast.backends.etcd.keys import NameKeys
    from lockfast.backends.etcd.replies import KeyValue
    from lockfast.backends.sessions.records import SessionClaim

# Orphans are holds whose claims are gone. This part records when we first saw each orphan, and how
# long the orphan still counts.
#
# A missing claim does not prove that its holder has stopped. If etcd's leader freezes for longer
# than the ttl and then comes back, it revokes leases that its successor has just renewed
# (etcd-io/etcd#15247). The holder trusts its lease for at most one ttl. So a client that sees the
# hold without its claim waits for that long, on its own clock and from its own first sight of the
# hold. If no client waits, etcd removes the hold, because `_async/line.py` puts the hold under a
# lease.

ORPHANS_MAX = 10_000
"""Maximum number of orphans remembered; the waiting time of a forgotten orphan starts again."""


class Orphans:
    """The orphans that one client has seen, and how long each orphan still counts."""

    def __init__(self, grace: Callable[[bytes], float] = grace_in) -> None:
        self._grace = grace
        self._seen: dict[tuple[bytes, int, bytes], float] = {}
        """When each orphan was first seen. An orphan is identified by the key, the creation and the
        record of its hold, which stay the same when the hold is put under a lease."""

    def look(self, line: Iterable[EtcdEntry], *, now: float) -> list[EtcdEntry]:
        """Record the orphans in a line, and return those whose time is up.

        `now` is when the line was received, or later.
        """
        overdue = []
        for one in line:
            if one.claim is None and one.hold is not None:
                until = self._seen.setdefault(_known(one.hold), now)
                until += self._grace(one.hold.value)
                one.left = max(0.0, until - now)
                if now >= until:
                    overdue.append(one)
        while len(self._seen) > ORPHANS_MAX:
            self._seen.pop(next(iter(self._seen)), None)
        return overdue

    def forget(self, one: EtcdEntry) -> None:
        """Forget an orphan that was removed."""
        if one.hold is not None:
            self._seen.pop(_known(one.hold), None)


def _known(hold: KeyValue) -> tuple[bytes, int, bytes]:
    return hold.key, hold.created, hold.value


# The line of a name, read from one list of its keys; pure.
#
# Entries with a hold come first, whether their claim is there or not. The other claims follow, in
# the order of their creation. No claim is ever added in front of another, and a hold's weight was
# counted before the hold was put. So a claim that one list shows as admitted stays admitted.


class EtcdEntry:
    """A claim, with its hold if it has one, or an orphaned hold."""

    __slots__ = ("claim", "hold", "left", "name", "place")

    def __init__(self, name: str, place: KeyParts) -> None:
        self.name: str = name
        self.place: KeyParts = place
        self.claim: KeyValue | None = None
        self.hold: KeyValue | None = None
        self.left: float | None = None
        """For an orphan, the number of seconds for which it still keeps its name closed."""

    @property
    def claim_id(self) -> str:
        """The id of the claim."""
        return self.place.claim_id

    @property
    def weight(self) -> int:
        """The share of the capacity that the claim takes."""
        return self.place.weight

    @property
    def party(self) -> None:
        """None, because this store has no explicit owners."""
        return

    @property
    def token(self) -> int:
        """The revision that created the claim, or the hold if this entry is an orphan."""
        one = self.claim or self.hold
        return 0 if one is None else one.created

    def seen(self) -> SeenEntry:
        """Return this entry in the form that all stores with sessions report."""
        one = self.claim or self.hold
        assert one is not None  # noqa: S101 - an entry has a claim or a hold
        data = one.value if self.left is None else keys.closed(one.value, seconds=self.left)
        at = keys.at_in(one.value)
        age = 0.0 if at is None else max(0.0, time.time() - at)
        return SeenEntry(data, self.token, age, unchanged_for=0.0, was_touched=False)


class EtcdLine(LineView):
    """The line of a name, as it was at one revision."""

    __slots__ = ("held_at", "revision")

    def __init__(
        self,
        entries: Sequence[EtcdEntry],
        *,
        keys: NameKeys,
        revision: int,
        own: SessionClaim | None = None,
    ) -> None:
        """`own` is our claim, if this is to be the line as our claim sees it."""
        prefix, number = keys.prefix.decode(), None
        capacity = entries[0].place.capacity if entries else 0
        if own is not None:
            capacity = own.claim.capacity
            # A key that was deleted and created again has another token, and is not our entry.
            found = (
                at
                for at, one in enumerate(entries)
                if one.token == own.token and f"{prefix}{one.name}" == own.key
            )
            number = next(found, None)
        super().__init__(entries, capacity, prefix=prefix, number=number)
        self.revision: int = revision
        hold = None if number is None else entries[number].hold
        self.held_at: int | None = None if hold is None or hold.lease else hold.modified
        """The revision at which our claim's hold was put; None if the claim is not yet admitted. A
        hold under a lease does not count, because that hold was orphaned and will expire."""
        left = [one.left for one in entries if one.left is not None]
        self.retry_in: float | None = min(left, default=None)

    def at(self, key: str) -> EtcdEntry | None:
        """Return the entry at a key."""
        name = key.removeprefix(self.prefix)
        found = (one for one in self.entries if one.name == name)
        return next(found, None)  # type: ignore[return-value]  # all are EtcdEntry


def in_line(found: Iterable[KeyValue], keys: NameKeys) -> list[EtcdEntry]:
    """Return the entries of a line; raises UnreadableRecord if one of the keys is not ours.

    The keys have to be in the order of their creation.
    """
    claims: dict[str, EtcdEntry] = {}
    for one in found:
        name = one.key[len(keys.prefix) :].decode(errors="replace")
        try:
            place = key_parts_of(name)
        except ValueError:
            raise UnreadableRecord(
                f"{one.key.decode(errors='replace')} is a key of another program; choose a "
                "namespace of your own"
            ) from None
        if not one.value.startswith(b'{"format": 1,'):
            # This call raises an error that says whether the record is newer than this version or
            # not ours.
            capacity_in(one.value, key=one.key.decode(errors="replace"))
        tail = name.rpartition("/")[2]
        entry = claims.get(tail)
        if entry is None:
            entry = claims[tail] = EtcdEntry(name, place)
        if place.kind == CLAIM:
            entry.claim, entry.name, entry.place = one, name, place
        else:
            entry.hold = one
    holding = [one for one in claims.values() if one.hold is not None]
    waiting = [one for one in claims.values() if one.hold is None]
    return [*holding, *waiting]
