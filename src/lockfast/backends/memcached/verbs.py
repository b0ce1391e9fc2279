"""What each verb of the port does to an item, and the pauses between polls."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from lockfast.backends.memcached import meta
from lockfast.backends.memcached.records import ItemRecord, ItemState, record_of, unheld
from lockfast.core.backoff import delay
from lockfast.model import Claim, Grant, Held, Holder, Inspection, Renewal

if TYPE_CHECKING:
    from collections.abc import Callable

# How long each claim waits before it asks again, since this store has no wakeups and no line.
#
# The first pauses are short, so that a lock that is held briefly is acquired soon. Later pauses are
# longer, so that many waiters do not keep the server busy. The caller must hold a mutex.

FIRST_POLL_SECONDS = 0.002
LONGEST_POLL_SECONDS = 0.25


class PollPauses:
    """Counts the unsuccessful attempts of each waiting claim."""

    def __init__(self) -> None:
        self._attempts: dict[str, int] = {}

    def with_retry(self, claim: Claim, held: Held, *, jitter: float) -> Held:
        """Return the reply with the time of the next poll, at the latest when the item expires."""
        attempt = self._attempts.get(claim.id, 0)
        self._attempts[claim.id] = attempt + 1
        pause = delay(attempt, jitter=jitter, first=FIRST_POLL_SECONDS, most=LONGEST_POLL_SECONDS)
        ends_in = pause if held.retry_in is None else held.retry_in
        return replace(held, retry_in=min(pause, max(ends_in, FIRST_POLL_SECONDS)))

    def forget(self, claim: Claim) -> None:
        """Forget a claim that no longer waits."""
        self._attempts.pop(claim.id, None)


T = TypeVar("T")

# What each verb of the port does to an item, as generators that yield a request and are sent its
# reply.
#
# So threads and tasks can run the same steps. All requests of a verb use one connection, because a
# CAS value is valid only on the connection that received it. A restarted server counts CAS values
# from 1 again, and an old value of ours could then match another client's item.

Steps: TypeAlias = Generator[bytes, meta.MetaFlags, T]
"""The transport sends each reply into the generator, which returns a T at the end. An error from
the server is raised to the transport's caller, and the generator is not resumed."""

VERSIONS_MAX = 1000
"""Number of names whose last version a connection remembers."""


class SeenItem(NamedTuple):
    """An item as it was read or written.

    `at` is when the item was read or written, by our clock. `remaining` is how long the server
    keeps the item from then on.
    """

    record: ItemRecord | None
    cas: int
    at: float
    remaining: float


class Versions:
    """The items that one connection has written, kept so that they need not be read again."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._seen: dict[bytes, SeenItem] = {}

    def of(self, key: bytes) -> ItemRecord | None:
        """Return the item's record if this connection remembers it, otherwise None."""
        seen = self._seen.get(key)
        return None if seen is None else seen.record

    def take(self, key: bytes) -> SeenItem:
        """Return the known item and forget it, because the caller is about to change it."""
        return self._seen.pop(key)

    def keep(self, key: bytes, seen: SeenItem) -> None:
        """Remember an item that was just written."""
        if len(self._seen) >= VERSIONS_MAX:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = seen

    def forget(self, key: bytes) -> None:
        """Forget the item."""
        self._seen.pop(key, None)


# -- the verbs of the port -----------------------------------------------------------------


def acquire(
    versions: Versions,
    key: bytes,
    claim: Claim,
    *,
    mint: Callable[[int], int],
    is_over: Callable[[Claim], bool],
) -> Steps[Grant | Held]:
    """Take the name if it is free; if the claim holds it already, extend its lease.

    `mint` makes the new token from the last token. `is_over` reports whether the claim was
    withdrawn, and is called once the item's version is known. A withdrawal that comes later sees
    this version too, and replaces it.
    """
    known = versions.of(key)
    may_pass = known is not None and (known.state is ItemState.FREE or known.is_of(claim))
    seen = versions.take(key) if may_pass else (yield from _read(versions, key))
    while True:
        record = seen.record
        if record is None:
            record = unheld(claim.name)
            request = meta.add(key, record.to_bytes(), seconds=record.seconds)
            reply = yield request
            if reply.code != b"HD":
                seen = yield from _read(versions, key)
                continue
            seen = SeenItem(record, reply.number(b"c"), versions.now(), record.seconds)
        if is_over(claim):
            return Held(())
        if record.state is ItemState.FREE:
            wanted = record.held_by(claim, token=mint(record.token))
            is_ours = yield from _swapped(versions, key, seen, wanted)
        elif record.is_of(claim):
            is_ours = yield from _extended(versions, key, seen, wanted := record, claim)
        else:
            return record.held(remaining=seen.remaining)
        if is_ours:
            return Grant(claim, wanted.token or None, claim.ttl)
        # Another client was faster, or the server has executed a late request of ours.
        seen = yield from _read(versions, key)


def renew(versions: Versions, key: bytes, claim: Claim) -> Steps[Renewal]:
    """Extend the lease of a claim that still holds the name."""
    seen = yield from _known_item(versions, key, claim)
    while (record := seen.record) is not None and record.is_of(claim):
        if (yield from _extended(versions, key, seen, record, claim)):
            return Renewal.RENEWED
        seen = yield from _read(versions, key)
    return Renewal.BROKEN if record is not None and record.broken == claim.id else Renewal.LOST


def end(
    versions: Versions, key: bytes, claim: Claim, *, min_hold: float, tombstone: bool
) -> Steps[bool]:
    """End the claim's hold on the name; return whether the claim held it.

    With a tombstone, even a FREE item is written again, so that it gets another version. A request
    of the claim that is still on its way names the version that it saw, and will fail.
    """
    seen = yield from _known_item(versions, key, claim)
    while (record := seen.record) is not None:
        was_ours = record.is_of(claim)
        if not was_ours and not (tombstone and record.state is ItemState.FREE):
            return False
        wanted = record.freed()
        if was_ours:
            closed_for = min_hold - record.age - (versions.now() - seen.at)
            wanted = record.closed_for(closed_for) if closed_for > 0 else wanted
        if (yield from _swapped(versions, key, seen, wanted)):
            return was_ours
        seen = yield from _read(versions, key)
    return False


def break_(versions: Versions, key: bytes, *, token: int | None) -> Steps[tuple[Holder, ...]]:
    """End the hold on the name; with `token`, only if the hold has that token.

    The item records the broken claim, so that its holder learns that the hold was broken.
    """
    seen = yield from _read(versions, key)
    while (record := seen.record) is not None and record.state is ItemState.HELD:
        if token is not None and record.token != token:
            break
        if (yield from _swapped(versions, key, seen, record.freed(broken=record.claim))):
            return (record.holder(seen.remaining),)
        seen = yield from _read(versions, key)
    return ()


def inspect(versions: Versions, key: bytes, name: str) -> Steps[Inspection]:
    """Return who holds the name."""
    seen = yield from _read(versions, key)
    record = unheld(name) if seen.record is None else seen.record
    return record.inspection(remaining=seen.remaining)


def named(versions: Versions, key: bytes) -> Steps[Inspection | None]:
    """Return who holds the name whose item has this key; None if the item is gone."""
    seen = yield from _read(versions, key)
    return None if seen.record is None else seen.record.inspection(remaining=seen.remaining)


# -- parts of the verbs of the port --------------------------------------------------------


def _read(versions: Versions, key: bytes) -> Steps[SeenItem]:
    versions.forget(key)
    reply = yield meta.get(key)
    now = versions.now()
    if reply.code == b"EN":
        return SeenItem(None, 0, now, 0.0)
    record = record_of(reply.value, key=key)
    remaining = reply.number(b"t")
    # The server counts whole seconds, and the first of them may be cut short. If in doubt, assume
    # that the hold is younger, because the age decides when a min_hold has passed.
    record = record.aged(record.seconds - remaining - 1)
    return SeenItem(record, reply.number(b"c"), now, float(max(0, remaining)))


def _known_item(versions: Versions, key: bytes, claim: Claim) -> Steps[SeenItem]:
    """Return the item, read from the server unless this connection wrote the claim into it."""
    known = versions.of(key)
    if known is not None and known.is_of(claim):
        return versions.take(key)
    return (yield from _read(versions, key))


def _extended(
    versions: Versions, key: bytes, seen: SeenItem, record: ItemRecord, claim: Claim
) -> Steps[bool]:
    """Restart the item's expiry, and record how long the name has been held so far."""
    now = versions.now()
    wanted = record.aged(now - seen.at)._replace(ttl=claim.ttl)
    return (yield from _swapped(versions, key, seen, wanted, at=now))


def _swapped(
    versions: Versions, key: bytes, seen: SeenItem, wanted: ItemRecord, *, at: float | None = None
) -> Steps[bool]:
    """Change the item if it still has the version that was seen; return whether it was changed.

    The age of the record counts from `at`, by default from the arrival of the reply. If the age
    counted from the request, the time that a grant takes to arrive would cut a min_hold short.
    """
    value, seconds = wanted.to_bytes(), wanted.seconds
    reply = yield meta.swap(key, value, cas=seen.cas, seconds=seconds)
    if reply.code != b"HD":
        return False
    at = versions.now() if at is None else at
    versions.keep(key, SeenItem(wanted, reply.number(b"c"), at, seconds))
    return True
