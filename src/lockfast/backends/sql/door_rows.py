"""A door as rows that are read in part, changed and written back."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from lockfast.core.door import WAITING, Door, Entry, EntryState
from lockfast.core.naming import name_of
from lockfast.errors import ConfigurationError
from lockfast.model import Claim

if TYPE_CHECKING:
    from lockfast.backends.sql.dialect import SeenDoor
    from lockfast.backends.sql.steps import Rows
    from lockfast.model import Grant, Held

# The columns of an entry's row, in the same order in all SQL stores.

COLUMNS = (
    "arrived",
    "id",
    "client",
    "owner",
    "party",
    "weight",
    "ttl",
    "lock_delay",
    "min_hold",
    "standing",
    "until",
    "since",
    "token",
    "bell",
    "capacity",
    "last_token",
)
"""The columns of an entry's row. In a written row the key precedes them. The last two columns
belong to the record."""

_STATES = tuple(EntryState)


def entries_in(key: bytes, rows: Rows, *, capacity: int) -> list[Entry]:
    """Return the entries that the rows of a key describe."""
    name = name_of(key)
    return [_place(name, row, capacity) for row in rows if row[1]]


def row_of(key: bytes, place: Entry, door: Door) -> tuple[object, ...]:
    """Return the row of an entry."""
    claim = place.claim
    return (
        key,
        place.arrived,
        claim.id,
        claim.client,
        claim.owner,
        claim.party,
        claim.weight,
        claim.ttl,
        claim.lock_delay,
        claim.min_hold,
        int(place.state),
        place.until,
        place.since,
        place.token,
        place.bell,
        door.capacity,
        door.token,
    )


def record_of(key: bytes, door: Door) -> tuple[object, ...]:
    """Return the row of a record that contains no entry."""
    return (key, 0, "", "", "", None, 0, 0, 0, 0, 0, 0, 0, 0, "", door.capacity, door.token)


def _place(name: str, row: tuple[Any, ...], capacity: int) -> Entry:
    # Read columns by position for speed, because apart from its statements a verb spends most of
    # its time in this function.
    return Entry(
        Claim(row[1], name, row[2], row[3], row[5], capacity, row[6], row[4], row[7], row[8]),
        arrived=row[0],
        state=_STATES[row[9]],
        until=row[10],
        since=row[11],
        token=row[12],
        bell=row[13],
    )


# The changes that a verb made at a name, as rows to write and rows to delete.

Row = tuple[object, ...]


class Change:
    """The difference between a door as it was read and as a verb left it.

    `record` is the new row of the record, or None if the record is unchanged. `rows` are the rows
    of the other entries that are new or changed. `left` has the arrivals whose rows are deleted;
    the record is never among them.
    """

    __slots__ = ("_door", "key", "left", "record", "rows")

    def __init__(self, key: bytes, door: PartialDoor) -> None:
        self._door = door
        self.key: bytes = key
        self.left: list[int] = []
        changed = {place.arrived: place for place in door.changed}
        is_record_new = 0 in changed or (door.capacity, door.token) != door.record
        if door.dropped:
            # A new entry may reuse an arrival in the same step; then the row belongs to the new
            # entry.
            present = {place.arrived for place in door.places}
            gone = [place.arrived for place in door.dropped]
            self.left = [number for number in gone if number and number not in present]
            changed = {number: one for number, one in changed.items() if number in present}
            is_record_new = is_record_new or 0 in gone
        self.rows: list[Row] = [row_of(key, changed[number], door) for number in changed if number]
        self.record: Row | None = None
        if is_record_new:
            is_taken = bool(door.places) and door.places[0].arrived == 0
            self.record = row_of(key, door.places[0], door) if is_taken else record_of(key, door)

    @property
    def crowd(self) -> int:
        """The change in the number of rows besides the record."""
        read = self._door.read
        return sum(row[1] not in read for row in self.rows) - sum(one in read for one in self.left)

    @property
    def head(self) -> int | None:
        """The first arrival outside of the record; None if there is no entry outside.

        The first arrival is known even if the line is long: all entries that do not wait were read,
        and at least one entry of the front is still in line, because otherwise the verb would have
        set `fell_short`.
        """
        return next((one.arrived for one in self._door.places if one.arrived), None)


# A door of which only the rows for a decision were read: the entries inside and the front of the
# line.
#
# A line may have thousands of entries, and reading all of them for every verb would take longer
# than everything else together. The line is known completely up to some entry, and beyond that
# entry only in parts. Admission starts at the front and ends at the first claim that does not fit.
# If admission reaches the end of the known part, more rows have to be read and the verb repeated.

_in_order = attrgetter("arrived")


class PartialDoor(Door):
    """A door that may have been read only in part.

    If `fell_short` is set, the part was too small and the answer is void. The caller then writes
    nothing, reads more and repeats the verb. `now` is the store's time; `record` has the capacity
    and the last token as they were read.
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

    def __init__(self, key: bytes, seen: SeenDoor, *, front: int | None) -> None:
        now, capacity, token, rows = seen
        places = entries_in(key, rows, capacity=capacity)
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
            line = [one.arrived for one in places if one.state is WAITING]
            if len(line) >= front:
                self._known_until = line[-1]
                self._last: int | None = None
                self._waiting = 0
                self._counted: dict[int, int] = {}

    # -- what is known about the rest of the line --------------------------------------

    @property
    def is_whole(self) -> bool:
        """Whether the whole line was read."""
        return self._known_until is None

    @property
    def parties(self) -> set[str]:
        """The explicit owners of the entries that were read."""
        return {one.claim.party for one in self.places if one.claim.party is not None}

    @property
    def read(self) -> set[int]:
        """The arrivals that have a row, among those that were read."""
        return {row[0] for row in self._rows if row[1]}

    def add(self, rows: Rows) -> None:
        """Add more entries of the line, from any part of it."""
        if rows:
            known = {one.arrived for one in self.places}
            new = [row for row in rows if row[0] not in known]
            self._rows = [*self._rows, *new]
            self.places.extend(entries_in(self._key, new, capacity=self.capacity))
            self.places.sort(key=_in_order)

    def end(self, rows: Rows) -> None:
        """Record the last arrival in the line, and the number of rows besides the record."""
        [(self._last, crowd)] = rows
        # All entries that do not wait were read, so the number of waiting entries follows without a
        # scan.
        others = sum(1 for one in self.places if one.arrived and one.state is not WAITING)
        self._waiting = crowd - others

    def count(self, arrived: int, rows: Rows) -> None:
        """Record how many claims wait before this arrival."""
        [(self._counted[arrived],)] = rows

    def lacks_number_of(self, place: Entry) -> bool:
        """Return whether the entry waits behind the front at an unknown position in line."""
        return self._is_behind(place) and place.arrived not in self._counted

    def _is_behind(self, place: Entry) -> bool:
        known = self._known_until
        return known is not None and place.arrived > known and place.state is WAITING

    # -- the steps of the door that need the whole line --------------------------------

    def _admitted(self, line: list[Entry]) -> list[Entry]:
        admitted = super()._admitted(line)
        if self._known_until is not None:
            passing, last = set(admitted), self._known_until
            self.fell_short |= all(one in passing for one in line if one.arrived <= last)
        return admitted

    def _turn_away(self, client: str) -> None:
        # All claims of the client are dropped, wherever they are in line, so the whole line is
        # needed.
        self.fell_short |= self._known_until is not None
        super()._turn_away(client)

    def _next_arrival(self) -> int:
        following = super()._next_arrival()
        if self._known_until is None:
            return following
        self.fell_short |= self._last is None
        return max(following, 1 + (self._last or 0))

    def _waiting_before(self, place: Entry) -> int:
        if not self._is_behind(place):
            return super()._waiting_before(place)
        last, arrived = self._last, place.arrived
        if last is not None and arrived > last:
            # The entry has just joined the end of the line, perhaps behind other entries that have
            # just joined.
            ahead: int | None = self._waiting + sum(
                last < one.arrived < arrived and one.state is WAITING for one in self.places
            )
        else:
            ahead = self._counted.get(arrived)
        self.fell_short |= ahead is None
        # Subtract the entries that are being admitted or leave the line, because they were counted
        # as waiting.
        left = [one for one in self.dropped if one.state is WAITING]
        return (ahead or 0) - len(
            {one.arrived for one in (*self.woken, *left) if one.arrived < arrived}
        )


# A claim's passage through the door of its name. Several claims of one name can pass together.


class Arrived(NamedTuple):
    """The answer to a claim, and the door as the claim left it, as far as it was read."""

    answer: Grant | Held
    door: PartialDoor


@dataclass(frozen=True, slots=True)
class Arrival:
    """A claim for `Door.arrive`; `arrived` is its entry's arrival, if the client knows that."""

    claim: Claim
    bell: str = ""
    arrived: int | None = None

    @property
    def batch_key(self) -> str:
        """The claim's id, because one transaction answers a claim only once."""
        return self.claim.id

    def pass_through(self, door: PartialDoor) -> Outcome:
        """Arrive at the door; return the answer, or the error that refuses the claim.

        The error is returned, not raised, so that the other claims still go through.
        """
        try:
            return Arrived(door.arrive(self.claim, now=door.now, bell=self.bell), door)
        except ConfigurationError as error:
            return error  # nothing has changed, because the capacity is checked first


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A claim for `Door.withdraw`; `arrived` has the same meaning as in `Arrival`."""

    claim: Claim
    arrived: int | None = None
    tombstone: bool = False

    @property
    def batch_key(self) -> str:
        """The claim's id, because one transaction answers a claim only once."""
        return self.claim.id

    def pass_through(self, door: PartialDoor) -> Outcome:
        door.withdraw(self.claim, now=door.now, tombstone=self.tombstone)
        return None


Passage: TypeAlias = Arrival | Withdrawal
Outcome: TypeAlias = Arrived | ConfigurationError | None
"""The result of a passage; None for a withdrawal, which has no answer."""
