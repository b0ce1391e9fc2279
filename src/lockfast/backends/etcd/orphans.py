"""Holds whose claims are gone: since when we know of them, and how long they still count.

That a claim is gone is no proof that its holder has stopped: a leader that stood still for longer
than the ttl and comes back revokes leases which its successor has just renewed
(etcd-io/etcd#15247). The holder trusts its lease for its ttl at most. So whoever sees the hold
without its claim waits for that long, by its own clock and from its own first sight of it. Where
nobody waits, etcd removes it: `lines` sees to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.etcd.records import grace_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lockfast.backends.etcd.answers import KeyValue
    from lockfast.backends.etcd.standing import Standing

MOST = 10_000
"""So many are remembered; of one that is forgotten the time begins anew."""


class Orphans:
    """What one client has seen of them, and how long each counts by its record."""

    def __init__(self, grace: Callable[[bytes], float] = grace_in) -> None:
        self._grace = grace
        self._seen: dict[tuple[bytes, int, bytes], float] = {}
        """When each was first seen. By its record, which stays when it is put under a lease."""

    def look(self, line: Iterable[Standing], *, now: float) -> list[Standing]:
        """Know of those that are in line, and return those whose time is up.

        `now` is when the line was heard of, or later.
        """
        overdue = []
        for one in line:
            if one.claim is None and one.hold is not None:
                until = self._seen.setdefault(_known(one.hold), now)
                until += self._grace(one.hold.value)
                one.left = max(0.0, until - now)
                if now >= until:
                    overdue.append(one)
        while len(self._seen) > MOST:
            self._seen.pop(next(iter(self._seen)), None)
        return overdue

    def forget(self, one: Standing) -> None:
        """Know nothing more of one that was removed."""
        if one.hold is not None:
            self._seen.pop(_known(one.hold), None)


def _known(hold: KeyValue) -> tuple[bytes, int, bytes]:
    return hold.key, hold.created, hold.value
