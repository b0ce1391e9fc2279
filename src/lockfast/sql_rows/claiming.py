"""Rows that a worker claims for a while: the SQL statements, in each dialect.

A claimed row has a deadline on the database's clock and a token that grows with every claim of the
row. A renewal or a finish states the token. So it never changes a row that another worker has
claimed in the meantime, whatever the clock says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockfast.core.door import next_token
from lockfast.dbapi.statements import (
    MYSQL,
    POSTGRESQL,
    SQLITE,
    Statement,
    Value,
    in_32_bits,
    joined,
)
from lockfast.errors import ConfigurationError
from lockfast.model import Claim, frozen_to_checkers
from lockfast.sql_rows.tables import KeyedTable, columns, equal, folded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.dbapi.statements import DatabaseDialect, Table

NOW_COLUMN = "lockfast_now"
"""Name of the column that returns the time on the database's clock along with a row."""

# Seconds since 1970, as a double. The time at which a statement began is good enough. If the
# statement then waits for the row, the claim ends earlier by the length of the wait. But the holder
# counts from even earlier, from before it sent the request.
_CLOCKS = {
    SQLITE: "((julianday('now') - 2440587.5) * 86400.0)",
    POSTGRESQL: "CAST(extract(epoch FROM clock_timestamp()) AS double precision)",
    MYSQL: "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6)",
}

# PostgreSQL's FOR UPDATE is too strong. If a transaction inserts a row that refers to ours, it
# holds a lock that conflicts with FOR UPDATE, and no renewal would succeed until that transaction
# commits. A weaker lock is enough to change `until`.
_LOCKS_OF_RENEWAL = {
    SQLITE: "",
    POSTGRESQL: " FOR NO KEY UPDATE SKIP LOCKED",
    MYSQL: " FOR UPDATE SKIP LOCKED",
}

INEXACT_SECONDS = 0.05
"""Tolerance for a deadline that is read back; a larger difference means that the column rounds."""

Key = tuple[object, ...]


@frozen_to_checkers(kw_only=True)
class RowClaim(Claim):
    """A claim of a row, with the row's key and token; it is granted before this object is made."""

    key: Key
    token: int


@dataclass(frozen=True, slots=True)
class Claimable:
    """Which rows of a table may be claimed, oldest first, and which columns record a claim."""

    keyed: KeyedTable
    where: tuple[tuple[str, object], ...]
    order_by: tuple[str, ...]
    until: str
    token: str

    @classmethod
    def of(
        cls,
        table: Table,
        *,
        key: str | Sequence[str],
        where: Mapping[str, object],
        order_by: str | Sequence[str] | None,
        until: str,
        token: str,
    ) -> Claimable:
        """Return a Claimable with checked names; its sort order ends with the key columns."""
        if not isinstance(where, Mapping):
            raise TypeError(f"where is a dict of columns and values, not {type(where).__name__}")
        keyed = KeyedTable.of(table, key)
        if where:
            columns("where", tuple(where))
        own = columns("until", until) + columns("token", token)
        distinct = folded((*own, *keyed.key))
        if len(distinct) < len(own) + len(keyed.key) or folded(own) & folded(where):
            raise ConfigurationError(
                f"until={until!r} and token={token!r} are two columns of their own, beside the key "
                "and those of `where`"
            )
        first = () if order_by is None else columns("order_by", order_by)
        rest = tuple(one for one in keyed.key if one not in first)
        return cls(keyed, tuple(where.items()), first + rest, until, token)

    # -- statements --------------------------------------------------------------------

    def look(self, dialect: DatabaseDialect, *, limit: int, locks: bool) -> Statement:
        """Return the query for the oldest rows that may be claimed.

        With `locks`, the query skips rows that another transaction has locked at the moment.
        """
        until, now = dialect.quoted(self.until), _CLOCKS[dialect]
        is_pending = [equal(dialect, self.where), Statement(" AND ")] if self.where else []
        order = ", ".join(map(dialect.quoted, self.order_by))
        lock = " FOR UPDATE SKIP LOCKED" if locks and dialect is not SQLITE else ""
        return Statement(
            *("SELECT *, ", now, f" AS {NOW_COLUMN} FROM ", dialect.quoted_table(self.keyed.table)),
            " WHERE ",
            *is_pending,
            f"({until} IS NULL OR {until} <= {now}) ORDER BY {order} LIMIT {int(limit)}{lock}",
        )

    def lock_all(self, dialect: DatabaseDialect) -> Statement:
        """Return a no-op update that makes us SQLite's only writer until the commit.

        Without this lock, SQLite rejects a transaction that first reads and then writes, if another
        transaction has written in between.
        """
        until = dialect.quoted(self.until)
        return Statement(*self._update(dialect), f"{until} = {until} WHERE 1 = 0")

    def claim(
        self, dialect: DatabaseDialect, rows: Sequence[dict[str, Any]], *, token: int, ttl: float
    ) -> Statement:
        """Return the update that claims the rows; a row whose token has changed is not updated."""
        until = dialect.quoted(self.until)
        return Statement(
            *self._update(dialect),
            *(dialect.quoted(self.token), " = ", Value(token)),
            *(f", {until} = {_CLOCKS[dialect]} + ", Value(ttl)),
            *(
                " WHERE ",
                self._any_of(dialect, [(self.of_row(one), one[self.token]) for one in rows]),
            ),
        )

    def read_back(self, dialect: DatabaseDialect, rows: Sequence[dict[str, Any]]) -> Statement:
        """Return the query for the token and deadline that a claim wrote, and for the time now."""
        names = ", ".join(map(dialect.quoted, (self.token, self.until)))
        is_one = (self.keyed.is_row(dialect, self.of_row(one)) for one in rows)
        return Statement(
            *("SELECT ", names, f", {_CLOCKS[dialect]} FROM "),
            *(dialect.quoted_table(self.keyed.table), " WHERE "),
            joined(" OR ", (Statement("(", one, ")") for one in is_one)),
        )

    def still_claimed(
        self, dialect: DatabaseDialect, claims: Sequence[tuple[Key, int]], *, locks: bool
    ) -> Statement:
        """Return the query for the rows that are still claimed with their token.

        With `locks`, the query skips rows that another transaction has locked. It does not wait for
        such a lock, because the transaction may be the worker's own, and may take a long time to
        commit. Without `locks`, the query reads the latest committed state, and never waits.
        """
        names = ", ".join(map(dialect.quoted, self.keyed.key))
        until, now = dialect.quoted(self.until), _CLOCKS[dialect]
        return Statement(
            *("SELECT ", names, " FROM ", dialect.quoted_table(self.keyed.table)),
            f" WHERE {until} > {now} AND ",
            self._any_of(dialect, claims),
            _LOCKS_OF_RENEWAL[dialect] if locks else "",
        )

    def renew(
        self, dialect: DatabaseDialect, claims: Sequence[tuple[Key, int]], *, ttl: float
    ) -> Statement:
        """Return the update that renews claims by a full ttl; the caller has locked the rows."""
        until, now = dialect.quoted(self.until), _CLOCKS[dialect]
        return Statement(
            *self._update(dialect),
            *(f"{until} = {now} + ", Value(ttl), " WHERE "),
            self._any_of(dialect, claims),
        )

    def give_back(self, dialect: DatabaseDialect, key: Key, token: int) -> Statement:
        """Return the update after which others can claim the row at once."""
        until, now = dialect.quoted(self.until), _CLOCKS[dialect]
        condition = self._any_of(dialect, [(key, token)])
        return Statement(
            *self._update(dialect), f"{until} = NULL WHERE {until} > {now} AND ", condition
        )

    def finish(
        self, dialect: DatabaseDialect, key: Key, token: int, changes: Mapping[str, object]
    ) -> Statement:
        """Return the update that writes the result, unless another worker has claimed the row.

        The update succeeds even after the claim's deadline, as long as nobody else has claimed the
        row. It succeeds only once, because it ends the claim, so a late repeat finds nothing to
        change.
        """
        until = dialect.quoted(self.until)
        assignments = [*self.keyed.changed(dialect, changes), Statement(until, " = NULL")]
        return Statement(
            *self._update(dialect),
            joined(", ", assignments),
            *(f" WHERE {until} IS NOT NULL AND ", self._any_of(dialect, [(key, token)])),
        )

    def current_token(self, dialect: DatabaseDialect, key: Key) -> Statement:
        """Return the query for the current token of a row."""
        table, condition = dialect.quoted_table(self.keyed.table), self.keyed.is_row(dialect, key)
        # Without a lock, MySQL would show an old snapshot.
        lock = dialect.for_update if dialect is MYSQL else ""
        column = dialect.quoted(self.token)
        return Statement("SELECT ", column, " FROM ", table, " WHERE ", condition, lock)

    # -- values ------------------------------------------------------------------------

    def of_row(self, row: Mapping[str, Any]) -> Key:
        """Return the key of a row that was read."""
        return self.keyed.key_of(row)

    def refuse_shared_keys(self, rows: Sequence[dict[str, Any]], *, changed: int) -> None:
        """Raise if the key is not unique, which shows when there are more rows than keys."""
        if changed > len(rows) or len(set(map(self.of_row, rows))) < len(rows):
            raise ConfigurationError(
                f"{', '.join(self.keyed.key)}, the key of {self.keyed}, is not unique: name the "
                "columns that tell its rows apart"
            )

    def refuse_inexact(
        self, written: Sequence[Sequence[Any]], *, token: int, since: float, ttl: float
    ) -> None:
        """Raise if the columns do not store exact numbers, judging by the values read back.

        PostgreSQL's REAL has 32 bits, so a deadline stored as REAL is off by up to a minute, and
        two workers could get the same row. The claim was made at `since` or later, by the
        database's clock.
        """
        for found, until, now in written:
            if found != token:
                raise self._inexact(self.token, found, "BIGINT")
            earliest, latest = since + ttl - INEXACT_SECONDS, float(now) + ttl + INEXACT_SECONDS
            # A deadline that is rounded to 32 bits may by chance be right, so a value that fits
            # into 32 bits is not accepted either.
            is_exact = until is not None and in_32_bits(float(until)) != float(until)
            if not is_exact or not earliest <= float(until) <= latest:
                raise self._inexact(self.until, until, "DOUBLE PRECISION")

    def _inexact(self, column: str, found: object, better: str) -> ConfigurationError:
        return ConfigurationError(
            f"{column!r}, a column of {self.keyed}, has {found!r} after a claim, which is not what "
            f"was written: that type cannot store it exactly; make it a {better}"
        )

    def next_token(self, rows: Sequence[dict[str, Any]]) -> int:
        """Return one token for all rows, larger than the token of any earlier claim of them."""
        for one in rows:
            token = one.get(self.token, "")
            if isinstance(token, bool) or not isinstance(token, int | None):
                raise ConfigurationError(
                    f"{self.token!r}, the token of a row of {self.keyed}, is {token!r}: make it a "
                    "column of whole numbers of 64 bits, spelled as here"
                )
        last = max(one[self.token] or 0 for one in rows)
        return next_token(last=last, clock=float(rows[0][NOW_COLUMN]))

    def _update(self, dialect: DatabaseDialect) -> tuple[str, ...]:
        return ("UPDATE ", dialect.quoted_table(self.keyed.table), " SET ")

    def _any_of(
        self, dialect: DatabaseDialect, claims: Sequence[tuple[Key, int | None]]
    ) -> Statement:
        """Return the condition that a row has one of these keys, and the token for that key."""
        conditions = []
        for key, token in claims:
            is_row, had = self.keyed.is_row(dialect, key), equal(dialect, [(self.token, token)])
            conditions.append(Statement("(", is_row, " AND ", had, ")"))
        return Statement("(", joined(" OR ", conditions), ")")
