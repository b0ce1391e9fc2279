"""A door of which only those rows were read that can decide: those inside, and the front.

A line may be thousands long, and reading it whole for every verb would take longer than
everything else together. What is known of the line is whole up to some place; behind it
only single places are known. Admission goes from the front and ends at the first who does
not fit. If it came to the end of what is known, more has to be read and all done anew.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from lockfast.backends.sql.rows import places_in
from lockfast.core.door import Door
from lockfast.core.place import WAITING

if TYPE_CHECKING:
    from lockfast.backends.sql.dialect import Seen
    from lockfast.backends.sql.steps import Rows
    from lockfast.core.place import Place

_in_order = attrgetter("arrived")


class PartialDoor(Door):
    """`fell_short` says that the answer is none: write nothing, read more and repeat.

    `now` is the store's time, `record` the capacity and the last token as they were read.
    """

    __slots__ = (
        "_counted",
        "_key",
        "_known_until",
        "_last",
        "_rows",
        "_waiting",
        "fell_short",
        "now",
        "record",
    )

    def __init__(self, key: bytes, seen: Seen, *, front: int | None) -> None:
        now, capacity, token, rows = seen
        places = places_in(key, rows, capacity=capacity)
        if len(places) > 1:
            places.sort(key=_in_order)
        super().__init__(capacity=capacity, token=token, places=places)
        self.fell_short: bool = False
        self.now: float = now
        self.record: tuple[int, int] = (capacity, token)
        self._key = key
        self._rows = rows
        self._known_until: int | None = None
        if front is not None and len(places) >= front:
            line = [one.arrived for one in places if one.standing is WAITING]
            if len(line) >= front:
                self._known_until = line[-1]
                self._last: int | None = None
                self._waiting = 0
                self._counted: dict[int, int] = {}

    # -- what is known of the rest -----------------------------------------------------

    @property
    def is_whole(self) -> bool:
        """Whether nobody stands behind those who were read."""
        return self._known_until is None

    @property
    def parties(self) -> set[str]:
        """The explicit owners among those who were read."""
        return {one.claim.party for one in self.places if one.claim.party is not None}

    @property
    def read(self) -> set[int]:
        """The arrivals that have a row, as far as they were read."""
        return {row[0] for row in self._rows if row[1]}

    def add(self, rows: Rows) -> None:
        """Know these places too, wherever they stand."""
        if rows:
            known = {one.arrived for one in self.places}
            new = [row for row in rows if row[0] not in known]
            self._rows = [*self._rows, *new]
            self.places.extend(places_in(self._key, new, capacity=self.capacity))
            self.places.sort(key=_in_order)

    def end(self, rows: Rows) -> None:
        """Know where the line ends: the last arrival, and how many rows are not the record's."""
        [(self._last, crowd)] = rows
        # All who do not wait were read, so the others are counted without being walked.
        others = sum(1 for one in self.places if one.arrived and one.standing is not WAITING)
        self._waiting = crowd - others

    def count(self, arrived: int, rows: Rows) -> None:
        """Know how many wait before this arrival."""
        [(self._counted[arrived],)] = rows

    def lacks_number_of(self, place: Place) -> bool:
        """Whether it waits behind the front, and its number in line is not known."""
        return self._is_behind(place) and place.arrived not in self._counted

    def _is_behind(self, place: Place) -> bool:
        known = self._known_until
        return known is not None and place.arrived > known and place.standing is WAITING

    # -- the steps of the door that need the whole line --------------------------------

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
        following = super()._next_arrival()
        if self._known_until is None:
            return following
        self.fell_short |= self._last is None
        return max(following, 1 + (self._last or 0))

    def _waiting_before(self, place: Place) -> int:
        if not self._is_behind(place):
            return super()._waiting_before(place)
        last, arrived = self._last, place.arrived
        if last is not None and arrived > last:
            # It has just come to the end, perhaps behind others who did.
            ahead: int | None = self._waiting + sum(
                last < one.arrived < arrived and one.standing is WAITING for one in self.places
            )
        else:
            ahead = self._counted.get(arrived)
        self.fell_short |= ahead is None
        # Those who are just being admitted, or leave the line, waited when they were counted.
        left = [one for one in self.dropped if one.standing is WAITING]
        return (ahead or 0) - len(
            {one.arrived for one in (*self.woken, *left) if one.arrived < arrived}
        )
