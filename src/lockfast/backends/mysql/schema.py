"""The two tables in MySQL and MariaDB: how to create them, and how to recognise them as ours.

Keys are bytes, because every text collation treats some different names as equal.
"""

from __future__ import annotations

import re
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
from lockfast.errors import ConfigurationError
from lockfast.model import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockfast.backends.sql.steps import Rows, Steps

TEXT_TYPE = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

CLAIM_COLUMNS = {
    "id": f"varchar(128) {TEXT_TYPE}",
    "client": f"varchar(128) {TEXT_TYPE}",
    "owner": f"mediumtext {TEXT_TYPE}",
    "party": f"varchar(128) {TEXT_TYPE}",
    "weight": "bigint",
    "ttl": "double",
    "lock_delay": "double",
    "min_hold": "double",
    "standing": "tinyint",
    "until": "double",
    "since": "double",
    "token": "bigint",
    "bell": f"varchar(128) {TEXT_TYPE}",
}
KEY_TYPE = "varbinary(640)"
DOOR_COLUMNS = {
    "key": KEY_TYPE,
    **CLAIM_COLUMNS,
    "capacity": "bigint",
    "last_token": "bigint",
    "crowd": "bigint",
    "head": "bigint",
}
ENTRY_COLUMNS = {"key": KEY_TYPE, "arrived": "bigint", **CLAIM_COLUMNS}

_INNODB = f"ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='{TABLE_COMMENT}'"

_LOOK = """
SELECT c.TABLE_NAME, c.COLUMN_NAME, c.DATA_TYPE, t.TABLE_COMMENT, t.ENGINE
FROM information_schema.COLUMNS AS c JOIN information_schema.TABLES AS t
    ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME
WHERE c.TABLE_SCHEMA = DATABASE() AND c.TABLE_NAME IN (%s, %s)
"""


@dataclass(frozen=True, slots=True)
class MysqlTables:
    """The names of the tables, in the database of the URL."""

    table: str = "lockfast"

    def __post_init__(self) -> None:
        check_name("table", self.table)

    @property
    def door(self) -> str:
        """The table of names, quoted for a statement."""
        return f"`{self.table}_door`"

    @property
    def place(self) -> str:
        """The table of all other entries, quoted for a statement."""
        return f"`{self.table}_place`"

    @property
    def right_to_make(self) -> str:
        """The privilege that a user needs to create the tables, as named in messages."""
        return "CREATE on the database"

    # -- creating and dropping the tables ----------------------------------------------

    def definition(self) -> list[str]:
        """Return the statements that create the missing tables."""
        # The second key is for long lines. A request reads only the entries that do not wait and
        # the head of the line.
        keys = "PRIMARY KEY (`key`, arrived), KEY standings (`key`, standing, arrived)"
        door, place = columns_of(DOOR_COLUMNS, quote="`"), columns_of(ENTRY_COLUMNS, quote="`")
        return [
            f"CREATE TABLE IF NOT EXISTS {self.door} ({door}, PRIMARY KEY (`key`)) {_INNODB}",
            f"CREATE TABLE IF NOT EXISTS {self.place} ({place}, {keys}) {_INNODB}",
        ]

    def removal(self) -> list[str]:
        """Return the statement that drops the tables."""
        return [f"DROP TABLE IF EXISTS {self.door}, {self.place}"]

    def as_schema(self) -> Schema:
        """Return both lists of statements for display by `lockfast init`."""
        return Schema((self.door, self.place), tuple(self.definition()), tuple(self.removal()))

    def make(self) -> Steps[None]:
        """Create the missing tables."""
        yield [Query(one) for one in self.definition()]

    def drop(self) -> list[Query]:
        """Drop the tables, with everything in them."""
        return [Query(one) for one in self.removal()]

    def trial(self) -> list[Query]:
        """Return statements that change no row, and fail only if a privilege is missing."""
        return [
            Query(statement)
            for one in (self.door, self.place)
            for statement in (
                f"INSERT INTO {one} SELECT * FROM {one} WHERE FALSE",
                f"UPDATE {one} SET weight = weight WHERE FALSE",
                f"DELETE FROM {one} WHERE FALSE",
            )
        ]

    # -- recognising the tables --------------------------------------------------------

    def look(self) -> Query:
        """Read the columns of both tables, and their comments."""
        return Query(_LOOK, (f"{self.table}_door", f"{self.table}_place"))

    def are_there(self, rows: Rows) -> bool:
        """Return whether the tables exist; raise if they are not ours, or too new."""
        found: dict[str, dict[str, str]] = {"door": {}, "place": {}}
        for table, column, kind, remark, engine in rows:
            which = str(table).rpartition("_")[2].lower()
            found[which][str(column)] = str(kind).lower()
            check_format(f"`{table}`", str(remark))
            if str(engine).lower() != "innodb":
                raise ConfigurationError(
                    f"`{table}` is a table of {engine}, which has no transactions; "
                    "choose another table="
                )
        check_columns(self.door, "door", found["door"], _kinds(DOOR_COLUMNS))
        check_columns(self.place, "place", found["place"], _kinds(ENTRY_COLUMNS))
        return bool(found["door"] and found["place"])


def _kinds(columns: Mapping[str, str]) -> dict[str, str]:
    return {name: re.split(r"[ (]", kind)[0] for name, kind in columns.items()}
