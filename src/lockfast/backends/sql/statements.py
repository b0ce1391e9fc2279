"""The statements of a server's store that do not read a door, and the reaper of idle names.

An uncontended acquire or release looks only at columns of the name's own row, which the statement
locks. That is enough, because this row also has the number of entries in other rows.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from lockfast.backends.sql.batch import tokens_in
from lockfast.backends.sql.steps import Query, QueryMany
from lockfast.core.naming import storage_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.sql.batch import Operation
    from lockfast.backends.sql.dialect import Dialect
    from lockfast.backends.sql.schema import Tables
    from lockfast.backends.sql.steps import Rows, Steps
    from lockfast.backends.sql.verbs import Notifier
    from lockfast.model import Claim

values_of: Callable[[Claim], tuple[object, ...]] = attrgetter(
    "client", "owner", "party", "weight", "ttl", "lock_delay", "min_hold", "capacity"
)
"""Return what a granted claim's row says besides its id, in the order of every statement."""


class StoreStatements:
    """Builds the statements on one pair of tables, for one namespace, and runs none of them.

    A subclass sets the text of each statement.
    """

    _take: str
    _take_new: str
    _release: str
    _confirm: str
    _look: str
    _make: str
    _lock_empty: str

    def __init__(self, *, namespace: str) -> None:
        self._namespace = namespace
        self._key_prefix = storage_key(namespace, "")

    def _key(self, claim: Claim) -> bytes:
        return self._key_prefix + claim.name.encode()

    # -- for one claim; `token_in` reads the answer ------------------------------------

    def take(self, claim: Claim) -> Query:
        """Grant the claim if its name has a row and the door is empty.

        A name without a row is refused. A refusal writes nothing.
        """
        raise NotImplementedError

    def take_new(self, claim: Claim) -> Query:
        """Grant the claim like `take`, even if its name has no row; a refusal may cost a commit."""
        raise NotImplementedError

    def release(self, claim: Claim) -> Query:
        """End the hold of a claim that is alone at its door."""
        return Query(self._release, (self._key(claim), claim.id))

    def confirm(self, claim: Claim, arrived: int) -> Query:
        """Turn the admission window of an admitted claim into a hold for its ttl."""
        return Query(self._confirm, (self._key(claim), arrived, claim.id))

    def token_in(self, rows: Rows) -> int | None:
        """Return the token (for a release, any number); None if the statement was refused."""
        raise NotImplementedError

    # -- for several claims, in one round trip -----------------------------------------

    def together(self, operations: Sequence[Operation]) -> Sequence[Query]:
        """Do several operations, each on a different name, in one transaction.

        The last query returns the key and the token of each operation that was done.

        The transaction skips names that are locked, because otherwise a single transaction that
        does not end would delay the whole batch. It waits only for transactions that are creating
        one of its names. This cannot deadlock, because new names are created in key order.
        """
        raise NotImplementedError

    def done(self, operations: Sequence[Operation], answers: Sequence[Rows]) -> list[int | None]:
        """Return the token of each operation that was done, None for each that was not."""
        return tokens_in(answers[-1], operations, namespace=self._namespace)

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
        return Query(self._look, (wanted,))

    def make(self, keys: str) -> QueryMany:
        """Create the records of names that have none, in the order of the keys given."""
        return QueryMany(self._make, [(keys,)])

    def lock_empty(self, keys: str) -> Query:
        """Lock the names whose doors are empty, in the order of the keys; return a row for each."""
        return Query(self._lock_empty, (keys,))


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

    _from = b""
    _reap: str

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


# What a server's store provides to the shared backend.


class SqlStore(NamedTuple):
    """The tables, and the statements on them for the names of one namespace."""

    tables: Tables
    dialect: Dialect
    statements: StoreStatements
    notifier: Notifier
    reaper: Reaper
