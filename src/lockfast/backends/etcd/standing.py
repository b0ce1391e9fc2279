"""Who stands in the line of a name, by one list of its keys; pure.

Holders come first: whoever has a hold, be its claim there or not. Then the others, in the order in
which their claims were created. In front of a claim nobody is ever added, and what a hold takes up
was counted before it was put: so who is admitted by one list stays so.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lockfast.backends.etcd import records
from lockfast.backends.etcd.keys import CLAIM, Place, place_of
from lockfast.backends.sessions.answers import Seen
from lockfast.backends.sessions.line import Line
from lockfast.backends.sessions.records import capacity_in
from lockfast.backends.sessions.refusals import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockfast.backends.etcd.answers import KeyValue
    from lockfast.backends.etcd.keys import NameKeys


class Standing:
    """One claim with its hold, if it has one; or a hold that is left of one."""

    __slots__ = ("claim", "hold", "left", "name", "place")

    def __init__(self, name: str, place: Place) -> None:
        self.name: str = name
        self.place: Place = place
        self.claim: KeyValue | None = None
        self.hold: KeyValue | None = None
        self.left: float | None = None
        """Of a hold without its claim: for how long it still keeps its name closed."""

    @property
    def claim_id(self) -> str:
        """The id of the claim."""
        return self.place.claim_id

    @property
    def weight(self) -> int:
        """How much of the capacity it takes."""
        return self.place.weight

    @property
    def party(self) -> None:
        """Nobody: there are no explicit owners here."""
        return

    @property
    def is_orphan(self) -> bool:
        """Whether it is a hold without its claim."""
        return self.claim is None

    @property
    def token(self) -> int:
        """The revision of its claim; of an orphan, of its hold."""
        one = self.claim or self.hold
        return 0 if one is None else one.created

    def seen(self) -> Seen:
        """Return what people are told of it."""
        one = self.claim or self.hold
        assert one is not None  # noqa: S101 - it is one or the other
        data = one.value if self.left is None else records.closed(one.value, seconds=self.left)
        at = records.at_in(one.value)
        age = 0.0 if at is None else max(0.0, time.time() - at)
        return Seen(data, self.token, age, unchanged_for=0.0, was_touched=False)


class EtcdLine(Line):
    """The line of a name, as it was at one revision."""

    __slots__ = ("has_hold", "revision")

    def __init__(
        self,
        entries: Sequence[Standing],
        capacity: int,
        *,
        keys: NameKeys,
        revision: int,
        own: tuple[str, int] | None = None,
    ) -> None:
        """`own` is the name and the token of our claim: a key that was made again is another."""
        places = ((one.name, one.token) for one in entries)
        number = next((at for at, place in enumerate(places) if place == own), None)
        super().__init__(entries, capacity, prefix=keys.prefix.decode(), number=number)
        self.revision: int = revision
        held = None if number is None else entries[number].hold
        self.has_hold: bool = held is not None and not held.lease
        """Whether our claim is admitted in the store already, and until it ends: not by a hold
        that was left, and goes by itself."""
        left = [one.left for one in entries if one.left is not None]
        self.retry_in: float | None = min(left, default=None)

    def at(self, key: str) -> Standing | None:
        """Return what stands at a key."""
        name = key.removeprefix(self.prefix)
        found = (one for one in self.entries if one.name == name)
        return next(found, None)  # type: ignore[return-value]  # all are Standings


def in_line(found: Iterable[KeyValue], keys: NameKeys) -> list[Standing]:
    """Return who stands in line; Unreadable if something stands there that is none of ours.

    The keys have to be in the order of their creation.
    """
    claims: dict[str, Standing] = {}
    for one in found:
        name = one.key[len(keys.prefix) :].decode(errors="replace")
        try:
            place = place_of(name)
        except ValueError:
            raise Unreadable(
                f"{one.key.decode(errors='replace')} is a key of another program; choose a "
                "namespace of your own"
            ) from None
        if not one.value.startswith(b'{"format": 1,'):
            # Raises, with the reason: it is newer, or nothing that we wrote.
            capacity_in(one.value, key=one.key.decode(errors="replace"))
        tail = name.rpartition("/")[2]
        standing = claims.get(tail)
        if standing is None:
            standing = claims[tail] = Standing(name, place)
        if place.kind == CLAIM:
            standing.claim, standing.name, standing.place = one, name, place
        else:
            standing.hold = one
    holding = [one for one in claims.values() if one.hold is not None]
    waiting = [one for one in claims.values() if one.hold is None]
    return [*holding, *waiting]
