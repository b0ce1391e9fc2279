"""Decides which claims of one line are admitted, and which entries the others watch; pure.

Claims are in order of arrival and are admitted from the front while they fit. An admitted claim
stays admitted, because new claims join behind it, and a claim that leaves only makes room.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from lockfast.backends.sessions import records
from lockfast.core.admission import Weighed, admit
from lockfast.core.lease_text import hold_of
from lockfast.model import ALL, Closing, Held, Holder, Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lockfast.backends.sessions.records import SeenEntry


class LineEntry(Weighed, Protocol):
    """An entry in a line: a claim, or an ended claim that keeps its name closed."""

    @property
    def name(self) -> str:
        """The entry's name in this line."""
        ...

    @property
    def claim_id(self) -> str:
        """The id of the claim that the entry belongs to."""
        ...


class LineView:
    """The line of a name, as the store reported it at one moment, and our own claim's position."""

    __slots__ = (
        "capacity",
        "confirmed_at",
        "entries",
        "inside",
        "number",
        "prefix",
        "retry_in",
        "stepped_back_for",
    )

    def __init__(
        self,
        entries: Sequence[LineEntry],
        capacity: int,
        *,
        prefix: str,
        number: int | None = None,
    ) -> None:
        self.entries: Sequence[LineEntry] = entries
        self.capacity: int = capacity
        self.prefix: str = prefix
        """Prefix that makes an entry's name its key."""
        self.number: int | None = number
        """Number of entries in front of our claim; None if our claim is not in this line."""
        self.inside: int = admitted(entries, capacity=capacity)
        """Number of admitted entries, from the front."""
        self.stepped_back_for: LineEntry | None = None
        """If our claim had to leave the line: the entry for whose end it waits before it joins
        again."""
        self.confirmed_at: float | None = None
        """If reading this line made a quorum confirm the session: when that request was sent."""
        self.retry_in: float | None = None
        """Seconds until the line has to be read again, in stores where a watch does not report
        every change."""

    @property
    def is_admitted(self) -> bool:
        """Whether our claim is admitted."""
        return (
            self.number is not None and self.number < self.inside and self.stepped_back_for is None
        )

    def key_of(self, entry: LineEntry) -> str:
        """Return the key of an entry."""
        return f"{self.prefix}{entry.name}"

    def to_watch(self) -> Sequence[LineEntry]:
        """Return the entries whose end or touch is the next event that can affect our claim."""
        if self.stepped_back_for is not None:
            return [self.stepped_back_for]
        if self.number is None:
            return []
        return to_watch(self.entries, self.number, inside=self.inside, capacity=self.capacity)

    def must_touch(self) -> bool:
        """Return whether our claim has to notify the claim behind it when it is admitted."""
        return self.number is not None and must_touch(
            self.entries, self.number, capacity=self.capacity
        )

    @property
    def place(self) -> int | None:
        """The place of our claim among the waiters, from 1; also 1 if our claim is admitted."""
        return None if self.number is None else max(1, self.number - self.inside + 1)


def admitted(line: Sequence[LineEntry], *, capacity: int) -> int:
    """Return how many entries at the front of the line are admitted."""
    return len(admit(capacity=capacity, inside=(), line=line))


def to_watch(
    line: Sequence[LineEntry], place: int, *, inside: int, capacity: int
) -> Sequence[LineEntry]:
    """Return the entries whose end or touch is the next event that can affect the claim at `place`.

    Each claim that leaves wakes only one waiter, however many claims wait. A mutex claim and a
    writer watch the entry just in front of them. A reader watches the nearest writer in front,
    since other readers do not keep it out. Where permits are counted, any holder that leaves may
    admit the first waiter, so the first waiter watches all holders. Every other waiter watches the
    claim just in front of it. When that claim is admitted, it touches its own entry, and its
    follower becomes the first waiter.
    """
    if capacity == 1 or line[place].weight == ALL:
        return line[place - 1 : place]
    if capacity == ALL:
        writers = [one for one in line[:place] if one.weight == ALL]
        return writers[-1:]
    return line[:inside] if place == inside else line[place - 1 : place]


def must_touch(line: Sequence[LineEntry], place: int, *, capacity: int) -> bool:
    """Return whether a claim that is admitted has to notify the claim behind it."""
    return capacity not in (1, ALL) and place + 1 < len(line)


# Reports on a line: its holders, its waiters, and the entries that keep the name closed; pure.
#
# The transport reports the ages.


def held(
    entries: Sequence[LineEntry],
    seen: Sequence[SeenEntry | None],
    *,
    place: int | None = None,
    retry_in: float | None = None,
) -> Held:
    """Return the refusal of a claim, based on the records of the admitted entries."""
    return Held(holders_of(entries, seen), place, retry_in, closing_of(entries, seen))


def holders_of(
    entries: Sequence[LineEntry], seen: Sequence[SeenEntry | None]
) -> tuple[Holder, ...]:
    """Return the holders, without holders that have left since the line was listed."""
    return tuple(
        Holder(
            owner=records.owner_in(one.data),
            token=one.token,
            weight=entry.weight,
            age=one.age,
            remaining=None,
            hold=hold_of(entry.claim_id, party=entry.party),
        )
        for entry, one in _present(entries, seen)
        if records.closed_for_in(one.data) is None
    )


def closing_of(
    entries: Sequence[LineEntry], seen: Sequence[SeenEntry | None]
) -> tuple[Closing, ...]:
    """Return the ended claims that keep the name closed, and for how long, from their records."""
    return tuple(
        Closing(records.owner_in(one.data), entry.weight, max(0.0, seconds - one.unchanged_for))
        for entry, one in _present(entries, seen)
        if (seconds := records.closed_for_in(one.data)) is not None
    )


def waiters_of(
    entries: Sequence[LineEntry], seen: Sequence[SeenEntry | None]
) -> tuple[Waiter, ...]:
    """Return the waiters, in order."""
    return tuple(
        Waiter(records.owner_in(one.data), entry.weight, place, one.age)
        for place, (entry, one) in enumerate(_present(entries, seen), 1)
    )


def _present(
    entries: Sequence[LineEntry], seen: Sequence[SeenEntry | None]
) -> Iterator[tuple[LineEntry, SeenEntry]]:
    for entry, one in zip(entries, seen, strict=True):
        if one is not None:
            yield entry, one


# Which claims are notified of a key: there is one watch per key, however many claims wait for it.
#
# A store's client drops a watch only when it has fired. If each waiter had a watch of its own, the
# watches of waiters that gave up would pile up at a lock that is held for days.


class Watches:
    """The watches of one session; a mutex guards them, because events may come on any thread."""

    def __init__(self, heard: Callable[[str, str], None]) -> None:
        """`heard` is called with the claim's id and the key when something happens at the key."""
        self._heard = heard
        self._lock = threading.Lock()
        self._watches: dict[str, Watch] = {}
        self._watched: dict[str, set[str]] = {}

    def on(self, key: str, claim_id: str) -> Watch:
        """Return the watch of a key, and add this claim to the claims that it notifies."""
        with self._lock:
            watch = self._watches.get(key)
            if watch is None:
                watch = self._watches[key] = Watch(self, key)
            watch.claims.add(claim_id)
            self._watched.setdefault(claim_id, set()).add(key)
            return watch

    def forget(self, claim_id: str) -> None:
        """Stop notifying this claim."""
        if claim_id not in self._watched:
            return
        with self._lock:
            for key in self._watched.pop(claim_id, ()):
                watch = self._watches.get(key)
                if watch is not None:
                    watch.claims.discard(claim_id)

    def drop(self, key: str) -> None:
        """Forget the watch of a key at which there is no entry."""
        with self._lock:
            watch = self._watches.pop(key, None)
            for claim_id in watch.claims if watch is not None else ():
                self._watched.get(claim_id, set()).discard(key)

    def fire(self, watch: Watch) -> None:
        """Notify all claims of the watch; it fires once, so the key has to be watched again."""
        with self._lock:
            if self._watches.get(watch.key) is watch:
                del self._watches[watch.key]
            claims, watch.claims = watch.claims, set()
            for claim_id in claims:
                self._watched.get(claim_id, set()).discard(watch.key)
        for claim_id in claims:
            self._heard(claim_id, watch.key)


class Watch:
    """Called when something happens at a key, or when the connection is lost."""

    __slots__ = ("_watches", "claims", "key")

    def __init__(self, watches: Watches, key: str) -> None:
        self._watches = watches
        self.key: str = key
        self.claims: set[str] = set()

    def __call__(self, _event: object = None) -> None:
        """Fire; the transport calls this, on any thread."""
        self._watches.fire(self)
