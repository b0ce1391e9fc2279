"""The two tables in PostgreSQL: how they are created, and how we recognise them as ours.

Rows of `door` are updated all the time. Each update reuses the row's own page, so the table stays
small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.backends.sql.dialect import (
    TABLE_COMMENT,
    check_columns,
    check_format,
    check_name,
    columns_of,
)
from lockfast.backends.sql.steps import Query
from lockfast.model import Schema

if TYPE_CHECKING:
    from lockfast.backends.sql.steps import Rows, Steps

CLAIM_COLUMNS = {
    "id": "text",
    "client": "text",
    "owner": "text",
    "party": "text",
    "weight": "bigint",
    "ttl": "double precision",
    "lock_delay": "double precision",
    "min_hold": "double precision",
    "standing": "smallint",
    "until": "double precision",
    "since": "double precision",
    "token": "bigint",
    "bell": "text",
}
DOOR_COLUMNS = {
    "key": "bytea",
    **CLAIM_COLUMNS,
    "capacity": "bigint",
    "last_token": "bigint",
    "crowd": "bigint",
    "head": "bigint",
}
ENTRY_COLUMNS = {"key": "bytea", "arrived": "bigint", **CLAIM_COLUMNS}

_CLEANED = {
    # A large table of names is vacuumed after thousands of changes, not only after a fifth of its
    # rows have changed. It is vacuumed without delays, because it is small compared with the other
    # tables of the database.
    "autovacuum_vacuum_threshold": "1000",
    "autovacuum_vacuum_scale_factor": "0.02",
    "autovacuum_vacuum_cost_delay": "0",
    # Otherwise vacuum would lock everyone out while it truncates the empty end of a table.
    "vacuum_truncate": "off",
}
# Half of each page stays free, so that an updated row finds room on its own page. This setting does
# not suit `place`, where rows come and go. With it, a page counts as full at half and is not filled
# again before it is vacuumed, and 50,000 waiting entries took 33 MB instead of 3.
_DOOR_STORAGE = {"fillfactor": "50", **_CLEANED}
_PLACE_STORAGE = _CLEANED


@dataclass(frozen=True, slots=True)
class PostgresqlTables:
    """Where the tables are.

    The schema is always explicit. The default schema may differ from user to user, and then two
    users of the same name would have different locks.
    """

    schema: str = "public"
    table: str = "lockfast"

    def __post_init__(self) -> None:
        check_name("schema", self.schema)
        check_name("table", self.table)

    @property
    def door(self) -> str:
        """The table of names, quoted for a statement."""
        return f'"{self.schema}"."{self.names[0]}"'

    @property
    def place(self) -> str:
        """The table of all other entries, quoted for a statement."""
        return f'"{self.schema}"."{self.names[1]}"'

    @property
    def names(self) -> tuple[str, str]:
        """The names of both tables in the catalogue."""
        return f"{self.table}_door", f"{self.table}_place"

    @property
    def right_to_make(self) -> str:
        """The privilege that a user needs to create the tables, as named in messages."""
        return "CREATE on their schema"

    # -- creating and dropping them ----------------------------------------------------

    def definition(self, *, with_schema: bool | None = None) -> list[str]:
        """Return the statements that create the schema and the tables if they are missing.

        The statement for the schema is left out if the schema is known to exist, or is `public`,
        which every database has. A user who may not create schemas is refused that statement even
        if the schema exists.
        """
        if with_schema is None:
            with_schema = self.schema != "public"
        by_name, by_arrival = "PRIMARY KEY (key)", "PRIMARY KEY (key, arrived)"
        door, place = _storage(_DOOR_STORAGE), _storage(_PLACE_STORAGE)
        inside, not_waiting = f'"{self.table}_place_inside"', "WHERE standing <> 3"
        return [
            *([f'CREATE SCHEMA IF NOT EXISTS "{self.schema}"'] if with_schema else []),
            (
                f"CREATE TABLE IF NOT EXISTS {self.door} "
                f"({columns_of(DOOR_COLUMNS)}, {by_name}) {door}"
            ),
            (
                f"CREATE TABLE IF NOT EXISTS {self.place} "
                f"({columns_of(ENTRY_COLUMNS)}, {by_arrival}) {place}"
            ),
            # The index is for long lines. Of a long line, a verb reads only the entries that do not
            # wait, and the front.
            f"CREATE INDEX IF NOT EXISTS {inside} ON {self.place} (key, arrived) {not_waiting}",
            f"COMMENT ON TABLE {self.door} IS '{TABLE_COMMENT}'",
            f"COMMENT ON TABLE {self.place} IS '{TABLE_COMMENT}'",
        ]

    def removal(self) -> list[str]:
        """Return the statements that drop the tables; the schema stays, as it may be in use."""
        return [f"DROP TABLE IF EXISTS {self.door}, {self.place}"]

    def as_schema(self) -> Schema:
        """Return both lists of statements for display by `lockfast init`."""
        return Schema((self.door, self.place), tuple(self.definition()), tuple(self.removal()))

    def make(self) -> Steps[None]:
        """Create the missing schema and tables, in one transaction and by one client at a time.

        Two clients that create the same table at once get a catalogue error, in spite of IF NOT
        EXISTS.
        """
        [schema] = yield [self.look_for_schema()]
        yield self._in_turn(self.definition(with_schema=not schema))

    def drop(self) -> list[Query]:
        """Return the queries that drop the tables in one transaction, one client at a time."""
        return self._in_turn(self.removal())

    def _in_turn(self, statements: list[str]) -> list[Query]:
        turn = Query("SELECT pg_advisory_xact_lock(hashtext($1))", (f"lockfast {self.door}",))
        return [turn, *map(Query, statements)]

    # -- recognising them --------------------------------------------------------------

    def look(self) -> Query:
        """Return the query for the columns of both tables, and the comments on them."""
        return Query(COLUMNS_QUERY, (self.door, self.place))

    def look_for_schema(self) -> Query:
        """Return the query that has one row if the schema exists, and no row otherwise."""
        return Query("SELECT 1 FROM pg_namespace WHERE nspname = $1", (self.schema,))

    def are_there(self, rows: Rows) -> bool:
        """Return whether the tables exist; raise if they are not ours, or too new."""
        found: dict[str, dict[str, str]] = {"door": {}, "place": {}}
        for which, column, kind, remark in rows:
            found[which][column] = kind
            check_format(self.door, remark)
        check_columns(self.door, "door", found["door"], DOOR_COLUMNS)
        check_columns(self.place, "place", found["place"], ENTRY_COLUMNS)
        return bool(found["door"] and found["place"])


COLUMNS_QUERY = """
SELECT t.which, a.attname, format_type(a.atttypid, a.atttypmod), obj_description(a.attrelid)
FROM (VALUES ('door', to_regclass($1)), ('place', to_regclass($2))) AS t (which, id)
JOIN pg_attribute a ON a.attrelid = t.id AND a.attnum > 0 AND NOT a.attisdropped
"""


def _storage(settings: dict[str, str]) -> str:
    return f"WITH ({', '.join(f'{name} = {value}' for name, value in settings.items())})"
