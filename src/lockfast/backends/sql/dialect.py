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

import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lockfast.backends.sql.steps import Query
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lockfast.backends.sql.batch import Operation
    from lockfast.backends.sql.door_rows import Change
    from lockfast.backends.sql.steps import Queries, QueryMany, Rows, Steps
    from lockfast.backends.sql.verbs import Notifier
    from lockfast.model import Claim, Schema


class SeenDoor(NamedTuple):
    """The rows that were read of one door, and when, by the store's clock."""

    now: float
    capacity: int
    token: int
    rows: Rows


class Dialect(Protocol):
    """Builds the statements of one store; no method runs a statement."""

    def door(self, key: bytes, *, front: int | None, locked: bool) -> Sequence[Query]:
        """Read the record, all entries that do not wait, and the first `front` waiting entries.

        If `front` is None, all waiting entries are read. With `locked`, no other client can decide
        anything about this name until the transaction ends. On a store where a read that waits for
        a lock returns the state from before the wait, a separate statement takes the lock before
        the read.
        """
        ...

    def seen(self, answers: Sequence[Rows]) -> SeenDoor | None:
        """Return the door that the answers to `door` describe; None if the name has no record.

        The time is read after the lock is taken. If it were read earlier, a lease that ended while
        we waited would seem to be alive.
        """
        ...

    def make(self, key: bytes) -> Queries:
        """Create the record, unless another client has just created it."""
        ...

    def own(self, key: bytes, claim_id: str, arrived: int) -> Query:
        """Read the row of a waiting claim whose arrival is known."""
        ...

    def own_among(self, key: bytes, claim_ids: Sequence[str]) -> Query:
        """Of these claims, read the rows of the ones that wait, wherever they are in line."""
        ...

    def same_owner(self, key: bytes, parties: Collection[str]) -> Query:
        """Read the rows of waiting claims that belong to one of these explicit owners."""
        ...

    def end_of_line(self, key: bytes) -> Query:
        """Read one row with the last arrival and the number of rows besides the record."""
        ...

    def count_before(self, key: bytes, arrived: int) -> Query:
        """Read one row with the number of claims that wait before this arrival."""
        ...

    def save(self, change: Change) -> Queries:
        """Write the changes to a name; return no queries if nothing has changed."""
        ...

    def names_in_use(self, start: bytes) -> Query:
        """Read the keys in use that begin with `start`, one per row, in byte order."""
        ...

    def names_of(self, clients: Sequence[str]) -> Query:
        """Read the keys where one of the clients has an entry, one per row, in byte order."""
        ...


# What a server's store provides besides its dialect: the statements that do not read a door.
#
# An uncontended acquire or release looks only at columns of the name's own row, which the statement
# locks. That is enough, because this row also has the number of entries in other rows.


class StoreStatements(Protocol):
    """Builds the statements on one pair of tables, for one namespace; does not run them."""

    # -- for one claim; `token_in` reads the answer ------------------------------------

    def take(self, claim: Claim) -> Query:
        """Grant the claim if its name has a row and the door is empty.

        A name without a row is refused. A refusal writes nothing.
        """
        ...

    def take_new(self, claim: Claim) -> Query:
        """Grant the claim like `take`, even if its name has no row; a refusal may cost a commit."""
        ...

    def release(self, claim: Claim) -> Query:
        """End the hold of a claim that is alone at its door."""
        ...

    def confirm(self, claim: Claim, arrived: int) -> Query:
        """Turn the admission window of an admitted claim into a hold for its ttl."""
        ...

    def token_in(self, rows: Rows) -> int | None:
        """Return the token (for a release, any number); None if the statement was refused."""
        ...

    # -- for several claims, in one round trip -----------------------------------------

    def together(self, operations: Sequence[Operation]) -> Sequence[Query]:
        """Do several operations, each on a different name, in one transaction.

        The transaction skips names that are locked, because otherwise a single transaction that
        does not end would delay the whole batch. It waits only for transactions that are creating
        one of its names. This cannot deadlock, because new names are created in key order.
        """
        ...

    def done(self, operations: Sequence[Operation], answers: Sequence[Rows]) -> list[int | None]:
        """Return the token of each operation that was done, None for each that was not."""
        ...

    # -- for many claims, passed as one JSON list --------------------------------------

    def look(self, wanted: str) -> Query:
        """Probe many lines; `wanted` lists objects with number, key, id and arrived.

        There is one row for each name that exists, with these columns:

        - the number
        - whether the claim still waits at its arrival
        - whether no other claim waits before it
        - the seconds until the first entry inside ends, NULL if there is none
        - the seconds until the first unanswered admission window ends, NULL if there is none
        """
        ...

    def make(self, keys: str) -> QueryMany:
        """Create the records of names that have none, in the order of the keys given."""
        ...

    def lock_empty(self, keys: str) -> Query:
        """Lock the names whose doors are empty, in the order of the keys; return a row for each."""
        ...


# What a server's store provides to the shared backend.


class SqlStore(NamedTuple):
    """The tables, and the statements on them for the names of one namespace."""

    tables: Tables
    dialect: Dialect
    statements: StoreStatements
    notifier: Notifier
    reaper: Reaper


# Idle names are reaped after a day, so that an application with a lock per order id does not fill
# the table for ever.
#
# A name's next token is its last one plus 1, or the server's time, whichever is larger. So a record
# may be deleted once its last token is well behind that time. The next token is still larger,
# unless the server's clock is set back by a day or more.

REAP_AFTER_SECONDS = 24 * 3600.0
"""How far an idle record's last token must lag the server's clock for the record to be reaped, in
seconds."""

REAP_ROWS = 128


class ReapResult(NamedTuple):
    """The number of deleted names, and the key range, if any, that has more names to reap."""

    gone: int
    left_between: tuple[bytes, bytes] | None


class Reaper:
    """Reaps idle names, a few rows in each round; a round starts where the last one stopped.

    This class builds queries and runs none; its calls do not overlap. A store's `reap` statement
    takes the key after which to start and the number of rows. Rows that are due for deletion are
    deleted either in that statement or by `lines` in a transaction.
    """

    def __init__(self, reap: str) -> None:
        self._reap = reap
        self._from = b""

    def request(self) -> Query:
        """Return the query that examines the next few rows."""
        return Query(self._reap, (self._from, REAP_ROWS))

    def reaped(self, rows: Rows) -> ReapResult:
        """Advance past the rows that were examined; return the result of the round.

        `rows` is a single row with the number of rows examined, the last key, the number of names
        deleted, and whether more are due.
        """
        [(looked_at, last, gone, is_more)] = rows
        begun, self._from = self._from, bytes(last) if looked_at == REAP_ROWS else b""
        return ReapResult(gone, (begun, bytes(last)) if is_more else None)

    def lines(self, between: tuple[bytes, bytes]) -> Steps[int]:
        """Reap names after the first key and up to the second; return how many were deleted."""
        raise NotImplementedError


# The definition of the two tables of a server's store, and how they are recognised as ours.
#
# `door` has one row per name, which stays when all claims have left. It has the capacity, the last
# token, the number of rows in `place`, and the entry of the first claim to arrive at an empty door.
# `place` has a row for every other entry.

TABLE_FORMAT = 1

TABLE_COMMENT = f"Lockfast, format {TABLE_FORMAT}"
"""The comment on the tables."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,47}")
_MAY_BE_NULL = "party"


class Tables(Protocol):
    """Where the tables are, and the statements that create, recognise and drop them."""

    @property
    def door(self) -> str:
        """The table of names, quoted for a statement."""
        ...

    @property
    def place(self) -> str:
        """The table of all other entries, quoted for a statement."""
        ...

    @property
    def right_to_make(self) -> str:
        """The privilege that a user needs to create the tables, for messages."""
        ...

    def as_schema(self) -> Schema:
        """Return the statements that create and drop the tables, for display."""
        ...

    def look(self) -> Query:
        """Read the columns of both tables, and their comments."""
        ...

    def are_there(self, rows: Rows) -> bool:
        """Return whether the tables exist; raise if they are not ours or of a newer format."""
        ...

    def make(self) -> Steps[None]:
        """Create what is missing, even if many clients do so at once."""
        ...

    def drop(self) -> Sequence[Query]:
        """Drop the tables, with everything in them."""
        ...


def check_name(option: str, name: str) -> None:
    """Refuse a name that would need careful quoting."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{option}={name!r}: 1 to 48 letters, digits or _ are accepted, a letter or _ first"
        )


def columns_of(columns: Mapping[str, str], *, quote: str = "") -> str:
    """Return the columns as text for CREATE TABLE."""
    return ", ".join(
        f"{quote}{name}{quote} {kind}" + ("" if name == _MAY_BE_NULL else " NOT NULL")
        for name, kind in columns.items()
    )


def check_format(table: str, remark: str | None) -> None:
    """Refuse a table whose comment names a newer format than ours."""
    said = re.fullmatch(r"Lockfast, format (\d+)", remark or "")
    if said is not None and int(said[1]) > TABLE_FORMAT:
        raise ConfigurationError(
            f"{table} was made by a newer Lockfast (format {said[1]}, "
            f"this one knows {TABLE_FORMAT}); "
            "upgrade this one"
        )


def check_columns(
    table: str, which: str, found: Mapping[str, str], expected: Mapping[str, str]
) -> None:
    """Refuse a table whose columns are not ours; accept an empty `found`, a missing table."""
    if found and found != expected:
        raise ConfigurationError(
            f"{table} is there and is not Lockfast's {which} table: "
            f"{_difference(found, expected)}; choose another table="
        )


def _difference(found: Mapping[str, str], expected: Mapping[str, str]) -> str:
    missing = [name for name in expected if name not in found]
    if missing:
        return f"it has no column {missing[0]!r}"
    mismatch = [name for name in found if name not in expected]
    if mismatch:
        return f"it has a column {mismatch[0]!r}"
    [other, *_] = [name for name in expected if found[name] != expected[name]]
    return f"its column {other!r} is {found[other]} instead of {expected[other]}"
