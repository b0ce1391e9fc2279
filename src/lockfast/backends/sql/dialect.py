"""What a store's dialect has to put into words for the steps.

Every store keeps of a name one record and a number of places. The record tells the capacity
and the last token, and the first to come to an empty door stands in it: that is place 0. All
others have a row each, by their arrival. SQLite keeps them in one table; on a server the
record is a table of its own, and its row is what a verb locks.

A row that is read has the columns of `rows.COLUMNS`, in their order; that of the record comes
first, and has no claim's id if nobody stands in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lockfast.backends.sql.changes import Change
    from lockfast.backends.sql.steps import Ask, Asked, Rows


class Seen(NamedTuple):
    """What was read of a name, and when by the store's clock."""

    now: float
    capacity: int
    token: int
    rows: Rows


class Dialect(Protocol):
    """The statements of one store. Methods make them; none runs one."""

    def door(self, key: bytes, *, front: int | None, locked: bool) -> Sequence[Ask]:
        """Ask for the record, all who do not wait, and so many of the line, or all of it.

        Locked, nobody else decides at this name until the transaction ends. Where a read shows
        what was there before a lock was waited for, the lock is a statement before the read.
        """
        ...

    def seen(self, answers: Sequence[Rows]) -> Seen | None:
        """Return what `door` was answered; None if there was no record to lock.

        The time is later than the lock: read earlier, a lease that ended while we waited would
        look alive.
        """
        ...

    def make(self, key: bytes) -> Asked:
        """Make the record, unless somebody else has just made it."""
        ...

    def own(self, key: bytes, claim_id: str, arrived: int) -> Ask:
        """Ask for the row of a claim that waits, where it is known to have arrived."""
        ...

    def own_among(self, key: bytes, claim_ids: Sequence[str]) -> Ask:
        """Ask for the rows of those of the claims that wait, wherever they stand."""
        ...

    def fellows(self, key: bytes, parties: Collection[str]) -> Ask:
        """Ask for the rows of those who wait and share a hold with one of these."""
        ...

    def end_of_line(self, key: bytes) -> Ask:
        """Ask for one row: the last arrival, and the number of rows beside the record."""
        ...

    def count_before(self, key: bytes, arrived: int) -> Ask:
        """Ask for one row: how many wait before this arrival."""
        ...

    def save(self, change: Change) -> Asked:
        """Write what has changed of a name; nothing if nothing has."""
        ...

    def names_in_use(self, start: bytes) -> Ask:
        """Ask for the keys that begin so and where somebody is, one a row, in byte order."""
        ...

    def names_of(self, clients: Sequence[str]) -> Ask:
        """Ask for the keys where one of the clients stands, one a row, in byte order."""
        ...
