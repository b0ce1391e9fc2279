"""The two tables in PostgreSQL: how they are made, and how one knows that they are ours.

A row of `door` is changed in place all the time, and stays small by that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.backends.sql.steps import Ask
from lockfast.backends.sql.tables import (
    REMARK,
    check_columns,
    check_format,
    check_name,
    columns_of,
)
from lockfast.model import Schema

if TYPE_CHECKING:
    from lockfast.backends.sql.steps import Rows, Steps

CLAIM = {
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
DOOR = {
    "key": "bytea",
    **CLAIM,
    "capacity": "bigint",
    "last_token": "bigint",
    "crowd": "bigint",
    "head": "bigint",
}
PLACE = {"key": "bytea", "arrived": "bigint", **CLAIM}

_CLEANED = {
    # A large table of names is cleaned after thousands of changes and not after a fifth of it,
    # and at once: it is small beside the others of the database.
    "autovacuum_vacuum_threshold": "1000",
    "autovacuum_vacuum_scale_factor": "0.02",
    "autovacuum_vacuum_cost_delay": "0",
    # To give the empty end of a table back, cleaning would lock it against everybody.
    "vacuum_truncate": "off",
}
# Half of each page stays free, so that a changed row finds room beside itself. Not so where rows
# come and go: pages that count as full at the half are not filled again before they are cleaned,
# and 50,000 who waited took 33 MB instead of 3.
_DOOR_STORAGE = {"fillfactor": "50", **_CLEANED}
_PLACE_STORAGE = _CLEANED


@dataclass(frozen=True, slots=True)
class Tables:
    """Where the tables are.

    The schema is always named: what an unnamed one means differs from user to user, and two of
    them would each have a lock of their own.
    """

    schema: str = "public"
    table: str = "lockfast"

    def __post_init__(self) -> None:
        check_name("schema", self.schema)
        check_name("table", self.table)

    @property
    def door(self) -> str:
        """The table of the names, as a statement says it."""
        return f'"{self.schema}"."{self.names[0]}"'

    @property
    def place(self) -> str:
        """The table of all others, as a statement says it."""
        return f'"{self.schema}"."{self.names[1]}"'

    @property
    def names(self) -> tuple[str, str]:
        """What the catalogue calls the two."""
        return f"{self.table}_door", f"{self.table}_place"

    @property
    def right_to_make(self) -> str:
        """What a user needs to make them, for people."""
        return "CREATE on their schema"

    # -- making and dropping them ------------------------------------------------------

    def definition(self, *, with_schema: bool | None = None) -> list[str]:
        """Return the statements that make what is not there.

        With the schema too, unless it is known to be there or is the one that every database
        has: whoever may not make schemas is refused even one that is there.
        """
        if with_schema is None:
            with_schema = self.schema != "public"
        by_name, by_arrival = "PRIMARY KEY (key)", "PRIMARY KEY (key, arrived)"
        door, place = _storage(_DOOR_STORAGE), _storage(_PLACE_STORAGE)
        inside, not_waiting = f'"{self.table}_place_inside"', "WHERE standing <> 3"
        return [
            *([f'CREATE SCHEMA IF NOT EXISTS "{self.schema}"'] if with_schema else []),
            f"CREATE TABLE IF NOT EXISTS {self.door} ({columns_of(DOOR)}, {by_name}) {door}",
            f"CREATE TABLE IF NOT EXISTS {self.place} ({columns_of(PLACE)}, {by_arrival}) {place}",
            # Of a line of thousands a verb reads those who do not wait, and the front.
            f"CREATE INDEX IF NOT EXISTS {inside} ON {self.place} (key, arrived) {not_waiting}",
            f"COMMENT ON TABLE {self.door} IS '{REMARK}'",
            f"COMMENT ON TABLE {self.place} IS '{REMARK}'",
        ]

    def removal(self) -> list[str]:
        """Return the statements that drop the tables; the schema may be others' too, and stays."""
        return [f"DROP TABLE IF EXISTS {self.door}, {self.place}"]

    def as_schema(self) -> Schema:
        """Return both for people: what `lockfast init` makes, prints and drops."""
        return Schema((self.door, self.place), tuple(self.definition()), tuple(self.removal()))

    def make(self) -> Steps[None]:
        """Make what is not there, in one transaction and one at a time.

        Two that make the same table at once get an error of the catalogue's, in spite of IF
        NOT EXISTS.
        """
        [schema] = yield [self.look_for_schema()]
        yield self._in_turn(self.definition(with_schema=not schema))

    def drop(self) -> list[Ask]:
        """Return what drops the tables, in one transaction and one at a time."""
        return self._in_turn(self.removal())

    def _in_turn(self, statements: list[str]) -> list[Ask]:
        turn = Ask("SELECT pg_advisory_xact_lock(hashtext($1))", (f"lockfast {self.door}",))
        return [turn, *map(Ask, statements)]

    # -- knowing them ------------------------------------------------------------------

    def look(self) -> Ask:
        """Return what asks for the columns of both, and what is remarked on them."""
        return Ask(LOOK, (self.door, self.place))

    def look_for_schema(self) -> Ask:
        """Return what asks for one row if the schema is there."""
        return Ask("SELECT 1 FROM pg_namespace WHERE nspname = $1", (self.schema,))

    def are_there(self, rows: Rows) -> bool:
        """Return whether the tables are there; raise if they are not ours, or too new."""
        found: dict[str, dict[str, str]] = {"door": {}, "place": {}}
        for which, column, kind, remark in rows:
            found[which][column] = kind
            check_format(self.door, remark)
        check_columns(self.door, "door", found["door"], DOOR)
        check_columns(self.place, "place", found["place"], PLACE)
        return bool(found["door"] and found["place"])


LOOK = """
SELECT t.which, a.attname, format_type(a.atttypid, a.atttypmod), obj_description(a.attrelid)
FROM (VALUES ('door', to_regclass($1)), ('place', to_regclass($2))) AS t (which, id)
JOIN pg_attribute a ON a.attrelid = t.id AND a.attnum > 0 AND NOT a.attisdropped
"""


def _storage(settings: dict[str, str]) -> str:
    return f"WITH ({', '.join(f'{name} = {value}' for name, value in settings.items())})"
