"""The statements that a store's dialect has to provide for the steps.

Every store keeps one record per name and any number of entries. The record has the capacity and the
last token. It also contains the entry of a claim that arrived at an empty door; that entry is
arrival 0. Every other entry has a row of its own, ordered by arrival. SQLite keeps the record and
all other entries in one table. On a server the record is in a table of its own, and a verb locks
the record's row.

A row that is read has the columns of `door_rows.COLUMNS`, in that order. The row of the record
comes first; its claim id is empty if it contains no entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from lockfast.backends.sql.steps import Query, QueryMany

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lockfast.backends.sql.door_rows import Change
    from lockfast.backends.sql.steps import Queries, Rows


class SeenDoor(NamedTuple):
    """The rows that were read of one door, and when, by the store's clock."""

    now: float
    capacity: int
    token: int
    rows: Rows


class Dialect:
    """Builds the statements of one store, and runs none of them.

    A subclass sets the text of each statement. A list of values is written `(LIST)` there.
    """

    _mark: ClassVar[str] = "?"
    """What stands for a value in a text."""

    _make: str
    _own: str
    _own_among: str
    _same_owner: str
    _end_of_line: str
    _count_before: str
    _names_in_use: str
    _names_of: str

    # -- reading -----------------------------------------------------------------------

    def door(self, key: bytes, *, front: int | None, locked: bool) -> Sequence[Query]:
        """Read the record, all entries that do not wait, and the first `front` waiting entries.

        If `front` is None, all waiting entries are read. With `locked`, no other client can decide
        anything about this name until the transaction ends. On a store where a read that waits for
        a lock returns the state from before the wait, a separate statement takes the lock before
        the read.
        """
        raise NotImplementedError

    def seen(self, answers: Sequence[Rows]) -> SeenDoor | None:
        """Return the door that the answers to `door` describe; None if the name has no record.

        The time is read after the lock is taken. If it were read earlier, a lease that ended while
        we waited would seem to be alive. It precedes the other columns in the first answer.
        """
        first, *others = answers
        records = [row for row in first if row[1] == 0]
        if not records:
            return None
        [(now, *record)] = records
        rows = [tuple(record), *(row[1:] for row in first if row[1] != 0)]
        for more in others:
            rows.extend(more)
        return SeenDoor(now, record[-2], record[-1], rows)

    def own(self, key: bytes, claim_id: str, arrived: int) -> Query:
        """Read the row of a waiting claim whose arrival is known."""
        return Query(self._own, (key, arrived, claim_id))

    def own_among(self, key: bytes, claim_ids: Sequence[str]) -> Query:
        """Of these claims, read the rows of the ones that wait, wherever they are in line."""
        return self._listing(self._own_among, claim_ids, key)

    def same_owner(self, key: bytes, parties: Collection[str]) -> Query:
        """Read the rows of waiting claims that belong to one of these explicit owners."""
        return self._listing(self._same_owner, sorted(parties), key)

    def end_of_line(self, key: bytes) -> Query:
        """Read one row with the last arrival and the number of rows besides the record."""
        return Query(self._end_of_line, (key, key))

    def count_before(self, key: bytes, arrived: int) -> Query:
        """Read one row with the number of claims that wait before this arrival."""
        return Query(self._count_before, (key, arrived))

    def names_in_use(self, start: bytes) -> Query:
        """Read the keys in use that begin with `start`, one per row, in byte order."""
        return Query(self._names_in_use, (start, len(start), start))

    def names_of(self, clients: Sequence[str]) -> Query:
        """Read the keys where one of the clients has an entry, one per row, in byte order."""
        return self._listing(self._names_of, clients)

    def _listing(self, text: str, members: Sequence[object], *values: object) -> Query:
        """Return the query for a text with lists; these values precede the list's members."""
        marks = ", ".join([self._mark] * len(members))
        lists = [*members] * text.count("(LIST)")
        return Query(text.replace("(LIST)", f"({marks})"), (*values, *lists))

    # -- writing -----------------------------------------------------------------------

    def make(self, key: bytes) -> Queries:
        """Create the record, unless another client has just created it."""
        return (QueryMany(self._make, [(key,)]),)

    def save(self, change: Change) -> Queries:
        """Write the changes to a name; return no queries if nothing has changed."""
        raise NotImplementedError
