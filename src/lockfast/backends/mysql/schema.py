"""The two tables in MySQL and MariaDB: how they are made, and how one knows that they are ours.

Keys are bytes: every collation of text takes some different names for the same.
"""

from __future__ import annotations

import re
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
from lockfast.errors import ConfigurationError
from lockfast.model import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockfast.backends.sql.steps import Rows, Steps

TEXT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

CLAIM = {
    "id": f"varchar(128) {TEXT}",
    "client": f"varchar(128) {TEXT}",
    "owner": f"mediumtext {TEXT}",
    "party": f"varchar(128) {TEXT}",
    "weight": "bigint",
    "ttl": "double",
    "lock_delay": "double",
    "min_hold": "double",
    "standing": "tinyint",
    "until": "double",
    "since": "double",
    "token": "bigint",
    "bell": f"varchar(128) {TEXT}",
}
KEY = "varbinary(640)"
DOOR = {
    "key": KEY,
    **CLAIM,
    "capacity": "bigint",
    "last_token": "bigint",
    "crowd": "bigint",
    "head": "bigint",
}
PLACE = {"key": KEY, "arrived": "bigint", **CLAIM}

_INNODB = f"ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='{REMARK}'"

_LOOK = """
SELECT c.TABLE_NAME, c.COLUMN_NAME, c.DATA_TYPE, t.TABLE_COMMENT, t.ENGINE
FROM information_schema.COLUMNS AS c JOIN information_schema.TABLES AS t
    ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME
WHERE c.TABLE_SCHEMA = DATABASE() AND c.TABLE_NAME IN (%s, %s)
"""


@dataclass(frozen=True, slots=True)
class Tables:
    """How the tables are called, in the database of the URL."""

    table: str = "lockfast"

    def __post_init__(self) -> None:
        check_name("table", self.table)

    @property
    def door(self) -> str:
        """The table of the names, as a statement says it."""
        return f"`{self.table}_door`"

    @property
    def place(self) -> str:
        """The table of all others, as a statement says it."""
        return f"`{self.table}_place`"

    @property
    def right_to_make(self) -> str:
        """What a user needs to make them, for people."""
        return "CREATE on the database"

    # -- making and dropping them ------------------------------------------------------

    def definition(self) -> list[str]:
        """Return the statements that make what is not there."""
        # Of a line of thousands a verb reads those who do not wait, and the front.
        keys = "PRIMARY KEY (`key`, arrived), KEY standings (`key`, standing, arrived)"
        door, place = columns_of(DOOR, quote="`"), columns_of(PLACE, quote="`")
        return [
            f"CREATE TABLE IF NOT EXISTS {self.door} ({door}, PRIMARY KEY (`key`)) {_INNODB}",
            f"CREATE TABLE IF NOT EXISTS {self.place} ({place}, {keys}) {_INNODB}",
        ]

    def removal(self) -> list[str]:
        """Return the statement that drops the tables."""
        return [f"DROP TABLE IF EXISTS {self.door}, {self.place}"]

    def as_schema(self) -> Schema:
        """Return both for people: what `lockfast init` makes, prints and drops."""
        return Schema((self.door, self.place), tuple(self.definition()), tuple(self.removal()))

    def make(self) -> Steps[None]:
        """Make what is not there."""
        yield [Ask(one) for one in self.definition()]

    def drop(self) -> list[Ask]:
        """Drop them, with all that is in them."""
        return [Ask(one) for one in self.removal()]

    def trial(self) -> list[Ask]:
        """Ask for all that a client does with them, of no row: only a missing right is told."""
        return [
            Ask(statement)
            for one in (self.door, self.place)
            for statement in (
                f"INSERT INTO {one} SELECT * FROM {one} WHERE FALSE",
                f"UPDATE {one} SET weight = weight WHERE FALSE",
                f"DELETE FROM {one} WHERE FALSE",
            )
        ]

    # -- knowing them ------------------------------------------------------------------

    def look(self) -> Ask:
        """Ask for the columns of both, and what is remarked on them."""
        return Ask(_LOOK, (f"{self.table}_door", f"{self.table}_place"))

    def are_there(self, rows: Rows) -> bool:
        """Return whether the tables are there; raise if they are not ours, or too new."""
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
        check_columns(self.door, "door", found["door"], _kinds(DOOR))
        check_columns(self.place, "place", found["place"], _kinds(PLACE))
        return bool(found["door"] and found["place"])


def _kinds(columns: Mapping[str, str]) -> dict[str, str]:
    return {name: re.split(r"[ (]", kind)[0] for name, kind in columns.items()}
