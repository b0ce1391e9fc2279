"""What a verb has changed of a name, as rows to write and rows to delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.sql.rows import record_of, row_of

if TYPE_CHECKING:
    from lockfast.backends.sql.partial import PartialDoor

Row = tuple[object, ...]


class Change:
    """The difference between a door as it was read and as a verb left it.

    `record` is the row of the record, None if it stays as it is; `rows` are those of other
    places that came or changed; `left` the arrivals whose rows go, the record's never.
    """

    __slots__ = ("_door", "key", "left", "record", "rows")

    def __init__(self, key: bytes, door: PartialDoor) -> None:
        self._door = door
        self.key: bytes = key
        self.left: list[int] = []
        changed = {place.arrived: place for place in door.changed}
        is_record_new = 0 in changed or (door.capacity, door.token) != door.record
        if door.dropped:
            # An arrival may be given anew in the same step, and its row is then the new one's.
            standing = {place.arrived for place in door.places}
            gone = [place.arrived for place in door.dropped]
            self.left = [number for number in gone if number and number not in standing]
            changed = {number: one for number, one in changed.items() if number in standing}
            is_record_new = is_record_new or 0 in gone
        self.rows: list[Row] = [row_of(key, changed[number], door) for number in changed if number]
        self.record: Row | None = None
        if is_record_new:
            is_taken = bool(door.places) and door.places[0].arrived == 0
            self.record = row_of(key, door.places[0], door) if is_taken else record_of(key, door)

    @property
    def crowd(self) -> int:
        """How many rows more, or less, there are beside the record."""
        read = self._door.read
        return sum(row[1] not in read for row in self.rows) - sum(one in read for one in self.left)

    @property
    def head(self) -> int | None:
        """The first arrival beside the record, None if nobody is there.

        Known also of a long line: all who do not wait were read, and of its front at least
        one still stands, or the verb would have fallen short.
        """
        return next((one.arrived for one in self._door.places if one.arrived), None)
