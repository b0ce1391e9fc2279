"""How a place lies in a row: the columns that all SQL stores have, in one order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.core.naming import name_of
from lockfast.core.place import Place, Standing
from lockfast.model import Claim

if TYPE_CHECKING:
    from lockfast.backends.sql.steps import Rows
    from lockfast.core.door import Door

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
"""What is read of a place. Written, the key stands before them; the last two are the record's."""

_STANDINGS = tuple(Standing)


def places_in(key: bytes, rows: Rows, *, capacity: int) -> list[Place]:
    """Return the places that the rows of a key describe."""
    name = name_of(key)
    return [_place(name, row, capacity) for row in rows if row[1]]


def row_of(key: bytes, place: Place, door: Door) -> tuple[object, ...]:
    """Return the row of a place."""
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
        int(place.standing),
        place.until,
        place.since,
        place.token,
        place.bell,
        door.capacity,
        door.token,
    )


def record_of(key: bytes, door: Door) -> tuple[object, ...]:
    """Return the row of the record of a door where nobody stands in it."""
    return (key, 0, "", "", "", None, 0, 0, 0, 0, 0, 0, 0, 0, "", door.capacity, door.token)


def _place(name: str, row: tuple[Any, ...], capacity: int) -> Place:
    # By position: of all that a verb does beside its statements this takes the most time.
    return Place(
        Claim(row[1], name, row[2], row[3], row[5], capacity, row[6], row[4], row[7], row[8]),
        arrived=row[0],
        standing=_STANDINGS[row[9]],
        until=row[10],
        since=row[11],
        token=row[12],
        bell=row[13],
    )
