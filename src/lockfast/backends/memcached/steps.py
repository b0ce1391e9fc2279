"""What each verb does to an item: generators that yield a request and are sent its answer.

So the same steps serve a thread and a task. All requests of one go over one connection: a CAS
value counts where it was learnt and nowhere else, since a server that was started anew counts
from 1 again, and a number of ours would then be that of somebody else's item.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple, TypeAlias, TypeVar

from lockfast.backends.memcached import meta
from lockfast.backends.memcached.records import Record, State, record_of, unheld
from lockfast.model import Claim, Grant, Held, Holder, Inspection, Renewal

T = TypeVar("T")

Steps: TypeAlias = Generator[bytes, meta.Reply, T]
"""A wire sends each answer back and gets a T at the end. What the server refuses ends them: it is
raised to whoever asked, and not here."""

KEPT = 1000
"""Of so many names a connection knows the version that it saw last."""


class Seen(NamedTuple):
    """An item as it was read or written: at what time of ours, and how long the server keeps it."""

    record: Record | None
    cas: int
    at: float
    remaining: float


class Versions:
    """What one connection knows of the items: it spares reading what it wrote itself."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._seen: dict[bytes, Seen] = {}

    def of(self, key: bytes) -> Record | None:
        """Return what the item says as far as is known, or None."""
        seen = self._seen.get(key)
        return None if seen is None else seen.record

    def take(self, key: bytes) -> Seen:
        """Return what is known, and know it no more: whoever asks is about to change it."""
        return self._seen.pop(key)

    def keep(self, key: bytes, seen: Seen) -> None:
        """Know what was just written."""
        if len(self._seen) >= KEPT:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = seen

    def forget(self, key: bytes) -> None:
        """Know nothing of it any more."""
        self._seen.pop(key, None)


# -- the verbs -----------------------------------------------------------------------------


def acquire(
    versions: Versions,
    key: bytes,
    claim: Claim,
    *,
    mint: Callable[[int], int],
    is_over: Callable[[Claim], bool],
) -> Steps[Grant | Held]:
    """Take the name if it is free; where the claim has it already, set its deadline anew.

    `mint` makes the token out of the last one. `is_over` tells of a withdrawal, and is asked once
    the version is known: one that comes later sees this version too, and leaves another behind.
    """
    known = versions.of(key)
    may_pass = known is not None and (known.state is State.FREE or known.is_of(claim))
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
            seen = Seen(record, reply.number(b"c"), versions.now(), record.seconds)
        if is_over(claim):
            return Held(())
        if record.state is State.FREE:
            wanted = record.held_by(claim, token=mint(record.token))
            is_ours = yield from _swapped(versions, key, seen, wanted)
        elif record.is_of(claim):
            is_ours = yield from _prolonged(versions, key, seen, wanted := record, claim)
        else:
            return record.held(remaining=seen.remaining)
        if is_ours:
            return Grant(claim, wanted.token or None, claim.ttl)
        # Another was faster; or it was a request of ours that nobody waits for any more.
        seen = yield from _read(versions, key)


def renew(versions: Versions, key: bytes, claim: Claim) -> Steps[Renewal]:
    """Set the deadline anew of what this claim still holds."""
    seen = yield from _known_of(versions, key, claim)
    while (record := seen.record) is not None and record.is_of(claim):
        if (yield from _prolonged(versions, key, seen, record, claim)):
            return Renewal.RENEWED
        seen = yield from _read(versions, key)
    return Renewal.BROKEN if record is not None and record.broken == claim.id else Renewal.LOST


def end(
    versions: Versions, key: bytes, claim: Claim, *, min_hold: float, tombstone: bool
) -> Steps[bool]:
    """Let the claim not hold the name; true iff it did.

    With a tombstone also against a request of it that is still on its way: that one names the
    version it saw, so an item that says FREE is written anew and has another.
    """
    seen = yield from _known_of(versions, key, claim)
    while (record := seen.record) is not None:
        was_ours = record.is_of(claim)
        if not was_ours and not (tombstone and record.state is State.FREE):
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
    """End whatever holds the name, or what holds it by this token; the holder is told why."""
    seen = yield from _read(versions, key)
    while (record := seen.record) is not None and record.state is State.HELD:
        if token is not None and record.token != token:
            break
        if (yield from _swapped(versions, key, seen, record.freed(broken=record.claim))):
            return (record.holder(seen.remaining),)
        seen = yield from _read(versions, key)
    return ()


def inspect(versions: Versions, key: bytes, name: str) -> Steps[Inspection]:
    """Tell who holds the name."""
    seen = yield from _read(versions, key)
    record = unheld(name) if seen.record is None else seen.record
    return record.inspection(remaining=seen.remaining)


def named(versions: Versions, key: bytes) -> Steps[Inspection | None]:
    """Tell who holds the name behind a key; None if there is nothing any more."""
    seen = yield from _read(versions, key)
    return None if seen.record is None else seen.record.inspection(remaining=seen.remaining)


# -- their parts ---------------------------------------------------------------------------


def _read(versions: Versions, key: bytes) -> Steps[Seen]:
    versions.forget(key)
    reply = yield meta.get(key)
    now = versions.now()
    if reply.code == b"EN":
        return Seen(None, 0, now, 0.0)
    record = record_of(reply.value, key=key)
    remaining = reply.number(b"t")
    # In whole seconds of the server, which began at any moment: rather too young than too old,
    # as a min_hold is counted by it.
    record = record.aged(record.seconds - remaining - 1)
    return Seen(record, reply.number(b"c"), now, float(max(0, remaining)))


def _known_of(versions: Versions, key: bytes, claim: Claim) -> Steps[Seen]:
    """Return the item, read unless this connection wrote the claim into it."""
    known = versions.of(key)
    if known is not None and known.is_of(claim):
        return versions.take(key)
    return (yield from _read(versions, key))


def _prolonged(
    versions: Versions, key: bytes, seen: Seen, record: Record, claim: Claim
) -> Steps[bool]:
    """Let the server count anew, and write down for how long it was held so far."""
    now = versions.now()
    wanted = record.aged(now - seen.at)._replace(ttl=claim.ttl)
    return (yield from _swapped(versions, key, seen, wanted, at=now))


def _swapped(
    versions: Versions, key: bytes, seen: Seen, wanted: Record, *, at: float | None = None
) -> Steps[bool]:
    """Change the item if it is still as it was seen; false if it is not.

    What it says is true `at` that time, or else when the answer has come: a hold is counted from
    there, so that a min_hold is not cut short by the time that its grant was under way.
    """
    value, seconds = wanted.to_bytes(), wanted.seconds
    reply = yield meta.swap(key, value, cas=seen.cas, seconds=seconds)
    if reply.code != b"HD":
        return False
    at = versions.now() if at is None else at
    versions.keep(key, Seen(wanted, reply.number(b"c"), at, seconds))
    return True
