"""Rows that a worker claims for a while: what is asked of the database, in its own words.

A claimed row has a deadline on the database's clock and a token that grows with every claim of
it. Whoever renews or finishes names the token, so a row that another has claimed since is left
alone, whatever the clock says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockfast.connections.dialects import MYSQL, POSTGRESQL, SQLITE
from lockfast.connections.exactness import in_32_bits
from lockfast.connections.statements import Statement, Value, joined
from lockfast.core.tokens import next_token
from lockfast.errors import ConfigurationError
from lockfast.model import Claim, frozen_to_checkers
from lockfast.sql_rows.tables import KeyedTable, columns, equal, folded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.connections.dialects import Dialect, Table

NOW = "lockfast_now"
"""What the clock is called beside the columns of a row."""

# Seconds since 1970, as a double. When a statement began is early enough: it can only make a
# claim end sooner than its holder counts on, by as long as it has waited for the row.
_CLOCKS = {
    SQLITE: "((julianday('now') - 2440587.5) * 86400.0)",
    POSTGRESQL: "CAST(extract(epoch FROM clock_timestamp()) AS double precision)",
    MYSQL: "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6)",
}

# Not FOR UPDATE in PostgreSQL: whoever inserts a row that refers to ours keeps it locked against
# that until its commit, and no renewal would come through. A change of `until` needs no such lock.
_LOCKS_OF_RENEWAL = {
    SQLITE: "",
    POSTGRESQL: " FOR NO KEY UPDATE SKIP LOCKED",
    MYSQL: " FOR UPDATE SKIP LOCKED",
}

INEXACT_SECONDS = 0.05
"""A deadline that is further off was rounded by its column."""

Key = tuple[object, ...]


@frozen_to_checkers(kw_only=True)
class RowClaim(Claim):
    """A claim that was granted before it was made: the row, and its token."""

    key: Key
    token: int


@dataclass(frozen=True, slots=True)
class Claimable:
    """Which rows of a table may be claimed, the oldest first, and where that is written down."""

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
        """Return it, with what is not yet clear made so."""
        if not isinstance(where, Mapping):
            raise TypeError(f"where is a dict of columns and values, not {type(where).__name__}")
        keyed = KeyedTable.of(table, key)
        if where:
            columns("where", tuple(where))
        own = columns("until", until) + columns("token", token)
        told_apart = folded((*own, *keyed.key))
        if len(told_apart) < len(own) + len(keyed.key) or folded(own) & folded(where):
            raise ConfigurationError(
                f"until={until!r} and token={token!r} are two columns of their own, beside the key "
                "and those of `where`"
            )
        first = () if order_by is None else columns("order_by", order_by)
        rest = tuple(one for one in keyed.key if one not in first)
        return cls(keyed, tuple(where.items()), first + rest, until, token)

    # -- statements --------------------------------------------------------------------

    def look(self, dialect: Dialect, *, limit: int, locks: bool) -> Statement:
        """Return what reads the oldest that may be claimed.

        With a lock it passes over those that another locks at this moment.
        """
        until, now = dialect.quoted(self.until), _CLOCKS[dialect]
        is_pending = [equal(dialect, self.where), Statement(" AND ")] if self.where else []
        order = ", ".join(map(dialect.quoted, self.order_by))
        lock = " FOR UPDATE SKIP LOCKED" if locks and dialect is not SQLITE else ""
        return Statement(
            *("SELECT *, ", now, f" AS {NOW} FROM ", dialect.quoted_table(self.keyed.table)),
            " WHERE ",
            *is_pending,
            f"({until} IS NULL OR {until} <= {now}) ORDER BY {order} LIMIT {int(limit)}{lock}",
        )

    def lock_all(self, dialect: Dialect) -> Statement:
        """Return what changes nothing, and lets SQLite have one writer from here to the commit.

        Whoever looked first and wrote then would be refused, if another was quicker.
        """
        until = dialect.quoted(self.until)
        return Statement(*self._update(dialect), f"{until} = {until} WHERE 1 = 0")

    def claim(
        self, dialect: Dialect, rows: Sequence[dict[str, Any]], *, token: int, ttl: float
    ) -> Statement:
        """Return what claims the rows, each only if its token is still as it was read."""
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

    def read_back(self, dialect: Dialect, rows: Sequence[dict[str, Any]]) -> Statement:
        """Return what reads what a claim has written: token, deadline, and the clock."""
        names = ", ".join(map(dialect.quoted, (self.token, self.until)))
        is_one = (self.keyed.is_row(dialect, self.of_row(one)) for one in rows)
        return Statement(
            *("SELECT ", names, f", {_CLOCKS[dialect]} FROM "),
            *(dialect.quoted_table(self.keyed.table), " WHERE "),
            joined(" OR ", (Statement("(", one, ")") for one in is_one)),
        )

    def still_claimed(
        self, dialect: Dialect, claims: Sequence[tuple[Key, int]], *, locks: bool
    ) -> Statement:
        """Return what reads which of them are still claimed by their token.

        With a lock it passes over those that another transaction locks at this moment, as the
        worker's own may for long: whoever waited for it would wait for its commit. Without, it
        reads what was committed last, and waits for nobody.
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
        self, dialect: Dialect, claims: Sequence[tuple[Key, int]], *, ttl: float
    ) -> Statement:
        """Return what gives them a full ttl again; they were found claimed, and are locked."""
        until, now = dialect.quoted(self.until), _CLOCKS[dialect]
        return Statement(
            *self._update(dialect),
            *(f"{until} = {now} + ", Value(ttl), " WHERE "),
            self._any_of(dialect, claims),
        )

    def give_back(self, dialect: Dialect, key: Key, token: int) -> Statement:
        """Return what lets others claim the row at once."""
        until, now = dialect.quoted(self.until), _CLOCKS[dialect]
        condition = self._any_of(dialect, [(key, token)])
        return Statement(
            *self._update(dialect), f"{until} = NULL WHERE {until} > {now} AND ", condition
        )

    def finish(
        self, dialect: Dialect, key: Key, token: int, changes: Mapping[str, object]
    ) -> Statement:
        """Return what writes the outcome, unless another has claimed the row since.

        Also if the claim has ended by the clock: nobody else has had the row. Once only, since
        then it is claimed by nobody: a repeat, late, finds nothing to change.
        """
        until = dialect.quoted(self.until)
        assignments = [*self.keyed.changed(dialect, changes), Statement(until, " = NULL")]
        return Statement(
            *self._update(dialect),
            joined(", ", assignments),
            *(f" WHERE {until} IS NOT NULL AND ", self._any_of(dialect, [(key, token)])),
        )

    def who_has(self, dialect: Dialect, key: Key) -> Statement:
        """Return what reads the token of a row as it is now."""
        table, condition = dialect.quoted_table(self.keyed.table), self.keyed.is_row(dialect, key)
        lock = dialect.for_update if dialect is MYSQL else ""  # else it shows an old snapshot
        column = dialect.quoted(self.token)
        return Statement("SELECT ", column, " FROM ", table, " WHERE ", condition, lock)

    # -- values ------------------------------------------------------------------------

    def of_row(self, row: Mapping[str, Any]) -> Key:
        """Return the key of a row that was read."""
        return self.keyed.key_of(row)

    def refuse_shared_keys(self, rows: Sequence[dict[str, Any]], *, changed: int) -> None:
        """Refuse a key that several rows have: more were read by it, or changed, than there are."""
        if changed > len(rows) or len(set(map(self.of_row, rows))) < len(rows):
            raise ConfigurationError(
                f"{', '.join(self.keyed.key)}, the key of {self.keyed}, is not unique: name the "
                "columns that tell its rows apart"
            )

    def refuse_inexact(
        self, written: Sequence[Sequence[Any]], *, token: int, since: float, ttl: float
    ) -> None:
        """Refuse columns that keep other numbers than they were given, by what was read back.

        A REAL of PostgreSQL has 32 bits: a deadline is then off by up to a minute, and two workers
        have one row. The claim was made after the clock said `since`.
        """
        for found, until, now in written:
            if found != token:
                raise self._inexact(self.token, found, "BIGINT")
            earliest, latest = since + ttl - INEXACT_SECONDS, float(now) + ttl + INEXACT_SECONDS
            # In 32 bits a deadline may be right by chance.
            is_exact = until is not None and in_32_bits(float(until)) != float(until)
            if not is_exact or not earliest <= float(until) <= latest:
                raise self._inexact(self.until, until, "DOUBLE PRECISION")

    def _inexact(self, column: str, found: object, better: str) -> ConfigurationError:
        return ConfigurationError(
            f"{column!r}, a column of {self.keyed}, has {found!r} after a claim, which is not what "
            f"was written: that type cannot store it exactly; make it a {better}"
        )

    def next_token(self, rows: Sequence[dict[str, Any]]) -> int:
        """Return one token for all of them: larger than that of every earlier claim of each."""
        for one in rows:
            token = one.get(self.token, "")
            if isinstance(token, bool) or not isinstance(token, int | None):
                raise ConfigurationError(
                    f"{self.token!r}, the token of a row of {self.keyed}, is {token!r}: make it a "
                    "column of whole numbers of 64 bits, spelled as here"
                )
        last = max(one[self.token] or 0 for one in rows)
        return next_token(last=last, clock=float(rows[0][NOW]))

    def _update(self, dialect: Dialect) -> tuple[str, ...]:
        return ("UPDATE ", dialect.quoted_table(self.keyed.table), " SET ")

    def _any_of(self, dialect: Dialect, claims: Sequence[tuple[Key, int | None]]) -> Statement:
        """Return the condition that it is one of these rows, and has the token that it had."""
        conditions = []
        for key, token in claims:
            is_row, had = self.keyed.is_row(dialect, key), equal(dialect, [(self.token, token)])
            conditions.append(Statement("(", is_row, " AND ", had, ")"))
        return Statement("(", joined(" OR ", conditions), ")")
