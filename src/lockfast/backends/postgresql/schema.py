"""The two tables in PostgreSQL: how they are created, and how we recognise them as ours.

Rows of `door` are updated all the time. Each update reuses the row's own page, so the table stays
small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lockfast.backends.sql.schema import (
    TABLE_COMMENT,
    ColumnTypes,
    Tables,
    check_name,
    columns_of,
)
from lockfast.backends.sql.steps import Query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockfast.backends.sql.steps import Steps

_TYPES = ColumnTypes(
    key="bytea",
    text="text",
    long_text="text",
    number="bigint",
    state="smallint",
    seconds="double precision",
)
CLAIM_COLUMNS, DOOR_COLUMNS, ENTRY_COLUMNS = _TYPES.of_claim(), _TYPES.of_door(), _TYPES.of_place()

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


@dataclass(frozen=True)
class PostgresqlTables(Tables):
    """Where the tables are.

    The schema is always explicit. The default schema may differ from user to user, and then two
    users of the same name would have different locks.
    """

    schema: str = "public"

    right_to_make = "CREATE on their schema"
    columns: ClassVar[tuple[Mapping[str, str], Mapping[str, str]]] = (
        DOOR_COLUMNS,
        ENTRY_COLUMNS,
    )

    def __post_init__(self) -> None:
        check_name("schema", self.schema)
        super().__post_init__()

    def _quoted(self, name: str) -> str:
        return f'"{self.schema}"."{name}"'

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

    def make(self) -> Steps[None]:
        """Create the missing schema and tables, in one transaction and by one client at a time.

        Two clients that create the same table at once get a catalogue error, in spite of IF NOT
        EXISTS.
        """
        [schema] = yield [self.look_for_schema()]
        yield self._in_turn(self.definition(with_schema=not schema))

    def drop(self) -> Sequence[Query]:
        """Return the queries that drop the tables in one transaction, one client at a time.

        The schema stays, as it may be in use.
        """
        return self._in_turn(self.removal())

    def _in_turn(self, statements: list[str]) -> list[Query]:
        turn = Query("SELECT pg_advisory_xact_lock(hashtext($1))", (f"lockfast {self.door}",))
        return [turn, *map(Query, statements)]

    # -- recognising them --------------------------------------------------------------

    def look(self) -> Query:
        return Query(COLUMNS_QUERY, (self.door, self.place))

    def look_for_schema(self) -> Query:
        """Return the query that has one row if the schema exists, and no row otherwise."""
        return Query("SELECT 1 FROM pg_namespace WHERE nspname = $1", (self.schema,))


COLUMNS_QUERY = """
SELECT t.which, a.attname, format_type(a.atttypid, a.atttypmod), obj_description(a.attrelid)
FROM (VALUES ('door', to_regclass($1)), ('place', to_regclass($2))) AS t (which, id)
JOIN pg_attribute a ON a.attrelid = t.id AND a.attnum > 0 AND NOT a.attisdropped
"""


def _storage(settings: dict[str, str]) -> str:
    return f"WITH ({', '.join(f'{name} = {value}' for name, value in settings.items())})"
