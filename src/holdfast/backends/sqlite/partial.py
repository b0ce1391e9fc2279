"""A door of which only those rows were read that can decide: those inside, and the front.

A line may be thousands long, and reading it whole for every verb would take longer than
everything else together. What is known of the line is whole up to some place; behind it
only single places are known. Admission goes from the front and ends at the first who does
not fit. If it came to the end of what is known, more has to be read and all done anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.sqlite.rows import (
    COUNT_BEFORE,
    LAST_ARRIVAL,
    LOAD_AT,
    LOAD_FRONT,
    LOAD_ONE,
    LOAD_PARTIES,
    places_in,
    record_in,
)
from holdfast.core.door import Door, Place, Standing

if TYPE_CHECKING:
    from holdfast.backends.sqlite.connection import Connection

FRONT = 2
"""How many of a line are read at first: the next, and the one who closes the door."""

GROWTH = 8


class PartialDoor(Door):
    """`fell_short` says that the answer is none: nothing was written, read more and repeat."""

    __slots__ = ("_connection", "_key", "_known_until", "fell_short")

    def __init__(
        self, connection: Connection, key: bytes, *, claim_id: str, arrived: int | None, front: int
    ) -> None:
        rows = connection.execute(LOAD_FRONT, (key, key, key, key, front)).fetchall()
        capacity, token = record_in(rows)
        places = {one.arrived: one for one in places_in(key, rows, capacity=capacity)}
        line = [one.arrived for one in places.values() if one.standing is Standing.WAITING]
        self._known_until = max(line) if len(line) >= front else None
        self._connection = connection
        self._key = key
        self.fell_short = False
        if self._known_until is not None:
            more = self._one(claim_id, arrived) if claim_id else []
            more += self._fellows(places)
            places.update((one.arrived, one) for one in places_in(key, more, capacity=capacity))
        in_order = [places[number] for number in sorted(places)]
        super().__init__(capacity=capacity, token=token, places=in_order)

    def _one(self, claim_id: str, arrived: int | None) -> list[tuple[object, ...]]:
        found = []
        if arrived is not None:
            found = self._connection.execute(LOAD_AT, (self._key, arrived, claim_id)).fetchall()
        return found or self._connection.execute(LOAD_ONE, (self._key, claim_id)).fetchall()

    def _fellows(self, places: dict[int, Place]) -> list[tuple[object, ...]]:
        # Whoever shares a hold passes wherever it stands.
        parties = {one.claim.party for one in places.values()} - {None}
        if not parties:
            return []
        marks = ", ".join("?" * len(parties))
        return self._connection.execute(
            f"{LOAD_PARTIES} ({marks})", (self._key, *parties)
        ).fetchall()

    def _admitted(self, line: list[Place]) -> list[Place]:
        admitted = super()._admitted(line)
        if self._known_until is not None:
            passing, last = set(admitted), self._known_until
            self.fell_short |= all(one in passing for one in line if one.arrived <= last)
        return admitted

    def _turn_away(self, client: str) -> None:
        # All its claims go, wherever they stand.
        self.fell_short |= self._known_until is not None
        super()._turn_away(client)

    def _next_arrival(self) -> int:
        if self._known_until is None:
            return super()._next_arrival()
        last: int = self._connection.execute(LAST_ARRIVAL, (self._key,)).fetchone()[0]
        return 1 + max(last, *(one.arrived for one in self.places[-1:]), 0)

    def _waiting_before(self, place: Place) -> int:
        if self._known_until is None or place.arrived <= self._known_until:
            return super()._waiting_before(place)
        row = self._connection.execute(COUNT_BEFORE, (self._key, place.arrived)).fetchone()
        # Those who are just being admitted are not written yet.
        return int(row[0]) - len(self.woken)
